"""What a micro-batch is planned from: offsets that move, and offsets that must not."""

import pytest

from spark_ordered_kafka.config import Connection, SourceOptions
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import TopicOffset
from spark_ordered_kafka.spark.stream import OrderedStreamReader, _Reading
from spark_ordered_kafka.spark.topics import TopicSnapshot

HISTORY = LayoutHistory(1, [Layout(0, 1, (0,)), Layout(1, 2, (10, 0))])
SNAPSHOT = TopicSnapshot("t", "id", HISTORY, starts={0: 0, 1: 0}, ends={0: 12, 1: 3})


def reading(positions: dict[int, int], is_new: bool = False) -> _Reading:
    return _Reading(SNAPSHOT, TopicOffset.of("id", 0, positions), {0: 0, 1: 0} | positions, is_new)


def test_a_new_layout_alone_is_no_progress() -> None:
    assert reading({0: 10}).moved({0: 10, 1: 0}) == TopicOffset("id", 0, (10,))


def test_progress_takes_the_newest_epoch() -> None:
    assert reading({0: 10}).moved({0: 12, 1: 0}) == TopicOffset("id", 1, (12,))


def test_a_topic_read_for_the_first_time_is_recorded_though_nothing_moved() -> None:
    assert reading({}, is_new=True).moved({0: 0, 1: 0}) == TopicOffset("id", 1, ())


def test_ends_never_lie_behind_the_position() -> None:
    assert reading({0: 20}).ends == {0: 20, 1: 3}


def test_records_beyond_the_newest_layout_are_held_and_named(caplog: pytest.LogCaptureFixture) -> None:
    shrunk = LayoutHistory(1, [Layout(0, 1, (0,)), Layout(1, 2, (0, 0)), Layout(2, 1, (5, 7))])
    snapshot = TopicSnapshot("t", "id", shrunk, starts={0: 0, 1: 0}, ends={0: 5, 1: 9})
    held = _Reading(snapshot, TopicOffset.of("id", 2, {0: 5, 1: 7}), {0: 5, 1: 7}, is_new=False)
    connection = Connection({"bootstrap.servers": "h:1"}, "http://c")
    reader = OrderedStreamReader(SourceOptions(connection, ("t",)))
    for _ in range(2):
        assert reader._gate(held) == {0: 5, 1: 7}
    assert [record.getMessage() for record in caplog.records] == [
        "t: partitions 1 were removed, but something that is no ordered writer has written to them since;"
        " those records are not read"
    ]
