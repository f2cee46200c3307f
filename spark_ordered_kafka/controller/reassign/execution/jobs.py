"""Requests that a controller carries out, as it keeps them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_ordered_kafka.controller.reassign.machine.progress import Rate
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.kafka.values import PartitionId


@dataclass(frozen=True)
class Shown:
    """A request as others may see it."""

    record: RequestRecord
    moves: Sequence[Move]
    rate: Rate | None


@dataclass
class Job:
    """A request that is carried out.

    Attributes:
        warned: warnings it had from the start; ``warnings`` are those of now.
        intended: moves that are stored as about to begin, or further.
        limited: its throttles are set.
        dirty: its moves are not stored as they are; they will be at ``next_store``.
        ending_since: all of its moves have ended.
    """

    record: RequestRecord
    warned: tuple[str, ...]
    intended: set[PartitionId]
    warnings: tuple[str, ...] = ()
    rate: Rate | None = None
    limited: bool = False
    dirty: bool = False
    next_store: float = float("-inf")
    ending_since: float | None = None
    elected: bool = False

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Its throttles."""
        return self.record.throttle, self.record.replica_alter_log_dirs_throttle

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """Without repetition."""
        return tuple(dict.fromkeys((*self.warned, *self.warnings)))
