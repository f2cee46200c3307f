"""Where reading starts and ends, on snapshots made by hand."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.parsing import EARLIEST, LATEST
from spark_ordered_kafka.spark.bounds import check_order, check_whole, partitions_shown, resolve
from spark_ordered_kafka.spark.options import Bound

# 2 -> 4 -> 2: partitions 2 and 3 are removed, and nothing is left in 3.
HISTORY = LayoutHistory(2, [Layout(0, 2, (0, 0)), Layout(1, 4, (10, 20, 0, 0)), Layout(2, 2, (15, 20, 7, 9))])
LAYOUTS = TopicLayouts("t", "id", HISTORY, (None, None, None))
SNAPSHOT = TopicSnapshot(LAYOUTS, {0: 0, 1: 4, 2: 0, 3: 9}, {0: 30, 1: 20, 2: 7, 3: 9}, {})
TIMES = {0: 3, 1: 19, 2: None, 3: None}


def at(topic: str, times: Mapping[int, int]) -> dict[int, int | None]:
    assert topic == "t"
    return {p: TIMES[p] for p in times}


def start(value: int | Mapping[str, Mapping[int, int]]) -> dict[int, int]:
    return resolve(Bound("startingOffsets", value), SNAPSHOT, ["t"], at, "error")


def test_offsets_and_markers() -> None:
    assert start(EARLIEST) == {0: 0, 1: 4, 2: 0, 3: 9}
    assert start(LATEST) == {0: 30, 1: 20, 2: 7, 3: 9}
    assert start({"t": {0: 3, 1: EARLIEST, 2: LATEST}}) == {0: 3, 1: 4, 2: 7, 3: 9}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"u": {0: 1}}, "option startingOffsets has the value 'u': the topics read are t"),
        ({"t": {4: 1}}, "has the value 't-4': topic 't' has the partitions 0 to 3"),
        ({"t": {0: 31, 1: 4, 2: 0}}, "has the value 't-0: 31': the log holds the offsets 0 to 30"),
        ({"t": {0: 0, 1: 3, 2: 0}}, "has the value 't-1: 3': the log holds the offsets 4 to 20"),
        ({"t": {1: 4}}, "must name every partition that is read .*; missing: t-0, t-2$"),
    ],
)
def test_wrong_offsets_are_refused(wanted: dict[str, dict[int, int]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(wanted)


def test_offsets_outside_the_log_are_moved_into_it_where_losses_are_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = Bound("startingOffsets", {"t": {0: 31, 1: 3, 2: 5}})
    assert resolve(bound, SNAPSHOT, ["t"], at, "error", fail_on_data_loss=False) == {0: 30, 1: 4, 2: 5, 3: 9}
    assert (
        "option startingOffsets has t-1: 3: the log holds the offsets 4 to 20, so it is taken as 4"
        in caplog.text
    )
    # Where a log without a leader ends is not known.
    absent = replace(SNAPSHOT, absent=frozenset({0}))
    assert resolve(bound, absent, ["t"], at, "error", fail_on_data_loss=False)[0] == 31


def test_every_topic_must_be_named() -> None:
    with pytest.raises(
        ConfigError, match=r"has the value '\{\"t\": \{\}\}': must name every .*: t-0, t-1, t-2"
    ):
        resolve(Bound("startingOffsets", {"u": {0: 1}}), SNAPSHOT, ["t", "u"], at, "error")


def test_of_an_assignment_only_its_partitions_count() -> None:
    part = TopicSnapshot(LAYOUTS, {0: 0, 2: 0}, {0: 30, 2: 7}, {})
    assert resolve(Bound("endingOffsets", {"t": {0: 9, 2: 7}}), part, ["t"], at, "latest") == {0: 9, 2: 7}
    with pytest.raises(ConfigError, match="'t-1': it is not assigned; read are t-0, t-2"):
        resolve(Bound("endingOffsets", {"t": {0: 9, 1: 7, 2: 7}}), part, ["t"], at, "latest")


def test_times() -> None:
    bound = Bound("startingTimestamp", 50, by_time=True)

    def at_none(_: str, times: Mapping[int, int]) -> dict[int, int | None]:
        return dict.fromkeys(times)

    with pytest.raises(
        ConfigError, match="option startingTimestamp has the value 't-0: 50': no record is as late"
    ):
        resolve(bound, SNAPSHOT, ["t"], at_none, "error")
    assert resolve(bound, SNAPSHOT, ["t"], at_none, "latest") == {0: 30, 1: 20, 2: 7, 3: 9}
    assert resolve(bound, SNAPSHOT, ["t"], at, "latest") == {0: 3, 1: 19, 2: 7, 3: 9}
    per_partition = Bound("startingOffsetsByTimestamp", {"t": {0: 50, 1: 50, 2: 51}}, by_time=True)
    assert resolve(per_partition, SNAPSHOT, ["t"], at, "latest") == {0: 3, 1: 19, 2: 7, 3: 9}


def test_a_time_without_a_match_is_no_error_where_there_will_never_be_one() -> None:
    """In what a shrink has removed, whether its records are still there or not."""
    bound = Bound("startingTimestamp", 50, by_time=True)
    assert resolve(bound, SNAPSHOT, ["t"], at, "error") == {0: 3, 1: 19, 2: 7, 3: 9}
    retired = replace(SNAPSHOT, log_starts={0: 0, 1: 4, 3: 9}, ends={0: 30, 1: 20, 3: 9})
    assert resolve(bound, retired, ["t"], at, "error") == {0: 3, 1: 19, 3: 9}


def test_of_a_log_that_nobody_can_be_asked_for_the_options_are_believed() -> None:
    asked: list[int] = []

    def at_some(topic: str, times: Mapping[int, int]) -> dict[int, int | None]:
        asked.extend(times)
        return at(topic, times)

    absent = replace(SNAPSHOT, absent=frozenset({3}))
    bound = Bound("startingTimestamp", 50, by_time=True)
    assert resolve(bound, absent, ["t"], at_some, "latest") == {0: 3, 1: 19, 2: 7, 3: 9}
    assert asked == [0, 1, 2]
    named = Bound("startingOffsets", {"t": {0: 3, 1: 4, 2: 0, 3: 12}})
    assert resolve(named, absent, ["t"], at, "error")[3] == 12


def test_ends_that_leave_a_hole_inside_a_key_are_refused() -> None:
    """Partition 2 was split off 0 at its offset 10, and its keys came back at 15."""
    ending = Bound("endingOffsets", {})
    begin = {0: 0, 1: 4, 2: 0, 3: 9}
    for end in ({0: 10, 1: 20, 2: 7, 3: 9}, {0: 5, 1: 4, 2: 0, 3: 9}, {0: 15, 1: 20, 2: 3, 3: 9}):
        check_whole(ending, LAYOUTS, begin, end)
    check_whole(ending, LAYOUTS, {**begin, 0: 10}, {0: 10, 1: 4, 2: 7, 3: 9})
    with pytest.raises(
        ConfigError, match=r"endingOffsets has the value 't-0: 9': keys went .* t-0 at 10 or later"
    ):
        check_whole(ending, LAYOUTS, begin, {0: 9, 1: 20, 2: 1, 3: 9})
    with pytest.raises(ConfigError, match=r"'t-2: 6': .* end t-2 at 7 or later, or t-0 at 15"):
        check_whole(ending, LAYOUTS, begin, {0: 16, 1: 20, 2: 6, 3: 9})


def test_an_offset_found_beyond_the_end_is_the_end() -> None:
    bound = Bound("startingTimestamp", 50, by_time=True)
    behind = TopicSnapshot(LAYOUTS, {0: 5, 1: 4}, {0: 30, 1: 10}, {})
    assert resolve(bound, behind, ["t"], at, "error") == {0: 5, 1: 10}


def test_an_end_must_not_lie_before_its_start() -> None:
    ending, starting = Bound("endingTimestamp", 5, by_time=True), Bound("startingOffsets", EARLIEST)
    check_order(ending, starting, "t", {0: 3}, {0: 3})
    with pytest.raises(
        ConfigError, match=r"option endingTimestamp has the value 't-0: 2': .* startingOffsets \(3\)"
    ):
        check_order(ending, starting, "t", {0: 3}, {0: 2})


def test_of_many_partitions_some_are_shown() -> None:
    assert partitions_shown("t", [2, 1]) == "t-1, t-2"
    assert partitions_shown("t", range(12)).endswith("t-9 and 2 more")
