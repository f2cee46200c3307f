"""Validates a request to reassign partitions, and makes its moves. PURE.

Kafka takes each partition by itself, and finds some mistakes only while it moves it. Here a request is taken as a whole or
not at all, so all of it is checked first. Codes are those of KIP-179 and of Kafka's AlterPartitionReassignments and
AlterReplicaLogDirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spark_ordered_kafka.client.schemas import PartitionReassignment
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.placement.assignments import listed_ids
from spark_ordered_kafka.controller.state.reassignment_records import ANY, Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.values import (
    NO_REPLICA,
    LocalReplica,
    LogDirAnswers,
    PartitionId,
    Reassignment,
    Replica,
    TopicDescription,
    local_replicas,
)
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.parsing import is_topic_name
from spark_ordered_kafka.updates import updated

_SHOWN = 20


@dataclass(frozen=True)
class Known:
    """The state of Kafka and of stored requests that a request is validated against.

    Attributes:
        topics: those topics of the request that exist.
        alive: ids of the brokers that are up.
        ongoing: the reassignments of the whole cluster, in progress or waiting.
        requests: which of them are ours: partition -> id of the request.
        directories: of these, the log directories that replicas are to be in: partition -> broker -> path.
        log_dirs: log directories; empty for a request that names none.
        changing: topic -> PARTITION_CHANGE_IN_PROGRESS, where the number of replicas must not change now.
    """

    topics: Mapping[str, TopicDescription]
    alive: Collection[int]
    ongoing: Mapping[PartitionId, Reassignment] = field(default_factory=dict)
    requests: Mapping[PartitionId, int] = field(default_factory=dict)
    directories: Mapping[PartitionId, Mapping[int, str]] = field(default_factory=dict)
    log_dirs: LogDirAnswers = field(default_factory=dict)
    changing: Mapping[str, RequestError] = field(default_factory=dict)

    @cached_property
    def held(self) -> Mapping[Replica, LocalReplica]:
        """The replicas in ``log_dirs``."""
        return local_replicas(self.log_dirs)

    def shown(self, tp: PartitionId) -> str:
        """The reassignment of a partition, as ``adding [2], removing [1], request 7`` or ``moving to /b on broker 1``."""
        one, directories = self.ongoing[tp], self.directories.get(tp, {})
        found = [f"moving to {path} on broker {broker}" for broker, path in sorted(directories.items())]
        if one.adding or one.removing or not directories:
            found.insert(0, f"adding {listed_ids(one.adding)}, removing {listed_ids(one.removing)}")
        if tp in self.requests:
            found.append(f"request {self.requests[tp]}")
        return ", ".join(found)


class StaleMetadataError(RequestError):
    """A row is refused because of metadata that may be stale: brokers learn of changes one after another."""


@dataclass(frozen=True)
class Validated:
    """``moves``: one per valid row, in their order; ``refused``: index of a row -> its error."""

    moves: tuple[Move, ...]
    refused: Mapping[int, RequestError]

    @property
    def may_be_stale(self) -> bool:
        """Whether all errors are due to metadata, so that the request might be valid with newer metadata."""
        return bool(self.refused) and all(
            isinstance(one, StaleMetadataError) for one in self.refused.values()
        )


def validate(
    rows: Sequence[PartitionReassignment],
    known: Known,
    *,
    allow_factor_change: bool = False,
    additional: bool = False,
) -> Validated:
    """Validate all rows of a request, but for the brokers' capacity: :func:`overloaded`.

    ``allow_factor_change``: partitions may get more or fewer replicas. ``additional``: the request may begin while other
    partitions are being reassigned. Codes: INVALID_TOPIC_EXCEPTION, INVALID_REPLICA_ASSIGNMENT, UNKNOWN_MEMBER_ID,
    LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_REQUEST (named twice, or the whole request changes nothing),
    REASSIGNMENT_IN_PROGRESS, PARTITION_CHANGE_IN_PROGRESS, or that of a broker that did not report its log directories.
    """
    counts = Counter((row.topic, row.partition) for row in rows)
    named = names_log_dirs(rows)
    moves: dict[int, Move] = {}
    refused: dict[int, RequestError] = {}
    for index, row in enumerate(rows):
        times = counts[row.topic, row.partition]
        try:
            if times > 1:
                raise _refusal(row, f"is named {times} times: name it once", ErrorCode.INVALID_REQUEST)
            moves[index] = _move(row, known, allow_factor_change, named)
        except RequestError as error:
            refused[index] = error
    if known.ongoing and not additional:
        refused |= _held_up(rows, list(moves), known)
    elif rows and not refused and not any(map(_changes, moves.values())):
        refused = {
            index: _stale(row, "is like this already, as all others of the request: nothing would change",
                            ErrorCode.INVALID_REQUEST)
            for index, row in enumerate(rows)
        }  # fmt: skip
    return Validated(tuple(move for index, move in moves.items() if index not in refused), refused)


def names_log_dirs(rows: Sequence[PartitionReassignment]) -> bool:
    """Whether any row names a log directory."""
    return any(path != ANY for row in rows for path in row.log_dirs or ())


def refactored(rows: Sequence[PartitionReassignment], topics: Mapping[str, TopicDescription]) -> set[str]:
    """The topics with a row that changes the number of a partition's replicas."""
    return {
        row.topic
        for row in rows
        if row.topic in topics
        and 0 <= row.partition < len(topics[row.topic].partitions)
        and len(row.replicas) != len(topics[row.topic].partitions[row.partition].replicas)
    }


def undone(
    moves: Sequence[Move],
    topics: Mapping[str, TopicDescription],
    held: Mapping[Replica, LocalReplica],
) -> tuple[list[PartitionReassignment], list[PartitionId]]:
    """Rows that give the partitions of a request their former replicas, and the partitions that are gone since.

    Left out are partitions that the request did not change, those that have their former replicas again, and those that it
    failed to move and another tool has moved since. ``held`` is as in :class:`Known`, for a request that named log directories: its
    partitions go back to those they were in. A topic that was deleted and created again is another one, and gone, too.
    """
    rows, gone = [], []
    for move in filter(_changes, moves):
        topic = topics.get(move.topic)
        if topic is None or topic.topic_id != move.topic_id or move.partition >= len(topic.partitions):
            gone.append(move.tp)
            continue
        now = topic.partitions[move.partition].replicas
        if move.state in ("failed", "cancelled") and not {*move.before, *move.after}.issuperset(now):
            continue
        where = {broker: _where(move.tp, broker, held) for broker in now}
        paths = None
        if move.before_log_dirs is not None:
            # Of a replica that stays on a broker that is down nothing can be asked.
            pairs = zip(move.before, move.before_log_dirs, strict=True)
            paths = [ANY if where.get(broker) == ANY else path for broker, path in pairs]
        elsewhere = bool(move.placements) and any(
            path not in (ANY, where.get(broker))
            for broker, path in zip(move.before, paths or (), strict=False)
        )
        if now != move.before or elsewhere:
            rows.append(
                PartitionReassignment(
                    topic=move.topic, partition=move.partition, replicas=list(move.before), log_dirs=paths
                )
            )
    return rows, gone


def moved_since(
    moves: Sequence[Move], topics: Mapping[str, TopicDescription], rows: Sequence[PartitionReassignment]
) -> list[PartitionId]:
    """Those of ``rows``, made by :func:`undone`, whose partitions have moved again since the request."""
    asked = {(row.topic, row.partition) for row in rows}
    return [
        move.tp
        for move in moves
        if move.tp in asked
        and move.state == "done"
        and topics[move.topic].partitions[move.partition].replicas != move.after
    ]


def shown_partitions(tps: Sequence[PartitionId]) -> str:
    """The first 20 partitions, as ``orders-0``, and the number of others."""
    return listed(tps, _SHOWN, lambda tp: f"{tp[0]}-{tp[1]}")


def overloaded(moves: Sequence[Move], capacity: Mapping[int, int]) -> dict[int, RequestError]:
    """Index of a move -> GUARD_RAILS, for moves to a broker without capacity for its new replicas (KIP-578).

    ``capacity``: broker -> replicas it may still take; a missing broker is unlimited. A broker keeps the replicas that it
    gives up until the new ones are in sync, so what fits during the moves fits at the end, too.
    """
    gained = guards.hosted(move.adding for move in moves)
    try:
        guards.check("the request", gained, capacity)
    except RequestError as error:
        lacking = set(guards.lacking(gained, capacity))
        guilty = [index for index, move in enumerate(moves) if not lacking.isdisjoint(move.adding)]
        brief = RequestError(
            ErrorCode.GUARD_RAILS, "a broker of it would take too many replicas: see the first of the kind"
        )
        return {index: brief if position else error for position, index in enumerate(guilty)}
    return {}


def _move(row: PartitionReassignment, known: Known, allow_factor_change: bool, named: bool) -> Move:
    if not is_topic_name(row.topic):
        raise _refusal(row, "has no name that a topic can have", ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = known.topics.get(row.topic)
    if topic is None:
        raise _stale(row, "is of a topic that does not exist", ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not 0 <= row.partition < len(topic.partitions):
        known_to = f"the topic has 0 to {len(topic.partitions) - 1}"
        raise (_stale if row.partition >= 0 else _refusal)(row, f"does not exist: {known_to}")
    tp = (row.topic, row.partition)
    if tp in known.ongoing:
        raise _refusal(row, f"is being reassigned: {known.shown(tp)}", ErrorCode.REASSIGNMENT_IN_PROGRESS)
    before = topic.partitions[row.partition].replicas
    _check_replicas(row, before, known, allow_factor_change)
    before_dirs = None
    if row.log_dirs is not None:
        _check_log_dirs(row, row.log_dirs, known)
    if named:
        before_dirs = tuple(_where(tp, broker, known.held) for broker in before)
    paths = tuple(None if path == ANY else path for path in row.log_dirs or ())
    move = Move(
        topic=row.topic,
        partition=row.partition,
        topic_id=topic.topic_id,
        before=before,
        after=tuple(row.replicas),
        before_log_dirs=before_dirs,
        after_log_dirs=paths if any(path is not None for path in paths) else None,
    )
    return move if _changes(move) else updated(move, state="done")


def _check_replicas(
    row: PartitionReassignment, before: Sequence[int], known: Known, allow_factor_change: bool
) -> None:
    replicas = row.replicas
    if not replicas or len(set(replicas)) != len(replicas):
        raise _refusal(row, f"has replicas {listed_ids(replicas)}: one or more distinct brokers are needed")
    # An existing replica may stay on a broker that is down.
    unknown = [broker for broker in replicas if broker not in known.alive and broker not in before]
    if unknown:
        raise _stale(
            row,
            f"has replicas {listed_ids(replicas)}: broker {unknown[0]} is not there; those that are up are "
            f"{listed_ids(sorted(known.alive))}",
            ErrorCode.UNKNOWN_MEMBER_ID,
        )
    if len(replicas) != len(before):
        if not allow_factor_change:
            raise _stale(
                row,
                f"has replicas {listed_ids(replicas)}: {len(replicas)} instead of {len(before)}, which takes "
                "allow_replication_factor_change",
            )
        if row.topic in known.changing:
            raise known.changing[row.topic]


def _check_log_dirs(row: PartitionReassignment, log_dirs: Sequence[str], known: Known) -> None:
    if len(log_dirs) != len(row.replicas):
        raise _refusal(
            row, f"has {len(log_dirs)} log_dirs for {len(row.replicas)} replicas: as many are needed"
        )
    for broker, path in zip(row.replicas, log_dirs, strict=True):
        if path == ANY:
            continue
        if not path.startswith("/"):
            raise _refusal(row, f"has the log_dir {path[:250]!r}: an absolute path or {ANY!r} is needed")
        answer = known.log_dirs.get(broker)
        if answer is None:
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r} on broker {broker}, which is down",
                ErrorCode.UNKNOWN_MEMBER_ID,
            )
        if isinstance(answer, OrderedKafkaError):
            raise _refusal(
                row, f"has a log_dir on broker {broker}, which does not tell: {answer}", answer.code
            )
        log_dir = {one.path: one for one in answer}.get(path)
        if log_dir is None:
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r}: broker {broker} has {', '.join(repr(one.path) for one in answer)}",
                ErrorCode.LOG_DIR_NOT_FOUND,
            )
        if not log_dir.online:
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r}, which is offline on broker {broker}",
                ErrorCode.KAFKA_STORAGE_ERROR,
            )
        if log_dir.is_cordoned and path != _where((row.topic, row.partition), broker, known.held):
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r}, which is cordoned on broker {broker}",
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )


def _where(tp: PartitionId, broker: int, held: Mapping[Replica, LocalReplica]) -> str:
    return held.get((*tp, broker), NO_REPLICA).path or ANY


def _changes(move: Move) -> bool:
    return move.after != move.before or bool(move.receiving)


def _held_up(
    rows: Sequence[PartitionReassignment], indexes: Sequence[int], known: Known
) -> dict[int, RequestError]:
    """Errors of the valid rows; the first one lists the reassignments in progress."""
    found: dict[int, RequestError] = {}
    for index in indexes:
        reason = "has to wait for what is in progress already, as the first of the kind tells"
        if not found:
            reason = f"has to wait unless the request is additional, since reassignments are in progress: {_all_shown(known)}"
        found[index] = _refusal(rows[index], reason, ErrorCode.REASSIGNMENT_IN_PROGRESS)
    return found


def _all_shown(known: Known) -> str:
    """The ongoing reassignments, as ``orders-0 (adding [2], removing [1])``: the first 20 and how many more."""
    tps = sorted(known.ongoing)
    return listed(tps, _SHOWN, lambda tp: f"{tp[0]}-{tp[1]} ({known.shown(tp)})")


def _refusal(
    row: PartitionReassignment, reason: str, code: ErrorCode = ErrorCode.INVALID_REPLICA_ASSIGNMENT
) -> RequestError:
    return RequestError(code, _told(row, reason))


def _stale(
    row: PartitionReassignment, reason: str, code: ErrorCode = ErrorCode.INVALID_REPLICA_ASSIGNMENT
) -> StaleMetadataError:
    return StaleMetadataError(code, _told(row, reason))


def _told(row: PartitionReassignment, reason: str) -> str:
    return f"partition {row.topic[:250]}-{row.partition} {reason}"
