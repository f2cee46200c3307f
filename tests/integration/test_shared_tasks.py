"""Small micro-batches have few tasks, the same ones whenever they are read again."""

from __future__ import annotations

from typing import Any

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.spark.options import stream_options
from spark_ordered_kafka.spark.plan import SegmentsPartition
from spark_ordered_kafka.spark.stream import OrderedStreamReader
from tests.queries import await_stable
from tests.streams import NumberedWriter, create, options

KEYS = 40
STEP = 5


def reader(cluster: LocalCluster, *topics: str, **more: Any) -> OrderedStreamReader:
    given = options(cluster, subscribe=",".join(topics), startingOffsets="earliest", **more)
    return OrderedStreamReader(stream_options(given))


def planned(
    source: OrderedStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[SegmentsPartition]:
    tasks = source.partitions(start, end)
    assert all(isinstance(task, SegmentsPartition) for task in tasks)
    return tasks  # type: ignore[return-value]


def test_partitions_and_topics_share_a_task_while_there_is_little_to_read(
    cluster: LocalCluster, topic_name: str
) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 4) for number in range(2)]
    for topic in topics:
        NumberedWriter(cluster, topic, keys=KEYS, step=STEP).write()
        await_stable(cluster, topic)
    sharing = reader(cluster, *topics)
    start = sharing.initialOffset()
    end = sharing.latestOffset(start, sharing.getDefaultReadLimit())
    (task,) = planned(sharing, start, end)
    assert len({(one.topic, one.partition) for one in task.segments}) == 8
    values = [value.as_py() for batch in sharing.read(task) for value in batch.column("value")]
    assert len(values) == 2 * KEYS * STEP
    for key in range(KEYS):
        mine = [value for value in values if value.startswith(b"k%d:" % key)]
        assert mine == 2 * [b"k%d:%d" % (key, number) for number in range(STEP)]
    assert sharing.latestOffset(end, sharing.getDefaultReadLimit()) == end, "nothing new is no progress"

    # What a checkpoint has decides, not the options of the run that reads it again.
    alone = reader(cluster, *topics, minRecordsPerPartition=1)
    assert planned(alone, start, end) == [task]
    own = alone.latestOffset(start, alone.getDefaultReadLimit())
    assert len(planned(alone, start, own)) == 8
    assert planned(sharing, start, own) == planned(alone, start, own)
    some = reader(cluster, *topics, minRecordsPerPartition=2 * KEYS * STEP // 3)
    assert len(planned(some, start, some.latestOffset(start, some.getDefaultReadLimit()))) in (2, 3)
    for source in (sharing, alone, some):
        source.stop()
