"""What ``kafka-reassign-partitions --verify`` tells, as data.

Kafka's tool looks at what is there now and at what goes on, not at what was asked for earlier: so does this. Statuses are
``completed``, ``in_progress``, ``differs`` (other replicas, or another directory, and nothing on its way there) and ``unknown``
(no such partition, or no such replica in any live directory of the broker).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.state.reassignment_records import ANY
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import LogDir, PartitionId, TopicDescription

Dirs = Mapping[PartitionId, str]


def verify(
    admin: KafkaAdmin,
    reassignments: Reassignments,
    log_dirs: LogDirs,
    rows: Sequence[schemas.PartitionReassignment],
) -> schemas.Verification:
    """Whether partitions have come to what ``rows`` say.

    Raises RequestError INVALID_REQUEST for rows that Kafka's tool does not take, UnavailableError when the brokers do not
    answer. A broker that does not tell its directories leaves those asked for there ``unknown``.
    """
    _check(rows)
    # Before the topics: what ends between the two is shown with the replicas it has come to.
    ongoing = reassignments.all_ongoing()
    topics = describe(admin, (row.topic for row in rows))
    placed: dict[int, list[PartitionId]] = {}
    for row in rows:
        for broker, path in zip(row.replicas, row.log_dirs or (), strict=False):
            if path != ANY:
                placed.setdefault(broker, []).append((row.topic, row.partition))
    answers = log_dirs.describe_each({broker: by_topic(places) for broker, places in placed.items()})
    current, future = _held(answers, is_future=False), _held(answers, is_future=True)
    found = [_partition(row, topics, ongoing.keys(), current, future) for row in rows]
    complete = all(
        status == "completed"
        for one in found
        for status in (one.status, *(replica.status for replica in one.log_dirs))
    )
    return schemas.Verification(complete=complete, partitions=found)


def _partition(
    row: schemas.PartitionReassignment,
    topics: Mapping[str, TopicDescription],
    ongoing: Collection[PartitionId],
    current: Mapping[int, Dirs],
    future: Mapping[int, Dirs],
) -> schemas.VerifiedPartition:
    place = (row.topic, row.partition)
    topic = topics.get(row.topic)
    there = topic is not None and 0 <= row.partition < len(topic.partitions)
    replicas = list(topic.partitions[row.partition].replicas) if topic is not None and there else []
    status: schemas.VerifiedStatus = "completed" if replicas == row.replicas else "differs"
    if place in ongoing:
        status = "in_progress"
    elif not there:
        status = "unknown"
    return schemas.VerifiedPartition(
        topic=row.topic,
        partition=row.partition,
        status=status,
        replicas=replicas,
        target=row.replicas,
        log_dirs=[
            _replica(broker, path, current.get(broker, {}).get(place), future.get(broker, {}).get(place))
            for broker, path in zip(row.replicas, row.log_dirs or (), strict=False)
            if path != ANY
        ],
    )


def _replica(broker: int, path: str, current: str | None, future: str | None) -> schemas.VerifiedReplica:
    status: schemas.VerifiedStatus
    if current is None:
        status = "unknown"
    elif future is not None:
        status = "in_progress" if future == path else "differs"
    else:
        status = "completed" if current == path else "differs"
    return schemas.VerifiedReplica(
        broker=broker, status=status, log_dir=path, current_log_dir=current, future_log_dir=future
    )


def _held(answers: Mapping[int, Sequence[LogDir] | OrderedKafkaError], *, is_future: bool) -> dict[int, Dirs]:
    """Broker -> the directory of each partition's replica, or of its temporary one."""
    return {
        broker: {
            (row.topic, row.partition): one.path
            for one in answer
            for row in one.replicas
            if row.is_future == is_future
        }
        for broker, answer in answers.items()
        if not isinstance(answer, OrderedKafkaError)
    }


def _check(rows: Sequence[schemas.PartitionReassignment]) -> None:
    if not rows:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "partitions is empty: name those that are to be verified"
        )
    for (topic, partition), times in Counter((row.topic, row.partition) for row in rows).items():
        if times > 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"partitions names {topic[:250]}-{partition} {times} times: name it once",
            )
    for row in rows:
        if row.log_dirs is not None and len(row.log_dirs) != len(row.replicas):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"log_dirs of partition {row.topic[:250]}-{row.partition} has {len(row.log_dirs)} entries for "
                f"{len(row.replicas)} replicas: as many are needed",
            )
