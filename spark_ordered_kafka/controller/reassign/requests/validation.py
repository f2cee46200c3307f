"""Which moves a request to reassign partitions comes to, or why there are none. PURE.

Kafka takes every partition for itself and finds some mistakes only while it moves; here a request is whole or nothing, so
all of it is looked at first. Codes are those of KIP-179 and of Kafka's AlterPartitionReassignments and AlterReplicaLogDirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from spark_ordered_kafka.client.schemas import PartitionReassignment
from spark_ordered_kafka.controller.placement import guards
from spark_ordered_kafka.controller.state.reassignment_records import ANY, Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.values import PartitionId, TopicDescription
from spark_ordered_kafka.parsing import is_topic_name

_SHOWN = 20


@dataclass(frozen=True)
class Going:
    """What goes on with a partition; ``request_id`` None: somebody else asked Kafka for it."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]
    request_id: int | None = None


@dataclass(frozen=True)
class BrokerDirs:
    """A broker's log directories: path -> error code (0: online), and the one in which each partition is."""

    paths: Mapping[str, int]
    held: Mapping[PartitionId, str]


@dataclass(frozen=True)
class Known:
    """What Kafka and this controller know about the partitions and brokers that a request names.

    Attributes:
        topics: those of the named ones that exist.
        alive: ids of the brokers that are up.
        going: partitions of the whole cluster that are being reassigned, or are waiting for it.
        log_dirs: broker -> its log directories, or why it does not tell; empty for a request that names none.
        changing: topic -> PARTITION_CHANGE_IN_PROGRESS, where the number of replicas must not change now.
    """

    topics: Mapping[str, TopicDescription]
    alive: Collection[int]
    going: Mapping[PartitionId, Going] = field(default_factory=dict)
    log_dirs: Mapping[int, BrokerDirs | OrderedKafkaError] = field(default_factory=dict)
    changing: Mapping[str, RequestError] = field(default_factory=dict)


class StaleMetadataError(RequestError):
    """A row does not fit what brokers tell of partitions and of each other, which they learn one after another."""


@dataclass(frozen=True)
class Validated:
    """``moves``: one per row that is right, in their order; ``refused``: index of a row -> why it is not."""

    moves: tuple[Move, ...]
    refused: Mapping[int, RequestError]

    @property
    def is_hearsay(self) -> bool:
        """Whether the request is refused, and a broker that has heard of more might take it."""
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
    """Look at all rows of a request, but for what brokers can still take: :func:`overloaded`.

    ``allow_factor_change`` lets partitions have more or fewer replicas than now, ``additional`` lets the request begin while
    other partitions are being reassigned. Codes: INVALID_TOPIC_EXCEPTION, INVALID_REPLICA_ASSIGNMENT, UNKNOWN_MEMBER_ID,
    LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_REQUEST (named twice, or the whole request changes nothing),
    REASSIGNMENT_IN_PROGRESS, PARTITION_CHANGE_IN_PROGRESS, or that of a broker that does not tell its log directories.
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
    if known.going and not additional:
        refused |= _held_up(rows, list(moves), known.going)
    elif rows and not refused and not any(map(_changes, moves.values())):
        refused = {
            index: _hearsay(row, "is like this already, as all others of the request: nothing would change",
                            ErrorCode.INVALID_REQUEST)
            for index, row in enumerate(rows)
        }  # fmt: skip
    return Validated(tuple(move for index, move in moves.items() if index not in refused), refused)


def names_log_dirs(rows: Sequence[PartitionReassignment]) -> bool:
    """Whether any row says in which log directory a replica is to be."""
    return any(path != ANY for row in rows for path in row.log_dirs or ())


def refactored(rows: Sequence[PartitionReassignment], topics: Mapping[str, TopicDescription]) -> set[str]:
    """The topics of which a row has another number of replicas than the partition has now."""
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
    log_dirs: Mapping[int, BrokerDirs | OrderedKafkaError],
) -> tuple[list[PartitionReassignment], list[PartitionId]]:
    """Rows that give the partitions of a request back the replicas they had, and the partitions that are gone since.

    Partitions that it left as they were, or that are like before again, are left out, and so are those that it did not come to
    move and somebody else has moved since. ``log_dirs`` is as in :class:`Known`, for
    a request that named some: its partitions go back to the directories they were in. A topic that was deleted and created
    again is another one, and gone, too.
    """
    rows, gone = [], []
    for move in filter(_changes, moves):
        topic = topics.get(move.topic)
        if topic is None or topic.topic_id != move.topic_id or move.partition >= len(topic.partitions):
            gone.append(move.place)
            continue
        now = topic.partitions[move.partition].replicas
        if move.state in ("failed", "cancelled") and not {*move.before, *move.after}.issuperset(now):
            continue
        where = {broker: _where(move.place, broker, log_dirs) for broker in now}
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
    """Those of ``rows``, made by :func:`undone`, whose partitions are not where the request has left them any more."""
    asked = {(row.topic, row.partition) for row in rows}
    return [
        move.place
        for move in moves
        if move.place in asked
        and move.state == "done"
        and topics[move.topic].partitions[move.partition].replicas != move.after
    ]


def shown_places(places: Sequence[PartitionId]) -> str:
    """The first 20, as ``orders-0``, and how many more."""
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(f"{topic}-{partition}" for topic, partition in places[:_SHOWN]) + more


def overloaded(moves: Sequence[Move], capacity: Mapping[int, int]) -> dict[int, RequestError]:
    """Index of a move -> GUARD_RAILS, of those that give a broker replicas for which it has no capacity (KIP-578).

    ``capacity`` maps broker -> replicas it may still take; a missing one is unlimited. A broker hosts what it gives up until
    what others take on is in sync, so what fits while all is moved fits at the end, too.
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
        return {index: brief if place else error for place, index in enumerate(guilty)}
    return {}


def _move(row: PartitionReassignment, known: Known, allow_factor_change: bool, named: bool) -> Move:
    if not is_topic_name(row.topic):
        raise _refusal(row, "has no name that a topic can have", ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = known.topics.get(row.topic)
    if topic is None:
        raise _hearsay(row, "is of a topic that does not exist", ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not 0 <= row.partition < len(topic.partitions):
        known_to = f"the topic has 0 to {len(topic.partitions) - 1}"
        raise (_hearsay if row.partition >= 0 else _refusal)(row, f"does not exist: {known_to}")
    place = (row.topic, row.partition)
    if place in known.going:
        raise _refusal(
            row, f"is being reassigned: {_shown(known.going[place])}", ErrorCode.REASSIGNMENT_IN_PROGRESS
        )
    before = topic.partitions[row.partition].replicas
    _check_replicas(row, before, known, allow_factor_change)
    before_dirs = None
    if row.log_dirs is not None:
        _check_log_dirs(row, row.log_dirs, known)
    if named:
        before_dirs = tuple(_where(place, broker, known.log_dirs) for broker in before)
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
    return move if _changes(move) else move.model_copy(update={"state": "done"})


def _check_replicas(
    row: PartitionReassignment, before: Sequence[int], known: Known, allow_factor_change: bool
) -> None:
    replicas = row.replicas
    if not replicas or len(set(replicas)) != len(replicas):
        raise _refusal(row, f"has replicas {_listed(replicas)}: one or more distinct brokers are needed")
    # What is there already may stay, though its broker is down.
    unknown = [broker for broker in replicas if broker not in known.alive and broker not in before]
    if unknown:
        raise _hearsay(
            row,
            f"has replicas {_listed(replicas)}: broker {unknown[0]} is not there; those that are up are "
            f"{_listed(sorted(known.alive))}",
            ErrorCode.UNKNOWN_MEMBER_ID,
        )
    if len(replicas) != len(before):
        if not allow_factor_change:
            raise _hearsay(
                row,
                f"has replicas {_listed(replicas)}: {len(replicas)} instead of {len(before)}, which takes "
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
        told = known.log_dirs.get(broker)
        if told is None:
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r} on broker {broker}, which is down",
                ErrorCode.UNKNOWN_MEMBER_ID,
            )
        if isinstance(told, OrderedKafkaError):
            raise _refusal(row, f"has a log_dir on broker {broker}, which does not tell: {told}", told.code)
        if path not in told.paths:
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r}: broker {broker} has {', '.join(map(repr, told.paths))}",
                ErrorCode.LOG_DIR_NOT_FOUND,
            )
        if told.paths[path] != ErrorCode.NONE:
            raise _refusal(
                row,
                f"has the log_dir {path[:250]!r}, which is offline on broker {broker}",
                ErrorCode.KAFKA_STORAGE_ERROR,
            )


def _where(place: PartitionId, broker: int, log_dirs: Mapping[int, BrokerDirs | OrderedKafkaError]) -> str:
    told = log_dirs.get(broker)
    return told.held.get(place, ANY) if isinstance(told, BrokerDirs) else ANY


def _changes(move: Move) -> bool:
    return move.after != move.before or bool(move.receiving)


def _held_up(
    rows: Sequence[PartitionReassignment], indexes: Sequence[int], going: Mapping[PartitionId, Going]
) -> dict[int, RequestError]:
    """Of the rows that are right: the first one tells what goes on."""
    found: dict[int, RequestError] = {}
    for index in indexes:
        reason = "has to wait for what goes on already, as the first of the kind tells"
        if not found:
            reason = (
                f"has to wait unless the request is additional, since reassignments go on: {listed(going)}"
            )
        found[index] = _refusal(rows[index], reason, ErrorCode.REASSIGNMENT_IN_PROGRESS)
    return found


def listed(going: Mapping[PartitionId, Going]) -> str:
    """What goes on, as ``orders-0 (adding [2], removing [1])``: the first 20 and how many more."""
    first = sorted(going)[:_SHOWN]
    told = ", ".join(f"{topic}-{partition} ({_shown(going[topic, partition])})" for topic, partition in first)
    return told + (f" and {len(going) - _SHOWN} more" if len(going) > _SHOWN else "")


def _shown(going: Going) -> str:
    whose = "" if going.request_id is None else f", request {going.request_id}"
    return f"adding {_listed(going.adding)}, removing {_listed(going.removing)}{whose}"


def _listed(numbers: Sequence[int]) -> str:
    more = f", … {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"[{', '.join(map(str, numbers[:_SHOWN]))}{more}]"


def _refusal(
    row: PartitionReassignment, reason: str, code: ErrorCode = ErrorCode.INVALID_REPLICA_ASSIGNMENT
) -> RequestError:
    return RequestError(code, _told(row, reason))


def _hearsay(
    row: PartitionReassignment, reason: str, code: ErrorCode = ErrorCode.INVALID_REPLICA_ASSIGNMENT
) -> StaleMetadataError:
    return StaleMetadataError(code, _told(row, reason))


def _told(row: PartitionReassignment, reason: str) -> str:
    return f"partition {row.topic[:250]}-{row.partition} {reason}"
