"""What ``kafka-reassign-partitions`` prints, byte for byte (``ReassignPartitionsCommand`` of Kafka 4.3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from spark_ordered_kafka.kafka.values import PartitionId

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import (
        OngoingReassignment,
        PartitionAssignment,
        Verification,
        VerifiedPartition,
        VerifiedReplica,
    )


def partition_name(partition: PartitionId) -> str:
    """As Kafka's TopicPartition."""
    return f"{partition[0]}-{partition[1]}"


def assignment(rows: Iterable[PartitionAssignment]) -> str:
    """An assignment as Kafka's JSON: what ``--generate`` prints, and ``--execute`` reads."""
    partitions = [
        {"topic": row.topic, "partition": row.partition, "replicas": row.replicas, "log_dirs": row.log_dirs}
        for row in sorted(rows, key=_partition_id)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def current_assignment(rows: Iterable[PartitionAssignment]) -> str:
    """What ``--execute`` prints of the partitions before it moves them; unknown directories are ``any``."""
    return (
        f"Current partition replica assignment\n\n{assignment(rows)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def started(partitions: Iterable[PartitionId]) -> str:
    """What ``--execute`` prints at its end."""
    shown = [partition_name(partition) for partition in sorted(set(partitions))]
    return (
        f"Successfully started partition reassignment{'' if len(shown) == 1 else 's'} for {','.join(shown)}"
    )


def ongoing(reassignments: Iterable[OngoingReassignment]) -> str:
    """What ``--list`` prints."""
    lines = [_listed(row) for row in sorted(reassignments, key=_partition_id)]
    if not lines:
        return "No partition reassignments found."
    return "\n".join(["Current partition reassignments:", *lines])


def _listed(row: OngoingReassignment) -> str:
    adding = f" adding: {_ids(row.adding_replicas)}." if row.adding_replicas else ""
    removing = f" removing: {_ids(row.removing_replicas)}." if row.removing_replicas else ""
    return f"{partition_name(_partition_id(row))}: replicas: {_ids(row.replicas)}.{adding}{removing}"


def verification(verified: Verification) -> str:
    """What ``--verify`` prints about partitions, then about the log directories: an empty line if none is named."""
    partitions = sorted(verified.partitions, key=_partition_id)
    moves = [(replica.broker, _partition_id(row), replica) for row in partitions for replica in row.log_dirs]
    replicas = [_replica(*move[1:]) for move in sorted(moves, key=lambda move: move[:2])]
    lines = ["Status of partition reassignment:", *map(_partition, partitions)]
    return "\n".join(lines) + "\n" + "\n".join(replicas)


def _partition_id(row: OngoingReassignment | PartitionAssignment | VerifiedPartition) -> PartitionId:
    return row.topic, row.partition


def _partition(row: VerifiedPartition) -> str:
    name = partition_name(_partition_id(row))
    if row.status == "completed":
        return f"Reassignment of partition {name} is completed."
    if row.status == "in_progress":
        return f"Reassignment of partition {name} is still in progress."
    if row.status not in ("differs", "unknown"):  # of a newer controller
        return f"Reassignment of partition {name} is {row.status}."
    return (
        f"There is no active reassignment of partition {name}, but replica set is {_ids(row.replicas)} rather than "
        f"{_ids(row.target)}."
    )


def _replica(partition: PartitionId, row: VerifiedReplica) -> str:
    name = partition_name(partition)
    current, future = row.current_log_dir, row.future_log_dir
    if current is None:
        return (
            f"Partition {name} is not found in any live log dir on broker {row.broker}. There is likely an offline "
            "log directory on the broker."
        )
    if future is None and current == row.log_dir:
        return f"Reassignment of replica {name}-{row.broker} completed successfully."
    if future is None:
        return f"Partition {name} on broker {row.broker} is not being moved from log dir {current} to {row.log_dir}."
    if future == row.log_dir:
        return f"Reassignment of replica {name}-{row.broker} is still in progress."
    return f"Partition {name} on broker {row.broker} is being moved to log dir {future} instead of {row.log_dir}."


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
