"""Validation of reassignments against a model that asks every question of every row anew, and undoing what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.client.schemas import PartitionReassignment
from spark_ordered_kafka.controller.reassign.requests.validation import (
    Known,
    overloaded,
    undone,
    validate,
)
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.values import (
    LogDir,
    PartitionDescription,
    PartitionId,
    Reassignment,
    TopicDescription,
)
from tests.log_dir_values import log_dirs
from tests.seeds import examples

ALIVE = (1, 2, 3)
BROKERS = (*ALIVE, 9)  # 9 is registered and down
PATHS = {1: {"/a": 0, "/b": 0}, 2: {"/a": 0, "/off": 56}, 3: {"/a": 0, "/b": 0}}
ONLINE = {broker: [path for path, code in paths.items() if code == 0] for broker, paths in PATHS.items()}
CHANGE = RequestError(ErrorCode.PARTITION_CHANGE_IN_PROGRESS, "busy")

replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)


def described(
    replicas: Mapping[str, Sequence[Sequence[int]]], suffix: str = ""
) -> dict[str, TopicDescription]:
    return {
        name: TopicDescription(
            name,
            f"id-{name}{suffix}",
            False,
            tuple(PartitionDescription(p, r[0], 0, tuple(r), tuple(r)) for p, r in enumerate(rows)),
        )
        for name, rows in replicas.items()
    }


@st.composite
def clusters(draw: st.DrawFn) -> Known:
    replicas = {name: draw(st.lists(replica_lists, min_size=1, max_size=3)) for name in ("t", "u")}
    tps = [(name, p) for name, rows in replicas.items() for p in range(len(rows))]
    held: dict[int, dict[tuple[str, int], str]] = {broker: {} for broker in ALIVE}
    for name, partition in tps:
        for broker in set(replicas[name][partition]) & set(ALIVE):
            held[broker][name, partition] = draw(st.sampled_from(ONLINE[broker]))
    going = draw(st.lists(st.sampled_from([*tps, ("other", 0)]), max_size=1))
    dirs: dict[int, list[LogDir] | OrderedKafkaError] = {
        broker: log_dirs(PATHS[broker], held[broker]) for broker in ALIVE
    }
    if draw(st.booleans()):
        dirs[3] = RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    return Known(
        topics=described(replicas),
        alive=set(ALIVE),
        ongoing={tp: Reassignment((1, 2), (1,), (2,)) for tp in going},
        log_dirs=dirs,
        changing={"u": CHANGE} if draw(st.booleans()) else {},
    )


@st.composite
def wanted(draw: st.DrawFn) -> PartitionReassignment:
    good = draw(st.integers(0, 3)) > 0
    replicas = draw(replica_lists if good else st.lists(st.sampled_from((*BROKERS, 7, -1)), max_size=4))
    path = st.sampled_from(["any", "any", "/a", "/b", "/off", "a"] if not good else ["any", "/a"])
    dirs = None
    if draw(st.booleans()):
        length = len(replicas) if good else draw(st.integers(0, 4))
        dirs = draw(st.lists(path, min_size=length, max_size=length))
    return PartitionReassignment(
        topic=draw(st.sampled_from(["t", "u"] if good else ["t", "u", "none", "a b"])),
        partition=draw(st.integers(0, 2) if good else st.integers(-1, 4)),
        replicas=replicas,
        log_dirs=dirs,
    )


def mistakes(row: PartitionReassignment, known: Known, allow: bool) -> Iterable[str]:
    """All that is wrong with a row by itself, most general first."""
    if row.topic not in known.topics:
        yield "INVALID_TOPIC_EXCEPTION"
        return
    rows = known.topics[row.topic].partitions
    if row.partition not in [one.partition for one in rows]:
        yield "INVALID_REPLICA_ASSIGNMENT"
        return
    if (row.topic, row.partition) in known.ongoing:
        yield "REASSIGNMENT_IN_PROGRESS"
    now = rows[row.partition].replicas
    if not row.replicas or max(Counter(row.replicas).values()) > 1:
        yield "INVALID_REPLICA_ASSIGNMENT"
    for broker in row.replicas:
        if not (broker in ALIVE or broker in now):
            yield "UNKNOWN_MEMBER_ID"
    if len(row.replicas) != len(now):
        if not allow:
            yield "INVALID_REPLICA_ASSIGNMENT"
        elif row.topic in known.changing:
            yield "PARTITION_CHANGE_IN_PROGRESS"
    if row.log_dirs is not None:
        if len(row.log_dirs) != len(row.replicas):
            yield "INVALID_REPLICA_ASSIGNMENT"
        for broker, path in zip(row.replicas, row.log_dirs, strict=False):
            if path == "any":
                continue
            told = known.log_dirs.get(broker)
            if path[:1] != "/":
                yield "INVALID_REPLICA_ASSIGNMENT"
            elif told is None:
                yield "UNKNOWN_MEMBER_ID"
            elif isinstance(told, OrderedKafkaError):
                yield told.name
            elif path not in PATHS[broker]:
                yield "LOG_DIR_NOT_FOUND"
            elif PATHS[broker][path]:
                yield "KAFKA_STORAGE_ERROR"


def held_by(known: Known, broker: int) -> dict[PartitionId, str] | None:
    """The log directory of each replica on the broker; None if it did not report them."""
    told = known.log_dirs.get(broker)
    if told is None or isinstance(told, OrderedKafkaError):
        return None
    return {(row.topic, row.partition): one.path for one in told for row in one.replicas}


def is_as_asked(row: PartitionReassignment, known: Known) -> bool:
    """Whether nothing is to be done for a row that is right."""
    if list(known.topics[row.topic].partitions[row.partition].replicas) != row.replicas:
        return False
    for broker, path in zip(row.replicas, row.log_dirs or (), strict=False):
        held = held_by(known, broker)
        known_dir = path if held is None else held.get((row.topic, row.partition))
        if path not in ("any", known_dir):
            return False
    return True


@settings(max_examples=examples(200), deadline=None)
@given(clusters(), st.lists(wanted(), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_every_row_is_judged_as_the_model_does(
    known: Known, rows: list[PartitionReassignment], allow: bool, additional: bool
) -> None:
    found = validate(rows, known, allow_factor_change=allow, additional=additional)

    expected: dict[int, str] = {}
    for index, row in enumerate(rows):
        same = [other for other in rows if (other.topic, other.partition) == (row.topic, row.partition)]
        first = "INVALID_REQUEST" if len(same) > 1 else next(iter(mistakes(row, known, allow)), None)
        if first is not None:
            expected[index] = first
    right = [index for index in range(len(rows)) if index not in expected]
    if known.ongoing and not additional:
        expected |= dict.fromkeys(right, "REASSIGNMENT_IN_PROGRESS")
    elif not expected and all(is_as_asked(row, known) for row in rows):
        expected = dict.fromkeys(range(len(rows)), "INVALID_REQUEST")

    assert {index: error.name for index, error in found.refused.items()} == expected
    assert [move.tp for move in found.moves] == [
        (row.topic, row.partition) for index, row in enumerate(rows) if index not in expected
    ]
    for error in found.refused.values():
        assert error.message


def carried_out(known: Known, moves: Sequence[Move]) -> Known:
    """The cluster once all moves are done; replicas without a named directory get their broker's last one."""
    replicas = {name: [list(row.replicas) for row in one.partitions] for name, one in known.topics.items()}
    held = {b: found for b in known.log_dirs if (found := held_by(known, b)) is not None}
    for move in moves:
        replicas[move.topic][move.partition] = list(move.after)
        for broker, where in held.items():
            if broker not in move.after:
                where.pop(move.tp, None)
            else:
                where[move.tp] = move.placements.get(broker, where.get(move.tp, ONLINE[broker][-1]))
    after = {broker: log_dirs(PATHS[broker], where) for broker, where in held.items()}
    return Known(described(replicas), known.alive, log_dirs={**known.log_dirs, **after})


@settings(max_examples=examples(200), deadline=None)
@given(clusters(), st.lists(wanted(), min_size=1, max_size=4))
def test_undoing_leads_back(known: Known, rows: list[PartitionReassignment]) -> None:
    known = Known(known.topics, known.alive, log_dirs=known.log_dirs)
    moves = validate(rows, known, allow_factor_change=True).moves
    there = carried_out(known, moves)
    assert undone(moves, known.topics, known.held) == ([], [])

    back, gone = undone(moves, there.topics, there.held)
    assert not gone
    for row in back:
        before = known.topics[row.topic].partitions[row.partition].replicas
        assert tuple(row.replicas) == before
    again = validate(back, there, allow_factor_change=True)
    # What cannot be undone: a replica on a broker that is down, or in a directory of a broker that does not tell.
    assert {e.name for e in again.refused.values()} <= {"UNKNOWN_MEMBER_ID", "LOG_DIR_NOT_FOUND"}
    at_last = carried_out(there, again.moves)
    for index, row in enumerate(back):
        if index in again.refused:
            continue
        tp = (row.topic, row.partition)
        assert at_last.topics[row.topic].partitions[row.partition].replicas == tuple(row.replicas)
        for broker in row.replicas:
            was, is_now = held_by(known, broker), held_by(at_last, broker)
            if row.log_dirs is not None and was is not None and is_now is not None:
                assert is_now.get(tp) == was.get(tp)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(replica_lists, replica_lists), min_size=1, max_size=6),
    st.dictionaries(st.sampled_from(BROKERS), st.integers(0, 3)),
)
def test_no_order_of_the_moves_exceeds_a_capacity(
    pairs: list[tuple[list[int], list[int]]], capacity: dict[int, int]
) -> None:
    """Refused is exactly what overloads a broker while everything is moved at the same time."""
    moves = [
        Move(topic="t", partition=p, before=tuple(before), after=tuple(after))
        for p, (before, after) in enumerate(pairs)
    ]
    most = Counter(broker for before, after in pairs for broker in set(before) | set(after))
    before = Counter(broker for one, _ in pairs for broker in one)
    full = {broker for broker in capacity if most[broker] - before[broker] > capacity[broker]}
    refused = overloaded(moves, capacity)
    assert set(refused) == {i for i, move in enumerate(moves) if full & set(move.adding)}
    assert all(error.code is ErrorCode.GUARD_RAILS for error in refused.values())
