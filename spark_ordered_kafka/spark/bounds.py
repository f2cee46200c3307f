"""Where reading starts and ends: options such as ``startingOffsets`` as offsets of the partitions that are read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.ordering import blockers
from spark_ordered_kafka.ordering.resetting import furthest
from spark_ordered_kafka.parsing import EARLIEST, LATEST
from spark_ordered_kafka.spark.options import Bound, NoMatch

_LOG = logging.getLogger(__name__)

OffsetsAt = Callable[[str, Mapping[int, int]], Mapping[int, int | None]]
"""(topic, {partition: milliseconds}) -> per partition the first offset at or after that time, None without one."""

_SHOWN = 10


def resolve(
    bound: Bound,
    snapshot: TopicSnapshot,
    topics: Collection[str],
    offsets_at: OffsetsAt,
    no_match: NoMatch,
    *,
    fail_on_data_loss: bool = True,
) -> dict[int, int]:
    """The offsets that ``bound`` means for the partitions of one topic: those that ``snapshot`` has ends for.

    ``topics`` are all that are read. ``no_match``: where no record is as late as a time, raise an error or take the
    end; Spark always takes the end for an end. Without ``fail_on_data_loss`` an offset outside the log is taken for the
    nearest one in it, with a warning, as in Spark.

    As in Spark, JSON must name every partition; a removed one may be left out once it is empty (D-056). Raises
    ConfigError for a topic or partition that is not read or not named, for an offset outside the log, and for a time
    without a match under ``error``: an empty removed partition will never have one.
    """
    if not isinstance(bound.value, int):
        wanted = _named(bound, bound.value, snapshot, topics)
    elif bound.by_time:
        wanted = dict.fromkeys(snapshot.ends, bound.value)
    else:
        return dict(_markers(snapshot)[bound.value])
    found = (
        _at_times(bound, wanted, snapshot, offsets_at, no_match)
        if bound.by_time
        else _at_offsets(bound, wanted, snapshot, fail_on_data_loss)
    )
    return {**snapshot.ends, **found}


def check_order(
    ending: Bound, starting: Bound, topic: str, start: Mapping[int, int], end: Mapping[int, int]
) -> None:
    """Raises ConfigError for a partition whose end lies before its start."""
    for partition, last in end.items():
        if last < start[partition]:
            raise ConfigError(
                f"option {ending.option}",
                f"{topic}-{partition}: {last}",
                f"must not lie before {starting.option} ({start[partition]})",
            )


def check_whole(
    ending: Bound, layouts: TopicLayouts, start: Mapping[int, int], end: Mapping[int, int]
) -> None:
    """Raises ConfigError where offsets that the user gave for an end leave a hole inside a key (D-054).

    What lies before them in one partition is what a stream would have to read before it read another one to its end.
    """
    reached = furthest(layouts.history, start, end)
    held = {p: reached[p] for p, last in end.items() if reached[p] < last}
    for partition, waits in blockers(layouts.history, reached).items():
        if partition in held:
            other, needed = waits[0]
            raise ConfigError(
                f"option {ending.option}",
                f"{layouts.topic}-{other}: {end.get(other, 0)}",
                f"keys went from there to {layouts.topic}-{partition}, and of them records would be missing between the"
                f" ends: end {layouts.topic}-{other} at {needed} or later, or {layouts.topic}-{partition} at"
                f" {held[partition]}, or set ordering=none",
            )


def behind_removed(snapshot: TopicSnapshot, start: Mapping[int, int]) -> dict[int, int]:
    """The start positions; of removed partitions that are begun at their ends, not before the newest layout.

    Such an end lies before it only where the log has lost what lay between, which a reader that begins here does not need.
    """
    newest = snapshot.history.current
    ended = {p for p in snapshot.layouts.removed if p in start and start[p] >= snapshot.ends[p]}
    return {p: max(at, newest.start(p)) if p in ended else at for p, at in start.items()}


def is_retired(snapshot: TopicSnapshot, partition: int) -> bool:
    """Whether a shrink removed the partition and nothing is left in it."""
    removed = partition >= snapshot.history.current.count
    return removed and snapshot.starts[partition] == snapshot.ends[partition]


def partitions_shown(topic: str, partitions: Iterable[int]) -> str:
    """``orders-1, orders-4``; of many the first."""
    return listed(sorted(partitions), _SHOWN, lambda partition: f"{topic}-{partition}")


def _markers(snapshot: TopicSnapshot) -> dict[int, Mapping[int, int]]:
    return {EARLIEST: snapshot.starts, LATEST: snapshot.ends}


def _named(
    bound: Bound,
    value: Mapping[str, Mapping[int, int]],
    snapshot: TopicSnapshot,
    topics: Collection[str],
) -> Mapping[int, int]:
    """What the JSON says of this topic's partitions, all of which it must name."""
    option, topic = f"option {bound.option}", snapshot.topic
    for name in value:
        if name not in topics:
            raise ConfigError(option, name, f"the topics read are {', '.join(sorted(topics))}")
    given = value.get(topic, {})
    for partition in given:
        if partition >= snapshot.history.partition_count:
            hint = f"topic {topic!r} has the partitions 0 to {snapshot.history.partition_count - 1}"
            raise ConfigError(option, f"{topic}-{partition}", hint)
        if partition not in snapshot.ends:
            hint = f"it is not assigned; read are {partitions_shown(topic, snapshot.ends)}"
            raise ConfigError(option, f"{topic}-{partition}", hint)
    missing = [p for p in snapshot.ends if p not in given and not is_retired(snapshot, p)]
    if missing:
        markers = "" if bound.by_time else " (-1 is latest, and for a start -2 is earliest)"
        raise ConfigError(
            option,
            json.dumps({topic: given})[:200],
            f"must name every partition that is read{markers}; missing: {partitions_shown(topic, missing)}",
        )
    return given


def _at_offsets(
    bound: Bound, wanted: Mapping[int, int], snapshot: TopicSnapshot, fail_on_data_loss: bool
) -> dict[int, int]:
    markers = _markers(snapshot)
    found = {}
    for partition, offset in wanted.items():
        value = markers[offset][partition] if offset in markers else offset
        low, high = snapshot.starts[partition], snapshot.ends[partition]
        # Without a leader it is not known where the log ends.
        nearest = max(low, value if partition in snapshot.absent else min(value, high))
        if value != nearest:
            where, holds = (
                f"{snapshot.topic}-{partition}: {offset}",
                f"the log holds the offsets {low} to {high}",
            )
            if fail_on_data_loss:
                raise ConfigError(f"option {bound.option}", where, holds)
            _LOG.warning("option %s has %s: %s, so it is taken as %d", bound.option, where, holds, nearest)
        found[partition] = nearest
    return found


def _at_times(
    bound: Bound,
    wanted: Mapping[int, int],
    snapshot: TopicSnapshot,
    offsets_at: OffsetsAt,
    no_match: NoMatch,
) -> dict[int, int]:
    found = {}
    asked = {partition: time for partition, time in wanted.items() if partition not in snapshot.absent}
    for partition, offset in offsets_at(snapshot.topic, asked).items():
        end = snapshot.ends[partition]
        # What a shrink has removed gets no records any more, so any later time is right there.
        removed = partition >= snapshot.history.current.count
        if offset is None and no_match == "error" and not removed:
            raise ConfigError(
                f"option {bound.option}",
                f"{snapshot.topic}-{partition}: {wanted[partition]}",
                "no record is as late as that; name an earlier time, or set"
                " startingOffsetsByTimestampStrategy to latest to start at the end there",
            )
        # The snapshot is older than the answer: what came since lies beyond its end.
        found[partition] = end if offset is None else max(snapshot.starts[partition], min(offset, end))
    return found
