"""Volumes of brokers and of log directories: their share of the bytes, and whether they can take what a plan copies. PURE."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest
from typing import TypeVar

from spark_ordered_kafka.controller.placement.planner.table import Table
from spark_ordered_kafka.errors import ErrorCode, RequestError

_KeyT = TypeVar("_KeyT")


def shares(volumes: Mapping[_KeyT, int | None]) -> dict[_KeyT, float]:
    """How much of the bytes each should have, 1 on average: in proportion to its volume, where all of them are known."""
    known = [volume for volume in volumes.values() if volume]
    if len(known) < len(volumes):
        return dict.fromkeys(volumes, 1.0)
    return {key: (volume or 0) * len(known) / sum(known) for key, volume in volumes.items()}


def attainable_mean(total: int, sizes: Iterable[int], brokers: int) -> float:
    """What each of so many ``brokers``, or log directories, can have of ``total`` bytes.

    The mean. A replica that is larger than it cannot be divided: such ``sizes``, and as many brokers, are left out (D-396).
    """
    left = brokers
    for size in nlargest(brokers - 1, sizes):
        if size * left <= total:
            break
        total -= size
        left -= 1
    return total / max(1, left)


def make_fit(table: Table, targets: Collection[int]) -> None:
    """Let ``targets`` that have the space take what a plan copies to brokers that do not have it.

    What leaves a broker is deleted at the end of a reassignment only, so it makes no space; but what comes back to a broker
    of ``targets`` that has it is not copied, and fits. Raises RequestError GUARD_RAILS where that does not help.
    """
    copied: dict[int, int] = defaultdict(int)
    gained: dict[int, list[int]] = defaultdict(list)
    for partition in table.changed():
        for broker in set(table.replicas[partition]).difference(table.before[partition]):
            copied[broker] += table.size[partition]
            gained[broker].append(partition)

    def left(broker: int) -> float:
        free = table.free[broker]
        return math.inf if free is None else free - copied[broker]

    def largest(broker: int) -> float:
        """Bytes that a replica has at most: it lies in one directory."""
        return math.inf if table.free[broker] is None else table.free_in_one[broker] or 0

    def takes(target: int, partition: int) -> bool:
        size = table.size[partition]
        there = target in table.before[partition]
        return there or (table.room[target] > 0 and left(target) >= size and largest(target) >= size)

    too_large: dict[int, int] = {}
    for broker in sorted(gained):
        for partition in sorted(gained[broker], key=lambda one: (-table.size[one], one)):
            size, barred = table.size[partition], table.barred(partition, broker)
            if left(broker) >= 0 and largest(broker) >= size:
                break
            fitting = [
                target
                for target in sorted(targets)
                if target not in table.replicas[partition]
                and table.rack[target] not in barred
                and takes(target, partition)
            ]
            if fitting:
                target = max(fitting, key=left)
                table.move(partition, broker, target)
                copied[broker] -= size
                copied[target] += 0 if target in table.before[partition] else size
            elif largest(broker) < size:
                too_large.setdefault(broker, size)
    lacking = [
        f"broker {table.ids[broker]} would get {copied[broker]} bytes and has {table.free[broker]} left"
        for broker in sorted(gained)
        if left(broker) < 0
    ] + [
        f"broker {table.ids[broker]} would get a replica of {size} bytes and has {table.free_in_one[broker]} left in a directory"
        for broker, size in too_large.items()
        if left(broker) >= 0
    ]
    if lacking:
        raise RequestError(
            ErrorCode.GUARD_RAILS,
            f"the volumes cannot take what would be copied: {'; '.join(lacking)}; plan for fewer topics at a time",
        )
