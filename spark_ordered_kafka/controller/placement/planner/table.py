"""Replica lists while they are being planned. PURE.

Brokers, racks and partitions go by their index here, which is several times faster than by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from spark_ordered_kafka.controller.placement.planner.values import Partition, Snapshot
from spark_ordered_kafka.controller.placement.round_robin import has_racks

State = tuple[list[list[int]], list[int], list[int]]


class Table:
    """All partitions with their planned replicas, and the remaining capacity of each broker.

    Racks are respected when every live broker has one, as in Kafka. A broker that is down without a known rack then counts
    as a rack of its own.

    Attributes:
        ids: broker id by index, ascending; ``index`` the other way round. ``alive`` has the indexes of live brokers, ``cordoned``
            of those among them that are to get no replicas.
        rack: rack by broker.
        partitions: sorted by topic and number. ``replicas``, ``size`` (bytes, 0 where not known), ``rate`` (bytes per second
            written), ``floor`` (racks that the partition is to be on at least) belong to them by index.
        room: replicas that a broker may still take; negative where a plan does not fit.
        volume: bytes of its volumes, and ``free``: what is left of them, ``free_in_one``: in one directory; None: not known.
        movable: indexes of partitions that may be planned.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.partitions = sorted(snapshot.partitions, key=lambda one: (one.topic, one.partition))
        known = {broker.id: broker for broker in snapshot.brokers}
        self.ids = sorted(known.keys() | {b for one in self.partitions for b in one.replicas})
        self.index = {broker: number for number, broker in enumerate(self.ids)}
        self.alive = [n for n, b in enumerate(self.ids) if b in known and known[b].alive]
        self.racked = has_racks({self.ids[n]: known[self.ids[n]].rack for n in self.alive})
        self.cordoned = {n for n in self.alive if known[self.ids[n]].is_cordoned}
        self.room = [known[b].room if b in known else 0 for b in self.ids]
        self.volume = [known[b].volume if b in known else None for b in self.ids]
        self.free = [known[b].free if b in known else None for b in self.ids]
        self.free_in_one = [known[b].free_in_one if b in known else None for b in self.ids]
        racks = {b: known[b].rack if b in known else None for b in self.ids} if self.racked else {}
        names = sorted({rack for rack in racks.values() if rack is not None})
        number = {rack: n for n, rack in enumerate(names)}
        self.rack = []
        for n, broker in enumerate(self.ids):
            rack = racks.get(broker)
            alone = len(names) + n if self.racked else 0
            self.rack.append(alone if rack is None else number[rack])
        index = self.index
        self.before = [tuple([index[b] for b in one.replicas]) for one in self.partitions]
        self.replicas = [list(brokers) for brokers in self.before]
        self.floor = (
            [self.spread(brokers) for brokers in self.before] if self.racked else [1] * len(self.before)
        )
        self.size = [one.size or 0 for one in self.partitions]
        self.rate = [one.write_rate for one in self.partitions]
        self.movable = [n for n, one in enumerate(self.partitions) if not one.moving and one.leader >= 0]

    def spread(self, brokers: Iterable[int]) -> int:
        """Number of racks of ``brokers``."""
        return len({self.rack[broker] for broker in brokers})

    def barred(self, partition: int, giving_up: int) -> Collection[int]:
        """Racks to which the replica on ``giving_up`` cannot move: the partition would be on too few."""
        if not self.racked:
            return ()
        rack = self.rack
        others = {rack[broker] for broker in self.replicas[partition] if broker != giving_up}
        return others if len(others) < self.floor[partition] else ()

    def move(self, partition: int, source: int, target: int) -> None:
        """Move a replica from ``source`` to ``target``."""
        replicas, before = self.replicas[partition], self.before[partition]
        replicas[replicas.index(source)] = target
        if source not in before:
            self.room[source] += 1
        if target not in before:
            self.room[target] -= 1

    def put(self, partition: int, replicas: Sequence[int]) -> None:
        """Give a partition that is as it was before the plan other replicas, perhaps more or fewer."""
        self.replicas[partition] = list(replicas)
        for broker in set(replicas).difference(self.before[partition]):
            self.room[broker] -= 1

    def keep_spread(self) -> None:
        """Let every partition be on as many racks as now, at least: what a goal has reached, the next ones keep."""
        if self.racked:
            self.floor = [self.spread(brokers) for brokers in self.replicas]

    def saved(self) -> State:
        """What is planned by now."""
        return [list(brokers) for brokers in self.replicas], list(self.room), list(self.floor)

    def restore(self, state: State) -> None:
        """Take back all that was planned since ``state`` was saved."""
        self.replicas, self.room, self.floor = state

    def changed(self) -> list[int]:
        """Indexes of the partitions whose replicas, or their order, have changed."""
        pairs = enumerate(zip(self.replicas, self.before, strict=True))
        return [n for n, (now, before) in pairs if tuple(now) != before]

    def pools(self) -> list[list[int]]:
        """Indexes of live partitions, and of those marked for deletion or deleted, each with those that are not movable."""
        live = [n for n, one in enumerate(self.partitions) if one.status == "live"]
        dead = [n for n, one in enumerate(self.partitions) if one.status != "live"]
        return [pool for pool in (live, dead) if pool]

    def counts(self, pool: Sequence[int]) -> list[int]:
        """Replicas by broker."""
        counts = [0] * len(self.ids)
        for partition in pool:
            for broker in self.replicas[partition]:
                counts[broker] += 1
        return counts

    def bytes(self, pool: Sequence[int]) -> list[int]:
        """Bytes by broker, once all replicas are as large as their leaders."""
        sums = [0] * len(self.ids)
        for partition in pool:
            size = self.size[partition]
            for broker in self.replicas[partition]:
                sums[broker] += size
        return sums

    def of(self, partition: int) -> Partition:
        """The partition's current state."""
        return self.partitions[partition]
