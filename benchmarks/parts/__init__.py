"""The parts of a run, by name; those of a quick run first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.figures import Measurement
from benchmarks.parts import (
    clients,
    floor,
    gate,
    growth,
    large,
    limits,
    load,
    micro,
    moves,
    pauses,
    placement,
    planning,
    reads,
    reassign,
    replay,
    start,
    writes,
)


@dataclass(frozen=True)
class Part:
    """``measure`` yields the figures of a part; ``quick``: whether a quick run has it."""

    name: str
    measure: Callable[[Bench], Iterator[Measurement]]
    quick: bool = True

    @property
    def about(self) -> str:
        """What it measures."""
        return (self.measure.__doc__ or "").splitlines()[0].replace("``", "")


PARTS = (
    Part("read-100", reads.small),
    Part("read-1k", reads.large),
    Part("read-available-now", reads.available_now),
    Part("read-value", reads.value_only),
    Part("write-100", writes.small),
    Part("write-1k", writes.large),
    Part("copy", writes.copy),
    Part("micro-batch", micro.small_batches),
    Part("transactions", micro.transactions),
    Part("moves", moves.moves),
    Part("replay-check", replay.replay_check),
    Part("clients", clients.clients),
    Part("start", start.start),
    Part("floor-read", floor.read),
    Part("floor-micro-batch", floor.micro_batches),
    Part("limits", limits.limits),
    Part("growth", growth.growth),
    Part("gate", gate.gate),
    Part("placement", placement.placement),
    Part("read-partitions", reads.partitions, quick=False),
    Part("read-compression", reads.compression, quick=False),
    Part("read-headers", reads.headers, quick=False),
    Part("read-grown", reads.grown, quick=False),
    Part("write-compression", writes.compression, quick=False),
    Part("write-partitions", writes.partitions, quick=False),
    Part("write-timestamps", writes.timestamps, quick=False),
    Part("backlog", reads.backlog, quick=False),
    Part("micro-batch-partitions", micro.partitions, quick=False),
    Part("pauses", pauses.pauses, quick=False),
    Part("planning", planning.planning, quick=False),
    Part("reassign", reassign.reassign, quick=False),
    Part("load", load.load, quick=False),
    Part("large-topic", large.large_topic, quick=False),
)
