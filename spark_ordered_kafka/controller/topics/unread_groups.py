"""Which consumer groups have not read a partition to its end. PURE, apart from the question that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def behind(
    tails: Mapping[int, tuple[int, int]],
    committed: Mapping[str, Mapping[int, int]],
    holds_records: Callable[[Mapping[int, tuple[int, int]]], set[int]],
) -> dict[int, list[str]]:
    """Groups, sorted, that have not read a partition to its end; partitions that all have read are left out.

    A group that has read everything may have committed less than the end, since a log also ends with control and aborted
    records. Only a look at the records tells; a few are enough, since one group's answer holds for those that are further
    behind, and all partitions are asked about at the same time.

    Args:
        tails: log start and log end, by partition.
        committed: group -> partition -> committed offset; a group that has committed nothing stands at the log start.
        holds_records: which partitions have a record at offsets [start, end).
    """
    positions = {
        partition: {group: max(start, offsets.get(partition, start)) for group, offsets in committed.items()}
        for partition, (start, _) in tails.items()
    }
    # Offsets from which on nothing is left to read. From the end on that is certain.
    read_from = {partition: end for partition, (_, end) in tails.items()}
    open_positions = {
        partition: sorted({offset for offset in found.values() if offset < tails[partition][1]})
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
