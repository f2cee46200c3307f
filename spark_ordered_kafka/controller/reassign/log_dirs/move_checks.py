"""Which moves of replicas between log directories cannot be made. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import known_are, not_hosted
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.values import LogDir, TopicDescription
from spark_ordered_kafka.parsing import is_topic_name

MAX_REPLICAS = 10_000
"""Of a request, as of topics: a body has room for many more, whose results would take gigabytes."""

Replica = tuple[str, int, int]
"""Topic, partition and broker."""


@dataclass(frozen=True)
class Known:
    """What is known about the replicas that a request names.

    Attributes:
        topics: those of the named ones that exist.
        alive: brokers that are up.
        log_dirs: broker -> its log directories with those replicas, or why it does not tell.
        moving: replica -> id of the request to reassign partitions that is at it.
    """

    topics: Mapping[str, TopicDescription]
    alive: Collection[int]
    log_dirs: Mapping[int, list[LogDir] | OrderedKafkaError]
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
    KAFKA_STORAGE_ERROR (offline), REASSIGNMENT_IN_PROGRESS, or that of a broker that does not tell its log directories.
    """
    counts = Counter(map(_replica, rows))
    held = _held(known.log_dirs)
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
    """Outcomes as the API shows them; ``whole``: nothing was started if anything was refused."""
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
    """Why a replica that the broker should have is in none of its log directories."""
    topic, partition = place
    offline = [row.path for row in log_dirs if row.error_code != ErrorCode.NONE]
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
    row: schemas.ReplicaLogDir, told: list[LogDir] | OrderedKafkaError, held: Collection[Replica]
) -> None:
    shown = f"has log_dir {row.log_dir[:250]!r}:"
    if not row.log_dir.startswith("/"):
        raise _refusal(row, f"{shown} an absolute path is needed")
    if isinstance(told, OrderedKafkaError):
        raise told
    states = {one.path: one.error_code for one in told}
    if row.log_dir not in states:
        raise _refusal(
            row,
            f"{shown} of log directories of broker {row.broker} {known_are(list(states))}",
            ErrorCode.LOG_DIR_NOT_FOUND,
        )
    if states[row.log_dir] != ErrorCode.NONE:
        raise _refusal(row, f"{shown} it is offline", ErrorCode.KAFKA_STORAGE_ERROR)
    if _replica(row) not in held:
        raise missing((row.topic, row.partition), row.broker, told)


def _check_idle(row: schemas.ReplicaLogDir, moving: Mapping[Replica, int]) -> None:
    request_id = moving.get(_replica(row))
    if request_id is not None:
        raise _refusal(
            row, f"is being reassigned by request {request_id}", ErrorCode.REASSIGNMENT_IN_PROGRESS
        )


def _held(log_dirs: Mapping[int, list[LogDir] | OrderedKafkaError]) -> set[Replica]:
    return {
        (replica.topic, replica.partition, broker)
        for broker, told in log_dirs.items()
        if not isinstance(told, OrderedKafkaError)
        for row in told
        for replica in row.replicas
        if not replica.is_future
    }


def _replica(row: schemas.ReplicaLogDir) -> Replica:
    return row.topic, row.partition, row.broker


def _refusal(
    row: schemas.ReplicaLogDir, reason: str, code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> RequestError:
    return RequestError(code, f"replica {row.topic[:250]}-{row.partition} on broker {row.broker} {reason}")
