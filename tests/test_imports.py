"""Dependencies point downward only, and the pure core stays pure: both read off the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

PACKAGE = "spark_ordered_kafka"
ROOT = Path(__file__).parents[1] / PACKAGE

# Each may import from those before it and from itself; the package's own __init__ comes last.
LAYERS = (
    "version",
    "errors",
    "extras",
    "json_texts",
    "json_options",
    "parsing",
    "updates",
    "locking",
    "signals",
    "listed",
    "credentials",
    "config",
    "checker",
    "ordering",
    "native",
    "kafka",
    "client",
    "spark",
    "controller",
    "local",
    "demo",
    "cli",
    "__init__",
)
# The same inside the controller, whose folders are layers.
CONTROLLER_LAYERS = (
    "automation.rules",
    "automation.configuration",
    "autoscale.rules",
    "autoscale.configuration",
    "healing.rules",
    "healing.configuration",
    "settings",
    "results",
    "shared_query",
    "web",
    "zk",
    "access",
    "placement",
    "change.protocol",
    "state",
    "policy",
    "reassign.machine",
    "monitoring",
    "background",
    "topics",
    "change",
    "reassign.throttle",
    "reassign.requests",
    "reassign.execution",
    "reassign.log_dirs",
    "automation",
    "autoscale",
    "healing",
    "composition",
    "leadership",
    "service",
    "api.http",
    "api.middleware",
    "api.routes",
    "api",
    "config",
    "server",
)
CONTROLLER = f"{PACKAGE}.controller"
# local starts the controller as a process of its own, as a user would.
FORBIDDEN_PAIRS = {("local", "controller")}

PURE = (
    "ordering/*.py",
    "kafka/values.py",
    "controller/automation/rules.py",
    "controller/autoscale/load.py",
    "controller/autoscale/policy.py",
    "controller/autoscale/records.py",
    "controller/autoscale/rules.py",
    "controller/autoscale/simulation.py",
    "controller/healing/observation.py",
    "controller/healing/policy.py",
    "controller/healing/records.py",
    "controller/healing/rules.py",
    "controller/change/boundaries.py",
    "controller/change/machine.py",
    "controller/change/planning.py",
    "controller/change/protocol.py",
    "controller/placement/**/*.py",
    "controller/reassign/log_dirs/move_plan.py",
    "controller/reassign/machine/*.py",
    "controller/state/change.py",
    "controller/state/reassignment_records.py",
    "controller/reassign/requests/validation.py",
    "controller/reassign/requests/views.py",
    "controller/reassign/throttle/policy.py",
    "controller/topics/earlier.py",
    "controller/topics/unread_groups.py",
)
IMPURE_MODULES = {
    "asyncio", "concurrent", "confluent_kafka", "fastapi", "glob", "http", "httpx2", "io", "kafka", "kazoo",
    "multiprocessing", "os", "pathlib", "psutil", "pyspark", "queue", "random", "requests", "sched", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "tenacity",
    "threading", "time", "urllib", "uvicorn", "uuid",
}  # fmt: skip
# Values, without anything that asks for them.
PURE_VALUES = tuple(f"{PACKAGE}.{name}" for name in ("kafka.values", "client.schemas"))
IMPURE_LAYERS = {"kafka", "client", "spark", "local", "demo", "cli"}
IMPURE_CALLS = {"open", "input", "print", "exec", "eval"}
# datetime.now(), date.today(), numpy.random, ...
IMPURE_ATTRIBUTES = {"now", "utcnow", "today", "random"}


def imports(source: str, module: str) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of everything a module imports, wherever in it; ``module`` is its dotted name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: -node.level]
                base = ".".join([*parents, base] if base else parents)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def layer_of(name: str) -> str | None:
    """The layer an absolute name of this package belongs to; None for other packages."""
    parts = name.split(".")
    if parts[0] != PACKAGE:
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "__init__"


def controller_layer_of(name: str) -> str | None:
    """The folder or module of the controller that an absolute name belongs to; None for what is none of its."""
    inner = name.removeprefix(f"{CONTROLLER}.")
    found = [layer for layer in CONTROLLER_LAYERS if f"{inner}.".startswith(f"{layer}.")]
    return max(found, key=len, default=None) if inner != name else None


def upward_imports(source: str, module: str) -> list[str]:
    """Imports of a layer above the module's own, in the package and, for a module of the controller, in the controller."""
    assert layer_of(module) is not None
    return [
        *_upward(source, module, LAYERS, layer_of),
        *_upward(source, module, CONTROLLER_LAYERS, controller_layer_of),
    ]


def _upward(
    source: str, module: str, layers: Sequence[str], layer_in: Callable[[str], str | None]
) -> Iterator[str]:
    own = layer_in(module)
    if own is None:
        return
    allowed = set(layers[: layers.index(own) + 1]) - {
        above for below, above in FORBIDDEN_PAIRS if below == own
    }
    for line, name in imports(source, module):
        if (layer := layer_in(name)) is not None and layer not in allowed:
            yield f"line {line}: {own} imports {name}"


def impurities(source: str, module: str) -> list[str]:
    found = []
    for line, name in imports(source, module):
        if name.startswith(PURE_VALUES):
            continue
        if name.split(".")[0] in IMPURE_MODULES or layer_of(name) in IMPURE_LAYERS:
            found.append(f"line {line}: imports {name}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in IMPURE_ATTRIBUTES:
            found.append(f"line {node.lineno}: uses .{node.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}")
    return found


def module_name(path: Path) -> str:
    # A package's __init__ keeps its last part, so that a relative import in it resolves to the package itself.
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)


def modules(*patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert parts <= set(LAYERS), "say in LAYERS where it belongs"


@pytest.mark.parametrize("path", modules("**/*.py"), ids=shown)
def test_imports_point_downward(path: Path) -> None:
    assert upward_imports(path.read_text(encoding="utf-8"), module_name(path)) == []


def test_the_package_does_without_what_is_not_installed_with_it() -> None:
    names = {
        name.split(".")[0]
        for path in modules("**/*.py")
        for _, name in imports(path.read_text(encoding="utf-8"), module_name(path))
    }
    assert names & {"benchmarks", "jobs", "tests"} == set()


def test_every_part_of_the_controller_has_a_layer() -> None:
    parts = [path for path in (ROOT / "controller").rglob("*.py") if path.name != "__init__.py"]
    assert [shown(path) for path in parts if controller_layer_of(module_name(path)) is None] == []


@pytest.mark.parametrize("path", modules(*PURE), ids=shown)
def test_the_pure_core_has_no_io_clock_or_randomness(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8"), module_name(path)) == []


def test_the_pure_core_is_where_it_is_looked_for() -> None:
    assert {"gate.py", "hashing.py", "layout.py", "linear.py"} <= {path.name for path in modules(*PURE)}


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("ordering.gate", "from spark_ordered_kafka.kafka import admin", 1),
        ("ordering.gate", "from ..kafka.admin import x", 1),
        ("ordering.__init__", "from .gate import readable", 0),
        ("ordering.__init__", "from ..cli import main", 1),
        ("ordering.gate", "def f():\n    import spark_ordered_kafka.spark.reader", 1),
        ("ordering.gate", "from spark_ordered_kafka import errors, local", 1),
        ("errors", "from spark_ordered_kafka import register", 1),
        ("local.cluster", "from spark_ordered_kafka.controller import service", 1),
        ("local.cluster", "from spark_ordered_kafka.client.controller import ControllerClient", 0),
        ("cli.main", "import kafka, kazoo\nfrom spark_ordered_kafka.controller import service", 0),
        ("__init__", "from spark_ordered_kafka.cli import main", 0),
    ],
)
def test_the_direction_check_sees(module: str, source: str, expected: int) -> None:
    assert len(upward_imports(source, f"{PACKAGE}.{module}")) == expected


@pytest.mark.parametrize(
    ("module", "imported", "expected"),
    [
        ("zk.session", "controller.settings", 0),
        ("zk.session", "controller.state.topics", 1),
        ("reassign.machine.steps", "controller.reassign.execution.executor", 1),
        ("reassign.execution.executor", "controller.reassign.machine.steps", 0),
        ("api.http.errors", "controller.api.routes.topics", 1),
        ("api.app", "controller.api.routes.topics", 0),
        ("topics.queries", "kafka.admin", 0),
    ],
)
def test_the_direction_check_sees_into_the_controller(module: str, imported: str, expected: int) -> None:
    source = f"import {PACKAGE}.{imported}"
    assert len(upward_imports(source, f"{CONTROLLER}.{module}")) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time", 1),
        ("from os.path import join", 1),
        ("import logging\nfrom datetime import timedelta", 0),
        ("import datetime\ndatetime.datetime.now()", 1),
        ("import numpy as np\nnp.random.default_rng()", 1),
        ("open('x')", 1),
        ("from spark_ordered_kafka.kafka import fence", 1),
        ("from spark_ordered_kafka.kafka.values import TopicDescription", 0),
        ("from spark_ordered_kafka.ordering import readable", 0),
    ],
)
def test_the_purity_check_sees(source: str, expected: int) -> None:
    assert len(impurities(source, f"{PACKAGE}.controller.change.machine")) == expected
