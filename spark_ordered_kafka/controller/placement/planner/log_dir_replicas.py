"""Replicas that move between the log directories of their broker. PURE."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection

from spark_ordered_kafka.controller.placement.planner.swaps import TOLERANCE, WORTHWHILE
from spark_ordered_kafka.controller.placement.planner.values import Broker, Partition, Snapshot
from spark_ordered_kafka.controller.placement.planner.volumes import attainable_mean, shares
from spark_ordered_kafka.errors import ErrorCode, RequestError

Placements = dict[tuple[str, int], dict[int, str]]
"""(topic, partition) -> broker -> log directory."""

_Replica = tuple[int, str, int]  # bytes, topic, partition


def empty(snapshot: Snapshot, broker: Broker, emptied: Collection[str]) -> Placements:
    """Move every replica out of the directories ``emptied`` of a broker, to its other directories with fewest bytes.

    Raises RequestError GUARD_RAILS when one does not fit on their volumes.
    """
    placed: Placements = {}
    free = _Free(broker)
    targets = {one.path for one in broker.log_dirs or () if one.takes_replicas}.difference(emptied)
    for pool in _pools(snapshot):
        dirs = _contents(pool, broker)
        load = {path: load for path, load in _loads(pool, broker).items() if path in targets}
        going = [replica for path in dirs if path in emptied for replica in dirs[path]]
        for replica in sorted(going, key=lambda one: (-one[0], one[1:])):
            size, topic, partition = replica
            fitting = [path for path in load if free.fits(path, size)]
            if not fitting:
                raise RequestError(
                    ErrorCode.GUARD_RAILS,
                    f"partition {partition} of topic {topic!r} ({size} bytes) does not fit into another log directory of "
                    f"broker {broker.id}: {free.shown(load)}",
                )
            path = min(fitting, key=lambda path: (load[path], path))
            load[path] = (load[path][0] + size, load[path][1] + 1)
            free.take(path, size)
            placed[topic, partition] = {broker.id: path}
    return placed


def balance(snapshot: Snapshot, broker: Broker) -> Placements:
    """Give each of a broker's log directories its part of the bytes, within ``TOLERANCE``, or as near as moves come.

    What is in cordoned ones stays there.

    The parts are those of the volumes, or equal ones where some volume is not known.
    """
    placed: Placements = {}
    free = _Free(broker)
    share = shares({one.path: one.total_bytes for one in broker.log_dirs or () if one.takes_replicas})
    for pool in _pools(snapshot):
        dirs = {path: sorted(replicas) for path, replicas in _contents(pool, broker).items() if path in share}
        load = {path: size for path, (size, _) in _loads(pool, broker).items() if path in share}
        where = {replica: path for path, replicas in dirs.items() for replica in replicas}
        now = dict(where)
        mean = attainable_mean(sum(load.values()), (replica[0] for replica in where), len(load))
        while (step := _step(dirs, load, share, mean, free)) is not None:
            replica, source, target = step
            dirs[source].remove(replica)
            insort(dirs[target], replica)
            load[source] -= replica[0]
            load[target] += replica[0]
            free.take(target, replica[0])
            now[replica] = target
        placed |= {replica[1:]: {broker.id: path} for replica, path in now.items() if where[replica] != path}
    return placed


def _step(
    dirs: dict[str, list[_Replica]],
    load: dict[str, int],
    share: dict[str, float],
    mean: float,
    free: _Free,
) -> tuple[_Replica, str, str] | None:
    """The next replica, its source and target: between the fullest and the emptiest directory that allow it."""
    filled = {path: load[path] / share[path] for path in load}
    order = sorted(load, key=lambda path: (filled[path], path))
    for source in reversed(order):
        for target in order:
            # What source must give for both to be filled alike.
            even = (load[source] * share[target] - load[target] * share[source]) / (
                share[source] + share[target]
            )
            if even <= 0 or (
                filled[source] <= mean * (1 + TOLERANCE) and filled[target] >= mean * (1 - TOLERANCE)
            ):
                break
            candidates = dirs[source]
            above = bisect_left(candidates, (even, "", -1))
            near = sorted(
                candidates[max(0, above - 1) : above + 1], key=lambda one: (abs(one[0] - even), one)
            )
            for replica in near:
                if 0 < replica[0] < 2 * even * WORTHWHILE and free.fits(target, replica[0]):
                    return replica, source, target
    return None


def _pools(snapshot: Snapshot) -> list[list[Partition]]:
    live = [one for one in snapshot.partitions if one.status == "live"]
    return [live, [one for one in snapshot.partitions if one.status != "live"]]


def _contents(pool: list[Partition], broker: Broker) -> dict[str, list[_Replica]]:
    """The movable replicas in each online directory, in the order of directories."""
    found: dict[str, list[_Replica]] = {one.path: [] for one in broker.log_dirs or () if one.online}
    for one in pool:
        if broker.id in one.replicas and broker.id not in one.moving_log_dir and not one.moving:
            path = one.log_dir_on(broker.id)
            if path in found:
                found[path].append((one.size_on(broker.id) or 0, one.topic, one.partition))
    return found


def _loads(pool: list[Partition], broker: Broker) -> dict[str, tuple[int, int]]:
    """Bytes and number of all replicas in each online directory."""
    found = {one.path: (0, 0) for one in broker.log_dirs or () if one.online}
    for one in pool:
        path = one.log_dir_on(broker.id) if broker.id in one.replicas else None
        if path in found:
            size, count = found[path]
            found[path] = (size + (one.size_on(broker.id) or 0), count + 1)
    return found


class _Free:
    """Free bytes on the volumes of a broker's directories; a move takes them before it frees others."""

    def __init__(self, broker: Broker) -> None:
        self._left = {one.path: one.usable_bytes for one in broker.log_dirs or ()}

    def fits(self, path: str, size: int) -> bool:
        """Whether so many bytes fit; True if the free space is not known."""
        left = self._left[path]
        return left is None or size <= left

    def take(self, path: str, size: int) -> None:
        """Use them."""
        left = self._left[path]
        self._left[path] = None if left is None else left - size

    def shown(self, paths: Collection[str]) -> str:
        """The free bytes, for messages."""
        return ", ".join(f"{path} has {self._left[path]} bytes left" for path in paths)
