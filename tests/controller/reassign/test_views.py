"""Requests as they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.controller.reassign.execution.completion import ended_record
from spark_ordered_kafka.controller.reassign.requests.views import ended_summary, summary, view
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.controller.zk.records import dump, parse
from spark_ordered_kafka.updates import updated

RECORD = RequestRecord(request_id=7, created_at=1.0, principal="User:ann", throttle=5)


def move(partition: int, **more: Any) -> Move:
    fields = {"copied": {2: (partition, 10)}, "state": "moving", **more}
    return Move(topic="t", partition=partition, before=(1,), after=(2,), **fields)


def test_the_rows_of_moves_that_stay_as_they_are_are_made_once() -> None:
    moves = [move(0), move(1)]
    first = view(RECORD, moves)
    moves[1] = updated(moves[1], copied={2: (9, 10)})
    second = view(RECORD, moves)
    assert [row.numerator for row in first.replicas] == [0, 1]
    assert [row.numerator for row in second.replicas] == [0, 9]
    assert second.replicas[0] is first.replicas[0]
    assert second.numerator == 9


def test_rows_of_a_move_that_is_gone_are_not_those_of_another_one() -> None:
    """Memory is used again, so moves that are made and forgotten may have the same identity."""
    for partition in range(200):
        (row,) = view(RECORD, [move(partition)]).replicas
        assert (row.partition, row.numerator) == (partition, partition)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (("done", "done"), "done"),
        (("done", "cancelled"), "cancelled"),
        (("failed", "cancelled"), "failed"),
    ],
)
def test_how_a_request_ends_that_was_to_be_cancelled(states: tuple[str, ...], told: str) -> None:
    record = updated(RECORD, state="cancelling")
    moves = [move(number, state=state) for number, state in enumerate(states)]
    assert ended_record(record, moves, 9.0, []).state == told


def test_the_summary_of_a_request_that_has_ended_needs_no_moves() -> None:
    moves = [
        move(0, state="done", copied={2: (10, 10)}),
        move(1, state="failed", error_code=8, copied={2: (3, 10)}),
        move(2, state="cancelled", error_code=55, copied={}),
    ]
    ended = ended_record(RECORD, moves, 9.0, ["late"])
    stored = parse(RequestRecord, dump(ended), "path")
    assert stored.sums is not None
    assert ended_summary(stored, stored.sums) == summary(ended, moves)
    assert (ended.state, summary(ended, moves).numerator) == ("failed", 13)
