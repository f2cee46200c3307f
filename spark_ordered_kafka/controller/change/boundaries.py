"""The start offsets of the next layout, from the log ends that were read after the fence. PURE."""

from __future__ import annotations

from collections.abc import Mapping

from spark_ordered_kafka.controller.change.protocol import Boundary, Change
from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import LogEnd


def boundaries(
    change: Change, epoch: int, layout: LayoutRecord, ends: Mapping[int, LogEnd], existing: int
) -> tuple[Boundary, ...]:
    """The start of each of ``existing`` partitions in the layout that ``change`` commits.

    Only partitions that the change needs have an end. The others were removed before and stay so: they keep their starts,
    since no reader waits for later records of theirs.

    Args:
        epoch: the epoch of ``layout``, the newest one.
        ends: log ends of the partitions that the change needs.

    Raises:
        RequestError: LOG_TRUNCATED, unless forced: a log ends before ``layout`` starts. Starts must not decrease, or no
            earlier layout could be read.
    """
    found = []
    for partition in range(existing):
        known = partition < len(layout.starts)
        start = (
            Boundary(layout.starts[partition], layout.leader_epochs[partition]) if known else Boundary(0, 0)
        )
        end = ends.get(partition)
        if end is not None and end.offset < start.offset and not change.force:
            raise RequestError(
                ErrorCode.LOG_TRUNCATED,
                f"partition {partition} of topic {change.topic!r} was truncated: its log ends at {end.offset}, layout "
                f"epoch {epoch} starts at {start.offset}; use force to change the topic all the same: records that are "
                f"written to offsets {end.offset} to {start.offset - 1} count as older ones then, and their keys may be "
                "delivered out of order",
            )
        if end is None or end.offset < start.offset:
            found.append(start)
        else:
            found.append(Boundary(end.offset, end.leader_epoch))
    return tuple(found)
