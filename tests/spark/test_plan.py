"""Planning of tasks and start offsets, on snapshots made by hand."""

import pytest

from spark_ordered_kafka.config import EARLIEST, LATEST
from spark_ordered_kafka.errors import ConfigError, DataLossError
from spark_ordered_kafka.kafka.reader import Segment
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import TopicOffset
from spark_ordered_kafka.spark.plan import batch_tasks, resolve, segments_of, stream_tasks, surviving
from spark_ordered_kafka.spark.topics import TopicSnapshot

HISTORY = LayoutHistory(2, [Layout(0, 2, (0, 0)), Layout(1, 3, (10, 20, 0)), Layout(2, 2, (15, 20, 7))])
SNAPSHOT = TopicSnapshot("t", "id", HISTORY, starts={0: 0, 1: 4, 2: 0}, ends={0: 30, 1: 20, 2: 7})


def test_segments_are_cut_at_the_boundaries() -> None:
    assert segments_of("t", HISTORY, {0: 5}, {0: 30, 1: 20, 2: 7}) == [
        Segment("t", 0, 0, 5, 10),
        Segment("t", 0, 1, 10, 15),
        Segment("t", 0, 2, 15, 30),
        Segment("t", 1, 0, 0, 20),
        Segment("t", 2, 1, 0, 7),
    ]


def test_a_stream_has_a_task_per_partition() -> None:
    tasks = stream_tasks(segments_of("t", HISTORY, {}, {0: 12, 1: 3}))
    assert [[s.partition for s in task.segments] for task in tasks] == [[0, 0], [1]]


def test_a_batch_has_a_task_per_initial_bucket_in_the_order_of_epochs() -> None:
    tasks = batch_tasks(segments_of("t", HISTORY, {}, SNAPSHOT.ends), {"t": 2})
    assert [[(s.epoch, s.partition) for s in task.segments] for task in tasks] == [
        [(0, 0), (1, 0), (1, 2), (2, 0)],
        [(0, 1)],
    ]


def test_start_offsets() -> None:
    assert resolve("startingOffsets", EARLIEST, SNAPSHOT, ["t"], LATEST) == {0: 0, 1: 4, 2: 0}
    assert resolve("startingOffsets", {"t": {0: 3, 1: EARLIEST}}, SNAPSHOT, ["t"], LATEST) == {
        0: 3,
        1: 4,
        2: 7,
    }


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"u": {0: 1}}, "option startingOffsets has the value 'u': the topics read are t"),
        ({"t": {3: 1}}, "has the value 't-3': topic 't' has the partitions 0 to 2"),
        ({"t": {0: 31}}, "has the value 't-0: 31': the log holds the offsets 0 to 30"),
        ({"t": {1: 3}}, "has the value 't-1: 3': the log holds the offsets 4 to 20"),
    ],
)
def test_wrong_start_offsets_are_refused(wanted: dict[str, dict[int, int]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve("startingOffsets", wanted, SNAPSHOT, ["t"], LATEST)


def test_retention_that_overtook_the_reader() -> None:
    behind = TopicOffset.of("id", 0, {0: 5, 1: 2})
    with pytest.raises(DataLossError, match="t-1: offsets 2 to 3"):
        surviving(SNAPSHOT, behind, fail_on_data_loss=True)
    _, positions = surviving(SNAPSHOT, behind, fail_on_data_loss=False)
    assert positions == {0: 5, 1: 4, 2: 0}


def test_a_recreated_topic() -> None:
    other = TopicOffset.of("old", 4, {0: 5, 1: 9})
    with pytest.raises(DataLossError, match="deleted and created again: the checkpoint knows id old"):
        surviving(SNAPSHOT, other, fail_on_data_loss=True)
    offset, positions = surviving(SNAPSHOT, other, fail_on_data_loss=False)
    assert (offset.topic_id, positions) == ("id", {0: 0, 1: 4, 2: 0})
