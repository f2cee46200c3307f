"""Programs of operators, drawn at random and judged by what may be so: others in every run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.programs.found import FOUND_OPERATORS
from tests.programs.operator_drawing import numbered, programs
from tests.programs.operator_prelude import Operators
from tests.programs.operator_requests import DONE, REFUSED, Asked, Request, after
from tests.programs.operator_states import State
from tests.programs.operator_tries import Tries
from tests.programs.operators import Turn, check_operators
from tests.programs.printed import run_by_itself
from tests.programs.running import BrokenPromiseError
from tests.programs.search import search
from tests.seeds import examples

MANY = int(os.environ.get("PROGRAMS", examples(20)))
_CREATE = Turn((Request(0, "create", (0, 1)),))
_WRITE = Request(1, "write", batch=7)


def test_every_answer_is_allowed_and_nothing_is_lost_or_left_half_done(three_brokers: LocalCluster) -> None:
    search(programs(most=8), lambda program: check_operators(three_brokers, program), MANY)


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND_OPERATORS)
def test_what_was_found_once_is_not_found_again(three_brokers: LocalCluster, name: str) -> None:
    check_operators(three_brokers, numbered([_CREATE, *FOUND_OPERATORS[name]]))


# -- the judge, judged ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_broken_promise_is_printed_as_code_that_runs_by_itself(
    three_brokers: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def pretended(_: Operators, who: int, topics: list[str], batch: int) -> Tries:
        return [[DONE]]

    turns = [_CREATE, Turn((Request(0, "alter", count=3), _WRITE)), Turn((Request(1, "grow", (1,), 4),))]
    with monkeypatch.context() as planted:
        planted.setattr(Operators, "write", pretended)
        with pytest.raises(BrokenPromiseError, match=r"batches in Kafka: \[\]") as found:
            check_operators(three_brokers, numbered(turns))
    code, output = run_by_itself(three_brokers, tmp_path, str(found.value))
    assert "at_once(" in code
    assert output == ""


_TWO = State(kafka=2, own=True, count=2, initial=2)
_GROWING = Request(0, "alter", count=3)


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ([Asked(_GROWING, (DONE,))], True),
        ([Asked(_GROWING, ("INVALID_PARTITIONS",))], False),
        ([Asked(_GROWING, (DONE,)), Asked(Request(1, "cancel"), (DONE,))], True),
        ([Asked(_GROWING, (DONE,)), Asked(Request(1, "alter", count=3), (DONE,))], False),
        ([Asked(Request(0, "delete"), (DONE,)), Asked(Request(1, "delete"), (DONE,))], True),
        ([Asked(Request(0, "delete"), (DONE,)), Asked(Request(1, "release"), (DONE,))], False),
        ([Asked(Request(0, "delete", dry=True), (DONE,)), Asked(Request(1, "release"), (DONE,))], True),
        ([Asked(_WRITE, (REFUSED, DONE), frozenset({0}))], False),
        ([Asked(_WRITE, (REFUSED, DONE), frozenset({1}))], True),
        ([Asked(_WRITE, (REFUSED, REFUSED), frozenset({1}))], False),
        ([Asked(_WRITE, (REFUSED, REFUSED), frozenset({0})), Asked(Request(0, "erase"), (DONE,))], True),
    ],
)
def test_only_answers_that_some_order_explains_are_allowed(asked: list[Asked], allowed: bool) -> None:
    assert bool(after(asked, {_TWO})) == allowed


def test_what_was_written_is_where_it_was_written() -> None:
    """A topic that is deleted and made again has nothing; one that was released and adopted has all, in order no longer."""
    states = {_TWO}
    for request in (
        _WRITE,
        Request(0, "alter", count=3),
        Request(0, "release"),
        Request(0, "adopt", force=True),
    ):
        states = after([Asked(request, (DONE,))], states)
    assert {(one.written, one.ordered, one.initial) for one in states} == {(frozenset({7}), False, 3)}
    for request in (Request(0, "erase"), Request(0, "make"), Request(0, "adopt")):
        states = after([Asked(request, (DONE,))], states)
    assert {(one.written, one.ordered, one.initial) for one in states} == {(frozenset(), True, 2)}
