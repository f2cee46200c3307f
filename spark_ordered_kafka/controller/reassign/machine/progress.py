"""How far a request is: bytes of every receiving replica, their sum, rate and the time that is left. PURE."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_ordered_kafka.client.schemas.reassignments import ReplicaProgress
from spark_ordered_kafka.controller.reassign.machine.cluster_state import Directories, Partition
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.errors import ErrorCode, error_name
from spark_ordered_kafka.updates import updated

UNKNOWN = -1
"""KIP-179: a denominator that is not known; it is never 0."""

# Seconds in which the rate forgets about two thirds of what was before.
_SMOOTHING = 4.0
_IN_PROGRESS = ErrorCode.REASSIGNMENT_IN_PROGRESS


@dataclass(frozen=True)
class Totals:
    """Sums over a request. ``remaining``: bytes still to be copied by moves that have not ended, None: not known. ``states``
    counts the moves."""

    numerator: int
    denominator: int
    remaining: int | None
    states: Counter[str]

    @property
    def moving(self) -> int:
        """Moves that have begun and not ended."""
        return self.states["starting"] + self.states["moving"] + self.states["placing"]


@dataclass(frozen=True)
class Rate:
    """Bytes per second, smoothed; ``numerator``: bytes copied at ``at`` (seconds)."""

    at: float
    numerator: int
    per_second: float | None = None

    def after(self, at: float, numerator: int) -> Rate:
        """The rate after ``numerator`` bytes are copied. Fewer than before count as no progress."""
        seconds = at - self.at
        if seconds <= 0:
            return self
        now = max(0, numerator - self.numerator) / seconds
        if self.per_second is None:
            return Rate(at, numerator, now)
        kept = math.exp(-seconds / _SMOOTHING)
        return Rate(at, numerator, kept * self.per_second + (1 - kept) * now)


def measured(move: Move, partition: Partition | None, directories: Directories) -> Move:
    """``move`` with the bytes in ``directories``; those of brokers that did not answer stay unchanged.

    The total is the size of the leader's log, or of the replica that is copied to another log directory.
    """
    if not move.receiving:
        return move
    copied = dict(move.copied)
    placements = move.placements
    for broker in move.receiving:
        there, whole = copied.get(broker, (0, UNKNOWN))
        held = directories.of(move.tp, broker)
        if broker in move.before:
            whole = max(1, held.size) if held.path is not None else whole
            there = held.size if held.path == placements.get(broker) else held.future_size
        else:
            leader = UNKNOWN if partition is None else partition.leader
            source = directories.of(move.tp, leader)
            if leader in directories.answered and source.path is not None and leader not in move.adding:
                whole = max(1, source.size)
            there = held.size if broker in directories.answered else there
        copied[broker] = (there if whole == UNKNOWN else min(there, whole), whole)
    return move if copied == move.copied else updated(move, copied=copied)


def completed(move: Move) -> Move:
    """``move`` with all of its bytes copied."""
    copied = {
        broker: (max(1, there, whole), max(1, there, whole))
        for broker in move.receiving
        for there, whole in [move.copied.get(broker, (0, UNKNOWN))]
    }
    return updated(move, copied=copied)


def unmeasured(move: Move) -> tuple[int, ...]:
    """Brokers whose bytes are not known, of a move that was done before they could be measured."""
    if move.state != "done":
        return ()
    return tuple(broker for broker in move.receiving if move.copied.get(broker) == (1, 1))


def measured_late(move: Move, directories: Directories) -> Move:
    """A move that is done, with the bytes of the replicas that were :func:`unmeasured`."""
    sizes = {broker: max(1, directories.of(move.tp, broker).size) for broker in unmeasured(move)}
    copied = {**move.copied, **{broker: (size, size) for broker, size in sizes.items()}}
    return updated(move, copied=copied) if copied != move.copied else move


def rows(move: Move) -> Iterator[ReplicaProgress]:
    """The progress of each replica that receives; if no data is copied, of each with a log directory, or else of the preferred
    leader."""
    placements = move.placements
    code = move.error_code if move.state in ENDED else _IN_PROGRESS
    for broker, there, whole in _bytes(move):
        # Measured for 10,000 of them: this takes 25 ms, pydantic's model_construct 150.
        yield ReplicaProgress(
            topic=move.topic,
            partition=move.partition,
            broker=broker,
            numerator=there,
            denominator=whole,
            log_dir=placements.get(broker),
            error_code=code,
            error=error_name(code),
            error_message=move.error_message,
        )


def totals(moves: Iterable[Move]) -> Totals:
    """The sums. An unknown size does not count for a move that has ended without copying."""
    numerator = denominator = remaining = 0
    known = remaining_known = True
    states: Counter[str] = Counter()
    for move in moves:
        states[move.state] += 1
        ended = move.state in ENDED
        for _, there, whole in _bytes(move):
            numerator += there
            if whole != UNKNOWN:
                denominator += whole
                remaining += 0 if ended else whole - there
            elif not ended:
                known = remaining_known = False
    return Totals(
        numerator,
        max(1, denominator) if known else UNKNOWN,
        remaining if remaining_known else None,
        states,
    )


def seconds_left(sums: Totals, rate: Rate | None) -> float | None:
    """Estimated seconds until all is copied at this rate; None: not known."""
    if sums.moving == 0 and sums.states["waiting"] == 0:
        return 0.0
    if sums.remaining is None or rate is None or not rate.per_second:
        return None
    return sums.remaining / rate.per_second


def _bytes(move: Move) -> list[tuple[int, int, int]]:
    """Broker, bytes copied, and bytes in all."""
    receiving = move.receiving
    if not receiving:
        return [(broker, 1 if move.state == "done" else 0, 1) for broker in move.placements or move.after[:1]]
    return [(broker, *move.copied.get(broker, (0, UNKNOWN))) for broker in receiving]
