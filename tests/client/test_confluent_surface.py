"""Every public method and argument of confluent-kafka's clients is here: one that a later version adds is noticed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from spark_ordered_kafka import OrderedConsumer, OrderedProducer

CLASSES = {"Consumer": OrderedConsumer, "Producer": OrderedProducer}
# Arguments that confluent-kafka's clients take by position in another order, or with another default, and why.
DIFFERENT_DEFAULTS = {
    ("Consumer", "commit", "asynchronous"),  # commits always wait (D-103): the result is there
    ("Consumer", "committed", "timeout"),
    ("Consumer", "get_watermark_offsets", "timeout"),  # None is for no limit, as -1
    ("Consumer", "offsets_for_times", "timeout"),
    ("Consumer", "poll", "timeout"),
    ("Producer", "poll", "timeout"),  # 0: a producer that has nothing to report does not wait
}
DIFFERENT_PLACES = {("Producer", "produce")}


def stub() -> ast.Module:
    """The stub of confluent-kafka's C module, which has the signatures."""
    return ast.parse((Path(confluent_kafka.__file__).parent / "cimpl.pyi").read_text(encoding="utf-8"))


def methods(name: str) -> dict[str, list[ast.FunctionDef]]:
    (found,) = (node for node in stub().body if isinstance(node, ast.ClassDef) and node.name == name)
    by_name: dict[str, list[ast.FunctionDef]] = {}
    for node in found.body:
        if isinstance(node, ast.FunctionDef):
            by_name.setdefault(node.name, []).append(node)
    return by_name


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_is_here(name: str) -> None:
    theirs = getattr(confluent_kafka, name)
    assert public(theirs) <= public(CLASSES[name])
    assert public(theirs) == {method for method in methods(name) if not method.startswith("_")}
    special = {"__enter__", "__exit__", "__len__", "__bool__", "__iter__", "__next__"}
    assert special & set(dir(theirs)) <= set(dir(CLASSES[name]))


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, method) for name in CLASSES for method in methods(name) if not method.startswith("_")],
)
def test_every_argument_is_here(name: str, method: str) -> None:
    ours = inspect.signature(getattr(CLASSES[name], method)).parameters
    for overload in methods(name)[method]:
        given = overload.args
        named = [one.arg for one in given.args]
        assert {*named, *(one.arg for one in given.kwonlyargs)} <= ours.keys()
        if (name, method) not in DIFFERENT_PLACES and not given.kwonlyargs:
            assert list(ours)[: len(named)] == named
        defaults = dict(zip(reversed(named), reversed(given.defaults), strict=False))
        for argument, node in defaults.items():
            if (name, method, argument) in DIFFERENT_DEFAULTS or not isinstance(
                node, ast.Constant | ast.UnaryOp
            ):
                continue
            expected: Any = ast.literal_eval(node)
            if expected is not ...:
                assert ours[argument].default == expected, argument


@pytest.mark.parametrize("exceptions", [DIFFERENT_DEFAULTS, DIFFERENT_PLACES])
def test_what_is_allowed_to_differ_exists(exceptions: set[tuple[str, ...]]) -> None:
    for name, method, *_ in exceptions:
        assert method in methods(name)
