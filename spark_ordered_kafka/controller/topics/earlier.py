"""Where a compacted topic may still hold records of its earlier layouts. PURE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_ordered_kafka.client.schemas import EarlierLayout
from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.ordering import vacated


def earlier_layouts(initial_count: int, layouts: Sequence[LayoutRecord]) -> list[EarlierLayout]:
    """One entry per earlier partition count that left old values behind, ascending; the last layout must be ordered.

    The epochs of one count have ascending ends, so the latest end covers all. The records of an ordered epoch end at the
    start of the next epoch. Writers of an unordered one are fenced only when the next ordered one begins, so theirs end
    there.
    """
    current = layouts[-1].undeleted_partition_count
    ends: dict[int, Sequence[int]] = {}
    fence = layouts[-1].starts
    for epoch in range(len(layouts) - 2, -1, -1):
        layout, following = layouts[epoch], layouts[epoch + 1]
        if following.ordered_delivery:
            fence = following.starts
        ends.setdefault(
            layout.undeleted_partition_count, following.starts if layout.ordered_delivery else fence
        )
    entries = []
    for count in sorted(ends.keys() - {current}):
        below = np.where(vacated(initial_count, count, current), ends[count][:count], 0)
        if below.any():
            entries.append(
                EarlierLayout(
                    undeleted_partition_count=count, ends=below[: np.flatnonzero(below)[-1] + 1].tolist()
                )
            )
    return entries
