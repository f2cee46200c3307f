"""Checks of moves between log directories. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import known_are, not_hosted
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    LogDir,
    LogDirAnswers,
    Replica,
    TopicDescription,
    local_replicas,
)
from spark_ordered_kafka.parsing import is_topic_name

MAX_REPLICAS = 10_000
"""Replicas in one request: a body has room for many more, whose results would take gigabytes."""


@dataclass(frozen=True)
class Known:
    """What is known about the replicas that a request names.

    Attributes:
        topics: those of the named ones that exist.
        alive: brokers that are up.
        log_dirs: log directories with those replicas.
        moving: replica -> id of the request that is reassigning it.
    """

    topics: Mapping[str, TopicDescription]
    alive: Collection[int]
    log_dirs: LogDirAnswers
    moving: Mapping[Replica, int]


def check_number(rows: Sequence[schemas.ReplicaLogDir]) -> None:
    """Raises RequestError INVALID_REQUEST when there are none, or more than :data:`MAX_REPLICAS`."""
    if not rows:
        raise RequestError(ErrorCode.INVALID_REQUEST, "replicas is empty: name at least one replica")
    if len(rows) > MAX_REPLICAS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"replicas names {len(rows)} replicas: at most {MAX_REPLICAS} are taken at once",
        )


def refusals(rows: Sequence[schemas.ReplicaLogDir], known: Known) -> dict[int, OrderedKafkaError]:
    """Index of a row -> why the replica cannot be moved there.

    Codes: INVALID_REQUEST (named twice, relative path), INVALID_TOPIC_EXCEPTION (no name of a topic),
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_MEMBER_ID (broker unknown or down), REPLICA_NOT_AVAILABLE, LOG_DIR_NOT_FOUND,
    KAFKA_STORAGE_ERROR (offline), REASSIGNMENT_IN_PROGRESS, or that of a broker that did not report its log directories.
    """
    counts = Counter(map(_replica, rows))
    held = local_replicas(known.log_dirs)
    refused: dict[int, OrderedKafkaError] = {}
    for index, row in enumerate(rows):
        try:
            if counts[_replica(row)] > 1:
                raise _refusal(row, f"is named {counts[_replica(row)]} times: name it once")
            _check_replica(row, known)
            _check_path(row, known.log_dirs[row.broker], held)
            _check_idle(row, known.moving)
        except OrderedKafkaError as error:
            refused[index] = error
    return refused


def results(
    rows: Sequence[schemas.ReplicaLogDir], refused: Mapping[int, OrderedKafkaError], *, whole: bool
) -> schemas.ReplicaLogDirsResult:
    """Outcomes for the API; ``whole``: nothing was started if any replica was refused."""
    others = RequestError(
        ErrorCode.INVALID_REQUEST, "not started: other replicas of the request were refused"
    )
    found = []
    for index, row in enumerate(rows):
        error = refused.get(index, others if whole and refused else None)
        place = {"topic": row.topic, "partition": row.partition, "broker": row.broker}
        if error is None:
            found.append(schemas.ReplicaResult.model_validate(place))
        else:
            found.append(result(schemas.ReplicaResult, error, **place))
    return schemas.ReplicaLogDirsResult(replicas=found)


def missing(place: tuple[str, int], broker: int, log_dirs: Sequence[LogDir]) -> RequestError:
    """The error of a replica that is in none of its broker's log directories."""
    topic, partition = place
    offline = [row.path for row in log_dirs if not row.online]
    if offline:
        return RequestError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the replica of partition {topic}-{partition} is in none of the log directories of broker {broker} that are "
            f"online; offline: {', '.join(offline)}",
        )
    return RequestError(
        ErrorCode.REPLICA_NOT_AVAILABLE,
        f"broker {broker} does not have its replica of partition {topic}-{partition} yet",
    )


def _check_replica(row: schemas.ReplicaLogDir, known: Known) -> None:
    if not is_topic_name(row.topic):
        raise _refusal(row, "has no name that a topic can have", ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = known.topics.get(row.topic)
    if topic is None:
        raise _refusal(row, "is of a topic that does not exist", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not 0 <= row.partition < len(topic.partitions):
        raise _refusal(
            row,
            f"does not exist: partition is to be 0 to {len(topic.partitions) - 1}",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    hosted = row.broker in topic.partitions[row.partition].replicas
    if row.broker not in known.alive:
        state = "is down" if hosted else "is not there"
        raise _refusal(
            row,
            f"cannot be moved: broker {row.broker} {state}, {known_are(sorted(known.alive))}",
            ErrorCode.UNKNOWN_MEMBER_ID,
        )
    if not hosted:
        raise not_hosted((row.topic, row.partition), row.broker)


def _check_path(
    row: schemas.ReplicaLogDir,
    answer: Sequence[LogDir] | OrderedKafkaError,
    held: Mapping[Replica, LocalReplica],
) -> None:
    shown = f"has log_dir {row.log_dir[:250]!r}:"
    if not row.log_dir.startswith("/"):
        raise _refusal(row, f"{shown} an absolute path is needed")
    if isinstance(answer, OrderedKafkaError):
        raise answer
    online = {one.path: one.online for one in answer}
    if row.log_dir not in online:
        raise _refusal(
            row,
            f"{shown} of log directories of broker {row.broker} {known_are(list(online))}",
            ErrorCode.LOG_DIR_NOT_FOUND,
        )
    if not online[row.log_dir]:
        raise _refusal(row, f"{shown} it is offline", ErrorCode.KAFKA_STORAGE_ERROR)
    if held.get(_replica(row), NO_REPLICA).path is None:
        raise missing((row.topic, row.partition), row.broker, answer)


def _check_idle(row: schemas.ReplicaLogDir, moving: Mapping[Replica, int]) -> None:
    request_id = moving.get(_replica(row))
    if request_id is not None:
        raise _refusal(
            row, f"is being reassigned by request {request_id}", ErrorCode.REASSIGNMENT_IN_PROGRESS
        )


def _replica(row: schemas.ReplicaLogDir) -> Replica:
    return row.topic, row.partition, row.broker


def _refusal(
    row: schemas.ReplicaLogDir, reason: str, code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> RequestError:
    return RequestError(code, f"replica {row.topic[:250]}-{row.partition} on broker {row.broker} {reason}")
