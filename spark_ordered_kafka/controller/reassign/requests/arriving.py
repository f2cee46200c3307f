"""What moves that wait or are in progress will still bring to the volumes of brokers. PURE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    LogDir,
    PartitionId,
    Reassignment,
    Replica,
)

Arriving = Mapping[tuple[int, str | None], int]
"""Broker and log directory -> bytes; None: the broker may choose the directory."""


def arriving(
    pending: Iterable[Move],
    ongoing: Mapping[PartitionId, Reassignment],
    held: Mapping[Replica, LocalReplica],
) -> Arriving:
    """The bytes that are not copied yet: of ``pending`` moves of requests, and of what Kafka and brokers do for anybody.

    ``held``: all replicas. What a move brings is as large as the partition's largest replica.
    """
    targets: dict[Replica, str | None] = {
        (*tp, broker): None for tp, one in ongoing.items() for broker in one.adding
    }
    for move in pending:
        placements = move.placements
        targets.update({(*move.tp, broker): placements.get(broker) for broker in move.receiving})
    targets.update({replica: one.future_path for replica, one in held.items() if one.future_path is not None})
    sizes: dict[PartitionId, int] = defaultdict(int)
    for (topic, partition, _), one in held.items() if targets else ():
        sizes[topic, partition] = max(sizes[topic, partition], one.size)
    found: dict[tuple[int, str | None], int] = defaultdict(int)
    for replica, path in targets.items():
        topic, partition, broker = replica
        one = held.get(replica, NO_REPLICA)
        # In another directory it becomes a second log first.
        there = one.size if path is None or path == one.path else one.future_size
        found[broker, path] += max(0, sizes[topic, partition] - there)
    return found


def less(log_dirs: Sequence[LogDir], broker: int, due: Arriving) -> tuple[LogDir, ...]:
    """A broker's log directories with the space that is left once ``due`` has arrived.

    Where the broker may choose, each of its directories gets as much: it takes the one with fewest logs.
    """
    online = [one for one in log_dirs if one.online]
    anywhere = -(-due.get((broker, None), 0) // max(1, len(online)))

    def left(one: LogDir) -> int | None:
        if one.usable_bytes is None:
            return None
        return max(0, one.usable_bytes - due.get((broker, one.path), 0) - anywhere)

    return tuple(replace(one, usable_bytes=left(one)) for one in log_dirs)
