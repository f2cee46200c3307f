"""Which consumer groups have not read a partition to its end. PURE, apart from ``holds_records``."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def unread_groups(
    logs: Mapping[int, tuple[int, int]],
    committed: Mapping[str, Mapping[int, int]],
    holds_records: Callable[[Mapping[int, tuple[int, int]]], set[int]],
) -> dict[int, list[str]]:
    """Groups, sorted, that have not read a partition to its end; omits partitions that all groups have read.

    A group that has read everything may have committed less than the end, since a log may end with control and aborted
    records, so the records must be checked. A few checks are enough: the answer for one group holds for all that have read
    less, and each check covers all partitions.

    Args:
        logs: log start and log end, by partition.
        committed: group -> partition -> committed offset; without one, a group's position is the log start.
        holds_records: which partitions have a record at offsets [start, end).
    """
    positions = {
        partition: {group: max(start, offsets.get(partition, start)) for group, offsets in committed.items()}
        for partition, (start, _) in logs.items()
    }
    # Per partition, an offset from which no record is left to read; at first its end.
    read_from = {partition: end for partition, (_, end) in logs.items()}
    open_positions = {
        partition: sorted({offset for offset in found.values() if offset < logs[partition][1]})
        for partition, found in positions.items()
    }
    while ranges := {p: (left[-1], read_from[p]) for p, left in open_positions.items() if left}:
        unread = holds_records(ranges)
        for partition, (start, _) in ranges.items():
            if partition in unread:
                open_positions[partition].clear()
            else:
                read_from[partition] = start
                open_positions[partition].pop()
    waiting = {
        partition: sorted(group for group, offset in found.items() if offset < read_from[partition])
        for partition, found in positions.items()
    }
    return {partition: groups for partition, groups in waiting.items() if groups}
