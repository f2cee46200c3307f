"""The API's views of requests. PURE."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller import results
from spark_ordered_kafka.controller.reassign.machine.progress import (
    Rate,
    Totals,
    rows,
    seconds_left,
    totals,
)
from spark_ordered_kafka.controller.state.reassignment_records import (
    ENDED,
    Move,
    RequestRecord,
    Sums,
)
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request


def summary(
    record: RequestRecord, moves: Sequence[Move], rate: Rate | None = None
) -> schemas.ReassignmentSummary:
    """A request and its progress; ``rate`` None: not measured."""
    return _summary(record, totals(moves), rate)


def ended_summary(record: RequestRecord, sums: Sums) -> schemas.ReassignmentSummary:
    """A request that has ended, with the sums of its record."""
    states = Counter(sums.states)
    return _summary(record, Totals(sums.numerator, sums.denominator, 0, states), None)


def _summary(record: RequestRecord, sums: Totals, rate: Rate | None) -> schemas.ReassignmentSummary:
    return results.view(
        schemas.ReassignmentSummary,
        record,
        complete=record.ended,
        numerator=sums.numerator,
        denominator=sums.denominator,
        rate=0.0 if record.ended or rate is None else rate.per_second or 0.0,
        eta_seconds=0.0 if record.ended else seconds_left(sums, rate),
        waiting=sums.states["waiting"],
        moving=sums.moving,
        done=sums.states["done"],
        failed=sums.states["failed"],
        cancelled=sums.states["cancelled"],
        warnings=list(record.warnings),
    )


def view(record: RequestRecord, moves: Sequence[Move], rate: Rate | None = None) -> schemas.ReassignmentView:
    """A request with the progress of each replica."""
    replicas = [one for move in moves for one in _shown.of(move)]
    return schemas.ReassignmentView(**summary(record, moves, rate).__dict__, replicas=replicas)


def refused(
    rows: Sequence[schemas.PartitionReassignment], reasons: Mapping[int, RequestError]
) -> schemas.ReassignmentResult:
    """The answer to a refused request. ``reasons``: errors by index of the row; other rows say that others were refused."""
    other = invalid_request("not started: other partitions of the request were refused")
    return schemas.ReassignmentResult(
        request_id=None,
        partitions=[
            results.result(
                schemas.PartitionResult, reasons.get(index, other), topic=row.topic, partition=row.partition
            )
            for index, row in enumerate(rows)
        ],
    )


def taken(
    request_id: int | None, moves: Sequence[Move], warnings: Sequence[str]
) -> schemas.ReassignmentResult:
    """The answer to an accepted request; ``request_id`` None: it was only checked."""
    rows = [schemas.PartitionResult(topic=move.topic, partition=move.partition) for move in moves]
    return schemas.ReassignmentResult(request_id=request_id, partitions=rows, warnings=list(warnings))


def cancelled(record: RequestRecord, move: Move) -> schemas.PartitionResult:
    """The result of a cancel for one partition."""
    if not record.ended and move.state not in ENDED:
        return schemas.PartitionResult(topic=move.topic, partition=move.partition)
    state = record.state if move.state not in ENDED else move.state
    error = RequestError(
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        f"partition {move.topic}-{move.partition} of request {record.request_id} has ended: {state}",
    )
    return results.result(schemas.PartitionResult, error, topic=move.topic, partition=move.partition)


class _Shown:
    """A cache of rows: of 5,000 moves that are shown again a second later, few have changed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Move], list[schemas.ReplicaProgress]]] = {}

    def of(self, move: Move) -> list[schemas.ReplicaProgress]:
        """The rows of a move, which is immutable and found by identity."""
        key = id(move)
        known = self._known.get(key)
        if known is not None and known[0]() is move:
            return known[1]
        shown = list(rows(move))
        self._known[key] = weakref.ref(move, partial(self._forget, key)), shown
        return shown

    def _forget(self, key: int, gone: weakref.ref[Move]) -> None:
        known = self._known.get(key)
        if known is not None and known[0] is gone:
            del self._known[key]


_shown = _Shown()
