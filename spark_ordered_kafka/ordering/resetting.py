"""Where a consumer group may be put so that no key has a gap: see :func:`furthest`."""

from __future__ import annotations

from collections.abc import Mapping

from spark_ordered_kafka.ordering.gate import readable
from spark_ordered_kafka.ordering.layout import LayoutHistory


def furthest(history: LayoutHistory, starts: Mapping[int, int], wanted: Mapping[int, int]) -> dict[int, int]:
    """The greatest positions, none behind ``wanted``, that an ordered reader which begins at ``starts`` comes by.

    From there it delivers, of every key, its records from some point of the order of writing on: none that follows is left
    out, and none before that point comes after. Positions that it does not come by would skip records of a key where the key
    lay later, and deliver earlier ones again.

    :param starts: by partition where its log begins, or the first known layout, if that is later.
    :param wanted: by partition the offset of the next record; one before the start is taken for the start.
    """
    ends = {p: max(at, starts.get(p, at)) for p, at in wanted.items()}
    reached, before = dict(starts), None
    while reached != before:
        before = reached
        reached = {**before, **readable(history, before, ends)}
    return reached
