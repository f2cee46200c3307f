"""The package's code imports what its extras bring, and the ranges of versions are those that are tested."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
from packaging.version import Version

from spark_ordered_kafka.extras import MODULES, Extra
from tests.packaging.requirements import ROOT, distributions_of, required
from tests.test_imports import PACKAGE, module_name, modules

LOWEST = ROOT / "tests" / "constraints" / "lowest.txt"
# Distributions whose modules another one, which is required, re-exports or is made of.
PARTS = {"starlette": "fastapi", "pydantic-core": "pydantic", "py4j": "pyspark"}
# Each command's module is imported when it is called.
COMMANDS_OF_EXTRAS = {"autoscale", "autoscale_demo", "controller", "local", "demo", "migrate_checkpoint"}


def _runtime_imports(tree: ast.AST) -> Iterator[str]:
    """What a module imports, at once or later, but for the sake of types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from _runtime_imports(node)


@cache
def _graph() -> dict[str, frozenset[str]]:
    found = {
        module_name(path).removesuffix(".__init__"): frozenset(_runtime_imports(ast.parse(path.read_text())))
        for path in modules("**/*.py")
    }
    # Imports what it is asked for.
    del found[PACKAGE]
    return found


def libraries_of(roots: Collection[str]) -> dict[str, str]:
    """Third-party modules that parts of the package reach, and the module of the package that imports each."""
    graph, found, waiting, seen = _graph(), dict[str, str](), list(roots), set(roots)
    while waiting:
        module = waiting.pop()
        for name in graph[module]:
            top = name.partition(".")[0]
            if name in graph and name not in seen:
                seen.add(name)
                waiting.append(name)
            elif top not in {PACKAGE, *sys.stdlib_module_names}:
                found[top] = module
    return found


def part(*names: str) -> list[str]:
    prefixes = tuple(f"{PACKAGE}.{name}" for name in names)
    return [module for module in _graph() if f"{module}.".startswith(tuple(f"{one}." for one in prefixes))]


def plain() -> list[str]:
    return [
        *(module for module in part("client") if module != f"{PACKAGE}.client.metrics"),
        *(module for module in part("cli") if module.rpartition(".")[2] not in COMMANDS_OF_EXTRAS),
    ]


@pytest.mark.parametrize(
    ("roots_of", "extras"),
    [
        pytest.param(plain, (), id="plain"),
        pytest.param(partial(part, "spark", "cli.migrate_checkpoint"), ("spark",), id="spark"),
        pytest.param(partial(part, "controller", "cli.controller"), ("controller",), id="controller"),
        pytest.param(partial(part, "local", "demo", "cli"), ("local",), id="local"),
    ],
)
def test_code_imports_what_its_extra_brings(
    roots_of: Callable[[], list[str]], extras: tuple[str, ...]
) -> None:
    roots = roots_of()
    assert len(roots) > 3
    brought = required(*extras)
    for module, where in libraries_of(roots).items():
        names = {PARTS.get(name, name) for name in distributions_of().get(module, ())}
        # Lazily imported code of other extras is not here: kafka-python's errors are those of a controller's connections.
        if (module, where) == ("kafka", f"{PACKAGE}.kafka.security"):
            continue
        # Plain clients do without PKCS#12.
        if (module, where) == ("cryptography", f"{PACKAGE}.kafka.java_security"):
            continue
        assert names & brought.keys(), f"{where} imports {module}"


@pytest.mark.parametrize("extra", MODULES)
def test_the_modules_that_an_extra_is_known_by_are_its_own(extra: Extra) -> None:
    names = {name for module in MODULES[extra] for name in distributions_of()[module]}
    assert names <= required(extra).keys()
    assert not names & required().keys()


def test_lowest_versions_are_the_lower_bounds() -> None:
    """`make test-lowest` installs them."""
    lowest = {line.partition("==")[0]: line.partition("==")[2] for line in LOWEST.read_text().split()}
    bounds = {
        name: min(spec.version for spec in requirement.specifier if spec.operator == ">=")
        for name, requirement in required("all").items()
    }
    assert {name: Version(version) for name, version in lowest.items()} == {
        name: Version(version) for name, version in bounds.items()
    }


@pytest.mark.parametrize("name", sorted(required("all")))
def test_ranges_have_both_ends(name: str) -> None:
    requirement = required("all")[name]
    if requirement.name != "cryptography":  # whose numbers say nothing about compatibility
        assert {spec.operator for spec in requirement.specifier} == {">=", "<"}


def test_what_the_job_files_need_is_said_where_they_are(tmp_path: Path) -> None:
    """Jobs of the distribution import no more than what Spark needs to read and write."""
    jobs = sorted((ROOT / "jobs").glob("*.py"))
    own = {PACKAGE, "pyspark", *(path.stem for path in jobs)}
    for path in jobs:
        tops = {name.partition(".")[0] for name in _runtime_imports(ast.parse(path.read_text()))}
        others = tops - set(sys.stdlib_module_names) - own
        assert {name for module in others for name in distributions_of()[module]} <= required("spark").keys()
