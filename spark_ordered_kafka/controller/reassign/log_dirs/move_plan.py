"""Checks of moves between log directories, and their moves for the reassignment machine. PURE."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import known_are, not_hosted
from spark_ordered_kafka.controller.reassign.requests.validation import Known
from spark_ordered_kafka.controller.results import result
from spark_ordered_kafka.controller.state.reassignment_records import ANY, Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, invalid_request
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    LogDir,
    PartitionId,
    Replica,
)
from spark_ordered_kafka.parsing import is_topic_name


@dataclass(frozen=True)
class Pending:
    """A move that has not ended, of a request to reassign partitions.

    Attributes:
        continues: False: it is being rolled back.
        understood: False: only a newer controller can continue it.
    """

    request_id: int
    move: Move
    continues: bool
    understood: bool

    @property
    def may_be_replaced(self) -> bool:
        """Whether a later request may take its place: it moves nothing but replicas between log directories."""
        return self.understood and self.move.before == self.move.after


@dataclass(frozen=True)
class Plan:
    """The moves of a request. None are left to it where all replicas are in place, or request ``request_id`` moves them
    already. ``refused``: index of a row -> its error.
    """

    moves: Sequence[Move]
    refused: Mapping[int, OrderedKafkaError]
    request_id: int | None = None


def refusals(rows: Sequence[schemas.ReplicaLogDir], known: Known) -> dict[int, OrderedKafkaError]:
    """Index of a row -> why the replica cannot be moved there, whatever else is being moved.

    Codes: INVALID_REQUEST (named twice, relative path), INVALID_TOPIC_EXCEPTION (no name of a topic),
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_MEMBER_ID (broker unknown or down), REPLICA_NOT_AVAILABLE, LOG_DIR_NOT_FOUND,
    KAFKA_STORAGE_ERROR (offline), or that of a broker that did not report its log directories.
    """
    counts = Counter(map(_replica, rows))
    refused: dict[int, OrderedKafkaError] = {}
    for index, row in enumerate(rows):
        try:
            if counts[_replica(row)] > 1:
                raise _refusal(row, f"is named {counts[_replica(row)]} times: name it once")
            _check_replica(row, known)
            _check_path(row, known.log_dirs[row.broker], known.held)
        except OrderedKafkaError as error:
            refused[index] = error
    return refused


def plan(
    rows: Sequence[schemas.ReplicaLogDir],
    refused: Mapping[int, OrderedKafkaError],
    known: Known,
    pending: Mapping[PartitionId, Pending],
    ongoing: Collection[PartitionId],
) -> Plan:
    """The moves of the rows that are not ``refused``. One that replaces a ``pending`` move includes its other replicas.

    Refuses rows of partitions that are being reassigned, REASSIGNMENT_IN_PROGRESS: by a request, or by another tool
    (``ongoing``).
    """
    refused = dict(refused)
    named: dict[PartitionId, dict[int, str]] = defaultdict(dict)
    for index, row in enumerate(rows):
        if index in refused:
            continue
        tp = row.topic, row.partition
        earlier = pending.get(tp)
        by = "another tool: wait for its end" if tp in ongoing else None
        if earlier is not None and not earlier.may_be_replaced:
            by = f"request {earlier.request_id}: wait for its end, or cancel it"
        if by is not None:
            reason = f"is of a partition that is being reassigned by {by}"
            refused[index] = _refusal(row, reason, ErrorCode.REASSIGNMENT_IN_PROGRESS)
        named[tp][row.broker] = row.log_dir
    found = (_move(tp, paths, known, pending.get(tp)) for tp, paths in named.items())
    moves = [move for move in found if move is not None]
    doing = {_done_by(move, pending) for move in moves}
    if len(doing) == 1 and None not in doing:
        return Plan((), refused, doing.pop())
    return Plan(moves, refused)


def _move(tp: PartitionId, named: Mapping[int, str], known: Known, earlier: Pending | None) -> Move | None:
    """The move of one partition; None: its replicas are where they are to be, and nothing moves them."""
    topic = known.topics[tp[0]]
    replicas = topic.partitions[tp[1]].replicas
    held = {broker: known.held.get((*tp, broker), NO_REPLICA) for broker in named}
    if earlier is None and all((held[b].path, held[b].future_path) == (named[b], None) for b in named):
        return None
    before, paths = dict[int, str | None](), dict(named)
    if earlier is not None and earlier.continues:
        before.update(zip(earlier.move.before, earlier.move.before_log_dirs or (), strict=False))
        paths = earlier.move.placements | paths
    before.update((broker, one.path) for broker, one in held.items())
    return Move(
        topic=tp[0],
        partition=tp[1],
        topic_id=topic.topic_id,
        before=replicas,
        after=replicas,
        # A rollback leaves the other replicas where they are then.
        before_log_dirs=tuple(before.get(broker) or ANY for broker in replicas),
        after_log_dirs=tuple(paths.get(broker) for broker in replicas),
    )


def _done_by(move: Move, pending: Mapping[PartitionId, Pending]) -> int | None:
    """The request that does the same already."""
    earlier = pending.get(move.tp)
    if earlier is None or not earlier.continues or earlier.move.placements != move.placements:
        return None
    return earlier.request_id


def results(
    rows: Sequence[schemas.ReplicaLogDir],
    refused: Mapping[int, OrderedKafkaError],
    request_id: int | None = None,
) -> schemas.ReplicaLogDirsResult:
    """The answer: with any refusal, nothing was started."""
    others = invalid_request("not started: other replicas of the request were refused")
    found = []
    for index, row in enumerate(rows):
        ids = {"topic": row.topic, "partition": row.partition, "broker": row.broker}
        if refused:
            found.append(result(schemas.ReplicaResult, refused.get(index, others), **ids))
        else:
            found.append(schemas.ReplicaResult.model_validate(ids))
    return schemas.ReplicaLogDirsResult(replicas=found, request_id=request_id)


def missing(tp: tuple[str, int], broker: int, log_dirs: Sequence[LogDir]) -> RequestError:
    """The error of a replica that is in none of its broker's log directories."""
    topic, partition = tp
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
    log_dir = {one.path: one for one in answer}.get(row.log_dir)
    if log_dir is None:
        raise _refusal(
            row,
            f"{shown} of log directories of broker {row.broker} {known_are([one.path for one in answer])}",
            ErrorCode.LOG_DIR_NOT_FOUND,
        )
    if not log_dir.online:
        raise _refusal(row, f"{shown} it is offline", ErrorCode.KAFKA_STORAGE_ERROR)
    there = held.get(_replica(row), NO_REPLICA).path
    if there is None:
        raise missing((row.topic, row.partition), row.broker, answer)
    if log_dir.is_cordoned and there != row.log_dir:
        raise _refusal(row, f"{shown} it is cordoned", ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def _replica(row: schemas.ReplicaLogDir) -> Replica:
    return row.topic, row.partition, row.broker


def _refusal(
    row: schemas.ReplicaLogDir, reason: str, code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> RequestError:
    return RequestError(code, f"replica {row.topic[:250]}-{row.partition} on broker {row.broker} {reason}")
