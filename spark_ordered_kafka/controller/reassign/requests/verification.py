"""The output of ``kafka-reassign-partitions --verify`` as data.

Like Kafka's tool, this compares the current state and reassignments in progress, not earlier requests. Statuses are
``completed``, ``in_progress``, ``differs`` (other replicas or another directory, and no move in progress) and ``unknown`` (no
such partition, or no such replica in any live directory of the broker).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.state.reassignment_records import ANY
from spark_ordered_kafka.errors import invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    PartitionId,
    Replica,
    TopicDescription,
    local_replicas,
)


def verify(
    admin: KafkaAdmin,
    reassignments: Reassignments,
    log_dirs: LogDirs,
    rows: Sequence[schemas.PartitionReassignment],
) -> schemas.Verification:
    """Whether partitions are as in ``rows``.

    Replicas on a broker that does not report its log directories are ``unknown``. Raises RequestError INVALID_REQUEST for
    rows that Kafka's tool does not take, UnavailableError when the brokers do not answer.
    """
    _check(rows)
    # Before the topics: a reassignment that ends in between is shown with its final replicas.
    ongoing = reassignments.all_ongoing()
    topics = describe(admin, (row.topic for row in rows), tps=((row.topic, row.partition) for row in rows))
    placed: dict[int, list[PartitionId]] = {}
    for row in rows:
        for broker, path in zip(row.replicas, row.log_dirs or (), strict=False):
            if path != ANY:
                placed.setdefault(broker, []).append((row.topic, row.partition))
    answers = log_dirs.describe_each({broker: by_topic(tps) for broker, tps in placed.items()})
    held = local_replicas(answers)
    found = [_partition(row, topics, ongoing.keys(), held) for row in rows]
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
    held: Mapping[Replica, LocalReplica],
) -> schemas.VerifiedPartition:
    tp = (row.topic, row.partition)
    topic = topics.get(row.topic)
    there = topic is not None and 0 <= row.partition < len(topic.partitions)
    replicas = list(topic.partitions[row.partition].replicas) if topic is not None and there else []
    status: schemas.VerifiedStatus = "completed" if replicas == row.replicas else "differs"
    if tp in ongoing:
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
            _replica(broker, path, held.get((*tp, broker), NO_REPLICA))
            for broker, path in zip(row.replicas, row.log_dirs or (), strict=False)
            if path != ANY
        ],
    )


def _replica(broker: int, path: str, held: LocalReplica) -> schemas.VerifiedReplica:
    current, future = held.path, held.future_path
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


def _check(rows: Sequence[schemas.PartitionReassignment]) -> None:
    if not rows:
        raise invalid_request("partitions is empty: name those that are to be verified")
    for (topic, partition), times in Counter((row.topic, row.partition) for row in rows).items():
        if times > 1:
            raise invalid_request(f"partitions names {topic[:250]}-{partition} {times} times: name it once")
    for row in rows:
        if row.log_dirs is not None and len(row.log_dirs) != len(row.replicas):
            raise invalid_request(
                f"log_dirs of partition {row.topic[:250]}-{row.partition} has {len(row.log_dirs)} entries for "
                f"{len(row.replicas)} replicas: as many are needed"
            )
