"""What moves between log directories come to: which moves are stored, and which earlier ones they replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.client.schemas import ReplicaLogDir
from spark_ordered_kafka.controller.reassign.log_dirs.move_plan import Pending, Plan, plan
from spark_ordered_kafka.controller.reassign.requests.validation import Known
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import DirReplica, LogDir, PartitionDescription, TopicDescription

PATHS = ("/a", "/b", "/c")
BROKERS = (1, 2, 3)
P0, P1 = ("t", 0), ("t", 1)


def known(futures: Mapping[tuple[int, int], str] | None = None) -> Known:
    """A topic with two partitions on three brokers, all in /a; ``futures``: (partition, broker) -> where it is copied to."""
    rows = tuple(PartitionDescription(p, 1, 0, BROKERS, BROKERS) for p in (0, 1))
    log_dirs = {
        broker: [
            LogDir(
                path,
                0,
                tuple(
                    DirReplica("t", p, 10, 0, future)
                    for p in (0, 1)
                    for future in (False, True)
                    if path == ((futures or {}).get((p, broker)) if future else "/a")
                ),
            )
            for path in PATHS
        ]
        for broker in BROKERS
    }
    return Known({"t": TopicDescription("t", "id", False, rows)}, set(BROKERS), log_dirs=log_dirs)


def row(broker: int, path: str, partition: int = 0) -> ReplicaLogDir:
    return ReplicaLogDir(topic="t", partition=partition, broker=broker, log_dir=path)


def earlier(*paths: str | None, request_id: int = 7, partition: int = 0, **fields: Any) -> Pending:
    move = Move(
        topic="t",
        partition=partition,
        topic_id="id",
        before=BROKERS,
        after=BROKERS,
        before_log_dirs=("/a", "/a", "/a"),
        after_log_dirs=paths,
        state="placing",
    )
    return Pending(request_id, move, **({"continues": True, "understood": True} | fields))


def planned(*rows: ReplicaLogDir, pending: tuple[Pending, ...] = (), **more: Any) -> Plan:
    by_place = {one.move.tp: one for one in pending}
    return plan(rows, more.get("refused", {}), known(more.get("futures")), by_place, more.get("ongoing", ()))


def test_the_replicas_of_a_partition_are_one_move_and_go_back_by_a_rollback() -> None:
    found = planned(row(3, "/b"), row(1, "/c"), row(2, "/b", 1))
    assert [(move.tp, move.before, move.after, move.after_log_dirs) for move in found.moves] == [
        (P0, BROKERS, BROKERS, ("/c", None, "/b")),
        (P1, BROKERS, BROKERS, (None, "/b", None)),
    ]
    assert found.moves[0].before_log_dirs == ("/a", "any", "/a")
    assert found.moves[0].topic_id == "id"
    assert (found.refused, found.request_id) == ({}, None)


def test_what_is_in_place_needs_no_move_unless_it_is_being_copied_away() -> None:
    assert planned(row(1, "/a")) == Plan([], {})
    (move,) = planned(row(1, "/a"), row(2, "/a", 1), futures={(1, 2): "/c"}).moves
    assert (move.tp, move.placements, move.receiving) == (P1, {2: "/a"}, ())


def test_the_same_again_is_the_request_that_does_it() -> None:
    first, other = earlier("/b", None, "/c"), earlier("/b", None, None, partition=1, request_id=8)
    assert planned(row(1, "/b"), pending=(first,)) == Plan((), {}, 7)
    assert planned(row(1, "/b"), row(3, "/c"), row(3, "/a", 1), pending=(first,)) == Plan((), {}, 7)
    # What two requests do, or one that is being taken back, is a request of its own.
    assert len(planned(row(1, "/b"), row(1, "/b", 1), pending=(first, other)).moves) == 2
    assert len(planned(row(1, "/b"), row(1, "/b", 1), pending=(first,)).moves) == 2
    assert len(planned(row(1, "/b"), pending=(earlier("/b", None, None, continues=False),)).moves) == 1


@pytest.mark.parametrize(("continues", "paths"), [(True, ("/a", None, "/c")), (False, ("/a", None, None))])
def test_the_other_replicas_of_a_replaced_move_continue_unless_it_is_taken_back(
    continues: bool, paths: tuple[str | None, ...]
) -> None:
    (move,) = planned(row(1, "/a"), pending=(earlier("/b", None, "/c", continues=continues),)).moves
    assert move.after_log_dirs == paths
    assert move.before_log_dirs == ("/a", "/a" if continues else "any", "/a" if continues else "any")


@pytest.mark.parametrize("what", ["brokers", "newer", "tool"])
def test_a_partition_that_is_being_reassigned_is_refused(what: str) -> None:
    first = earlier("/b", None, None, understood=what != "newer")
    if what == "brokers":
        moved = Move(topic="t", partition=0, before=BROKERS, after=(1, 2, 4), state="waiting")
        first = Pending(7, moved, continues=True, understood=True)
    wrong = {1: RequestError(ErrorCode.LOG_DIR_NOT_FOUND, "wrong")}
    found = planned(
        *(row(1, "/b"), row(2, "/x"), row(3, "/b"), row(1, "/b", 1)),
        refused=wrong,
        pending=() if what == "tool" else (first,),
        ongoing=[P0] if what == "tool" else [],
    )
    assert found.refused.keys() == {0, 1, 2}
    assert found.refused[1] is wrong[1]
    by = "another tool: wait for its end" if what == "tool" else "request 7: wait for its end, or cancel it"
    for index, broker in ((0, 1), (2, 3)):
        assert found.refused[index].code == ErrorCode.REASSIGNMENT_IN_PROGRESS
        assert f"replica t-0 on broker {broker} is of a partition that is being reassigned by {by}" in str(
            found.refused[index]
        )


replicas = st.tuples(st.sampled_from([0, 1]), st.sampled_from(BROKERS))
targets = st.dictionaries(replicas, st.sampled_from(PATHS), max_size=6)


@given(targets.filter(bool), targets, st.sampled_from([True, False]), targets)
def test_every_named_replica_gets_its_directory_and_every_other_one_keeps_its_own(
    named: dict[tuple[int, int], str],
    moving: dict[tuple[int, int], str],
    continues: bool,
    futures: dict[tuple[int, int], str],
) -> None:
    pending = tuple(
        earlier(*(moving.get((p, b)) for b in BROKERS), partition=p, continues=continues)
        for p in (0, 1)
        if any(p == q for q, _ in moving)
    )
    futures = {key: path for key, path in futures.items() if path != "/a"}
    found = planned(*(row(b, path, p) for (p, b), path in named.items()), pending=pending, futures=futures)
    asked = {(m.partition, b): path for m in found.moves for b, path in m.placements.items()}
    there = {key: "/a" for key in named if key not in futures and not any(key[0] == q for q, _ in moving)}
    going = moving if continues else {}
    if found.request_id is not None:
        assert (found.moves, there | going) == ((), there | going | named)
        return
    for key, path in named.items():
        assert asked.get(key, there.get(key)) == path
    for p, b in asked.keys() - named.keys():
        assert asked[p, b] == going[p, b]
    replaced = {p for p, _ in named}
    assert {key for key in going if key[0] in replaced} <= asked.keys()
