"""How much a run measures."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Scale:
    """``small`` records of 100 bytes and ``large`` ones of 1 kB are read and written ``rounds`` times by each contender.

    ``large_backlog``: records of 100 bytes that streams run through, so many that their start weighs little.

    ``micro_batches``: of a run whose median counts; ``transactions``: of a writer, one after another; ``backlog_mb``: what
    one worker reads while its memory is watched; ``partitions``: the most of a topic whose planning is timed.

    ``cluster_brokers``, ``cluster_partitions``: of the made-up cluster that replicas are placed and moved in.
    ``moved_partitions``, ``moved_mb``: what is moved between real brokers; ``status_replicas``: replicas of a request whose
    status is asked, an even number; ``moved_at_once``: partitions with hardly a record that one request moves.
    ``large_partitions``: the most of a real topic. ``polling_clients``: clients that ask one controller for layouts; ``crowd``: producers at a
    change.
    """

    name: str
    small: int
    large: int
    large_backlog: int
    rounds: int
    micro_batches: int
    transactions: int
    backlog_mb: int
    partitions: int
    cluster_brokers: int
    cluster_partitions: int
    moved_partitions: int
    moved_mb: int
    status_replicas: int
    moved_at_once: int
    large_partitions: int
    polling_clients: int
    crowd: int


FULL = Scale(
    "full",
    small=2_000_000,
    large=600_000,
    large_backlog=10_000_000,
    rounds=5,
    micro_batches=40,
    transactions=100,
    backlog_mb=2_000,
    partitions=10_000,
    cluster_brokers=1_000,
    cluster_partitions=200_000,
    moved_partitions=100,
    moved_mb=1_000,
    status_replicas=10_000,
    moved_at_once=1_000,
    large_partitions=5_000,
    polling_clients=200,
    crowd=500,
)
QUICK = replace(
    FULL,
    name="quick",
    small=1_000_000,
    large=300_000,
    large_backlog=3_000_000,
    micro_batches=20,
    transactions=50,
    backlog_mb=300,
)
TINY = Scale(
    "tiny",
    small=2_000,
    large=1_000,
    large_backlog=3_000,
    rounds=1,
    micro_batches=4,
    transactions=5,
    backlog_mb=2,
    partitions=100,
    cluster_brokers=40,
    cluster_partitions=300,
    moved_partitions=3,
    moved_mb=3,
    status_replicas=200,
    moved_at_once=5,
    large_partitions=20,
    polling_clients=5,
    crowd=3,
)
"""For a test of the benchmark itself."""
