"""What a request to reassign partitions comes to, or why it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from spark_ordered_kafka.client.schemas import PartitionReassignment
from spark_ordered_kafka.controller.reassign.requests.validation import (
    Known,
    Validated,
    moved_since,
    overloaded,
    shown_partitions,
    undone,
    validate,
)
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.values import (
    LogDirAnswers,
    PartitionDescription,
    Reassignment,
    TopicDescription,
    local_replicas,
)
from spark_ordered_kafka.updates import updated
from tests.log_dir_values import log_dirs

DIRS: LogDirAnswers = {
    1: log_dirs({"/a": 0, "/b": 0, "/off": 56}, {("t", 0): "/a", ("t", 1): "/b"}),
    2: log_dirs({"/a": 0, "/b": 0}, {("t", 0): "/b", ("t", 1): "/a"}),
    3: log_dirs({"/c": 0}, {}),
    4: UnavailableError("broker 4 hangs"),
}
BUSY = RequestError(ErrorCode.PARTITION_CHANGE_IN_PROGRESS, "topic 't' is changing")


def topic(name: str, replicas: Sequence[Sequence[int]], topic_id: str = "id") -> TopicDescription:
    rows = [PartitionDescription(p, r[0], 0, tuple(r), tuple(r)) for p, r in enumerate(replicas)]
    return TopicDescription(name, topic_id, False, tuple(rows))


def known(**more: Any) -> Known:
    """Topic ``t`` with two partitions on brokers 1 and 2, ``u`` with one on 1 and 9; 9 is down."""
    topics = {"t": topic("t", [[1, 2], [1, 2]]), "u": topic("u", [[1, 9]])}
    return Known(**{"topics": topics, "alive": {1, 2, 3, 4}, "log_dirs": DIRS} | more)


def row(
    partition: int, replicas: Sequence[int], log_dirs: Sequence[str] | None = None, name: str = "t"
) -> PartitionReassignment:
    dirs = None if log_dirs is None else list(log_dirs)
    return PartitionReassignment(topic=name, partition=partition, replicas=list(replicas), log_dirs=dirs)


def codes(found: Validated) -> Mapping[int, str]:
    return {index: error.code.name for index, error in found.refused.items()}


def only(wanted: PartitionReassignment, **more: Any) -> Move:
    found = validate([wanted], known(), **more)
    assert not found.refused, found.refused
    (move,) = found.moves
    return move


class TestOneRow:
    @pytest.mark.parametrize(
        ("wanted", "code", "told"),
        [
            (row(0, [1, 3], name="a b"), "INVALID_TOPIC_EXCEPTION", "a b-0 has no name"),
            (row(0, [1, 3], name=""), "INVALID_TOPIC_EXCEPTION", "no name that a topic can have"),
            (row(0, [1, 3], name="none"), "INVALID_TOPIC_EXCEPTION", "none-0 is of a topic that does not exist"),
            (row(2, [1, 3]), "INVALID_REPLICA_ASSIGNMENT", "t-2 does not exist: the topic has 0 to 1"),
            (row(-1, [1, 3]), "INVALID_REPLICA_ASSIGNMENT", "t--1 does not exist"),
            (row(0, []), "INVALID_REPLICA_ASSIGNMENT", "t-0 has replicas []"),
            (row(0, [3, 3]), "INVALID_REPLICA_ASSIGNMENT", "t-0 has replicas [3, 3]: one or more distinct"),
            (row(0, [1, 7]), "UNKNOWN_MEMBER_ID", "broker 7 is not there; those that are up are [1, 2, 3, 4]"),
            (row(0, [1, -1]), "UNKNOWN_MEMBER_ID", "broker -1 is not there"),
            (row(0, [1, 9]), "UNKNOWN_MEMBER_ID", "broker 9 is not there"),
            (row(0, [1]), "INVALID_REPLICA_ASSIGNMENT", "1 instead of 2, which takes allow_replication_factor_change"),
            (row(0, [1, 2, 3]), "INVALID_REPLICA_ASSIGNMENT", "3 instead of 2, which takes allow_repl"),
            (row(0, [1, 3], []), "INVALID_REPLICA_ASSIGNMENT", "has 0 log_dirs for 2 replicas"),
            (row(0, [1, 3], ["any"] * 3), "INVALID_REPLICA_ASSIGNMENT", "has 3 log_dirs for 2 replicas"),
            (row(0, [1, 3], ["any", "c"]), "INVALID_REPLICA_ASSIGNMENT", "log_dir 'c': an absolute path or 'any'"),
            (row(0, [1, 3], ["any", ""]), "INVALID_REPLICA_ASSIGNMENT", "log_dir '': an absolute path"),
            (row(0, [1, 3], ["any", "/a"]), "LOG_DIR_NOT_FOUND", "log_dir '/a': broker 3 has '/c'"),
            (row(0, [1, 3], ["/off", "/c"]), "KAFKA_STORAGE_ERROR", "'/off', which is offline on broker 1"),
            (row(0, [1, 4], ["any", "/c"]), "REQUEST_TIMED_OUT", "on broker 4, which does not tell: broker 4 hangs"),
            (row(0, [9, 2], ["/a", "any"], "u"), "UNKNOWN_MEMBER_ID", "on broker 9, which is down"),
        ],
    )  # fmt: skip
    def test_refusals(self, wanted: PartitionReassignment, code: str, told: str) -> None:
        found = validate([wanted], known())
        assert codes(found) == {0: code}
        assert told in found.refused[0].message
        assert found.moves == ()

    def test_a_move(self) -> None:
        move = only(row(0, [3, 1]))
        assert (move.before, move.after, move.state) == ((1, 2), (3, 1), "waiting")
        assert (move.adding, move.removing, move.receiving) == ((3,), (2,), (3,))
        assert (move.topic_id, move.before_log_dirs, move.after_log_dirs) == ("id", None, None)

    def test_another_order_alone_is_a_change(self) -> None:
        assert only(row(0, [2, 1])).receiving == ()

    def test_another_number_of_replicas(self) -> None:
        assert only(row(0, [1]), allow_factor_change=True).removing == (2,)
        assert only(row(0, [1, 2, 3]), allow_factor_change=True).adding == (3,)

    def test_a_replica_on_a_broker_that_is_down_may_stay(self) -> None:
        assert only(row(0, [2, 9], name="u")).adding == (2,)

    def test_log_dirs(self) -> None:
        move = only(row(0, [1, 3], ["/b", "any"]))
        assert (move.before_log_dirs, move.after_log_dirs) == (("/a", "/b"), ("/b", None))
        assert move.receiving == (1, 3)
        assert only(row(0, [1, 2], ["any", "/a"])).receiving == (2,)
        assert only(row(0, [1, 3], ["/a", "/c"])).receiving == (3,)

    def test_any_names_no_log_dir(self) -> None:
        move = only(row(0, [1, 3], ["any", "any"]))
        assert (move.before_log_dirs, move.after_log_dirs) == (None, None)

    def test_log_dirs_that_a_broker_does_not_tell(self) -> None:
        rows = [row(0, [2, 9], ["/a", "any"], "u")]
        found = validate(rows, known())
        assert found.moves[0].before_log_dirs == ("any", "any")


class TestTogether:
    def test_the_same_partition_twice(self) -> None:
        found = validate([row(0, [1, 3]), row(1, [1, 3]), row(0, [1, 3])], known())
        assert codes(found) == {0: "INVALID_REQUEST", 2: "INVALID_REQUEST"}
        assert "t-0 is named 2 times" in found.refused[2].message
        assert [move.tp for move in found.moves] == [("t", 1)]

    def test_a_request_that_changes_nothing(self) -> None:
        found = validate([row(0, [1, 2]), row(1, [1, 2], ["/b", "any"])], known())
        assert codes(found) == {0: "INVALID_REQUEST", 1: "INVALID_REQUEST"}
        assert "nothing would change" in found.refused[1].message

    def test_a_row_that_changes_nothing_beside_one_that_does(self) -> None:
        found = validate([row(0, [1, 2]), row(1, [2, 1])], known())
        assert [move.state for move in found.moves] == ["done", "waiting"]

    def test_all_partitions_tell_where_they_are_if_one_names_a_directory(self) -> None:
        found = validate([row(0, [1, 3]), row(1, [1, 2], ["any", "/b"])], known())
        assert [move.before_log_dirs for move in found.moves] == [("/a", "/b"), ("/b", "/a")]
        assert [move.after_log_dirs for move in found.moves] == [None, (None, "/b")]

    def test_what_goes_on_is_told_once(self) -> None:
        ongoing = {("x", p): Reassignment((2, 1), (2,), (1,)) for p in range(25)}
        requests = {("x", p): 5 for p in range(1, 25)}
        found = validate(
            [row(0, [1, 3]), row(1, [1, 3]), row(7, [1])], known(ongoing=ongoing, requests=requests)
        )
        assert codes(found) == {
            0: "REASSIGNMENT_IN_PROGRESS",
            1: "REASSIGNMENT_IN_PROGRESS",
            2: "INVALID_REPLICA_ASSIGNMENT",
        }
        first = found.refused[0].message
        assert "x-0 (adding [2], removing [1]), x-1 (adding [2], removing [1], request 5)" in first
        assert "and 5 more" in first
        assert len(found.refused[1].message) < 100

    def test_an_additional_request_begins_beside_others_but_for_their_partitions(self) -> None:
        ongoing = {("t", 1): Reassignment((1, 2, 3), (3,), ()), ("x", 0): Reassignment((2, 1), (2,), (1,))}
        found = validate([row(0, [1, 3]), row(1, [1, 3])], known(ongoing=ongoing), additional=True)
        assert codes(found) == {1: "REASSIGNMENT_IN_PROGRESS"}
        assert "t-1 is being reassigned: adding [3], removing []" in found.refused[1].message
        assert [move.tp for move in found.moves] == [("t", 0)]

    def test_a_move_between_log_directories_names_them(self) -> None:
        ongoing = {
            ("t", 0): Reassignment((1, 2), (), ()),
            ("t", 1): Reassignment((1, 2, 3), (3,), (1,)),
        }
        directories = {("t", 0): {2: "/a", 1: "/b"}, ("t", 1): {3: "/c"}}
        found = validate(
            [row(0, [1, 3]), row(1, [1, 3])],
            known(ongoing=ongoing, requests=dict.fromkeys(ongoing, 7), directories=directories),
            additional=True,
        )
        assert [error.message.partition("reassigned: ")[2] for error in found.refused.values()] == [
            "moving to /b on broker 1, moving to /a on broker 2, request 7",
            "adding [3], removing [1], moving to /c on broker 3, request 7",
        ]

    def test_a_partition_change_holds_up_other_numbers_of_replicas_alone(self) -> None:
        rows = [row(0, [1, 3]), row(1, [1, 2, 3])]
        found = validate(rows, known(changing={"t": BUSY}), allow_factor_change=True)
        assert codes(found) == {1: "PARTITION_CHANGE_IN_PROGRESS"}

    def test_thousands_of_rows(self) -> None:
        count = 5_000
        big = known(topics={"t": topic("t", [[1, 2]] * count)})
        found = validate([row(p, [2, 3] if p % 2 else [1]) for p in range(count)], big)
        assert (len(found.moves), len(found.refused)) == (count // 2, count // 2)


class TestCapacity:
    MOVES = validate([row(0, [1, 3]), row(1, [3, 4]), row(0, [1, 4], name="u")], known()).moves

    def test_it_fits(self) -> None:
        assert overloaded(self.MOVES, {}) == {}
        assert overloaded(self.MOVES, {1: 0, 2: 0, 3: 2, 4: 2}) == {}

    def test_what_a_broker_gives_up_is_not_set_off(self) -> None:
        assert set(overloaded(self.MOVES, {3: 2, 4: 1})) == {1, 2}

    def test_the_map_is_told_once(self) -> None:
        refused = overloaded(self.MOVES, {1: 0, 3: 1, 4: 9})
        assert {error.code for error in refused.values()} == {ErrorCode.GUARD_RAILS}
        assert list(refused) == [0, 1]
        assert "broker 3 would take 2 more" in refused[0].message
        assert "{1: 0, 3: 1, 4: 9}" in refused[0].message
        assert "see the first" in refused[1].message


class TestUndoing:
    def moved(self, *rows: PartitionReassignment) -> tuple[Move, ...]:
        found = validate(rows, known(), allow_factor_change=True)
        assert not found.refused
        return found.moves

    def test_replicas(self) -> None:
        moves = self.moved(row(0, [3, 1]), row(1, [1, 2, 3]))
        now = {"t": topic("t", [[3, 1], [1, 2, 3]])}
        assert undone(moves, now, {}) == ([row(0, [1, 2]), row(1, [1, 2])], [])

    def test_what_is_like_before_is_left_out(self) -> None:
        moves = self.moved(row(0, [3, 1]), row(1, [2, 1]))
        assert undone(moves, {"t": topic("t", [[1, 2], [2, 1]])}, {}) == ([row(1, [1, 2])], [])

    def test_what_the_request_left_as_it_was_is_left_out(self) -> None:
        moves = self.moved(row(0, [1, 2]), row(1, [2, 1]))
        assert undone(moves, {"t": topic("t", [[3, 2], [1, 2]])}, {}) == ([], [])

    def test_another_topic_of_the_name_is_not_touched(self) -> None:
        moves = self.moved(row(0, [3, 1]), row(1, [3, 1]), row(0, [1, 2], name="u"))
        now = {"t": topic("t", [[3, 1], [3, 1]], "other"), "u": topic("u", [])}
        assert undone(moves, now, {}) == ([], [("t", 0), ("t", 1), ("u", 0)])
        assert undone(moves, {}, {})[0] == []

    def test_log_dirs(self) -> None:
        moves = self.moved(row(0, [1, 2], ["/b", "any"]), row(1, [3, 1]))
        now = {"t": topic("t", [[1, 2], [3, 1]])}
        dirs: LogDirAnswers = {
            1: log_dirs({"/a": 0, "/b": 0}, {("t", 0): "/b", ("t", 1): "/b"}),
            2: log_dirs({"/a": 0, "/b": 0}, {("t", 0): "/b"}),
            3: log_dirs({"/c": 0}, {("t", 1): "/c"}),
        }
        back = [row(0, [1, 2], ["/a", "/b"]), row(1, [1, 2], ["/b", "/a"])]
        assert undone(moves, now, local_replicas(dirs)) == (back, [])

    def test_what_was_moved_again_since(self) -> None:
        moves = [updated(m, state="done") for m in self.moved(row(0, [3, 1]), row(1, [3, 1]))]
        now = {"t": topic("t", [[4, 1], [3, 1]])}
        rows, _ = undone(moves, now, {})
        assert rows == [row(0, [1, 2]), row(1, [1, 2])]
        assert moved_since(moves, now, rows) == [("t", 0)]
        assert moved_since(moves, now, rows[1:]) == []
        assert shown_partitions([("t", p) for p in range(22)]).endswith("t-19 and 2 more")

    def test_what_was_not_moved_and_somebody_else_moved_since_is_left_alone(self) -> None:
        moves = self.moved(row(0, [3, 1]), row(1, [3, 2]))
        for state in ("cancelled", "failed"):
            ended = [updated(move, state=state) for move in moves]
            now = {"t": topic("t", [[4, 2], [3, 2]])}
            # The second one was moved, though its log directory failed, say.
            assert undone(ended, now, {}) == ([row(1, [1, 2])], [])
        done = [updated(move, state="done") for move in moves]
        assert undone(done, {"t": topic("t", [[4, 2], [1, 2]])}, {}) == ([row(0, [1, 2])], [])

    def test_log_dirs_that_are_like_before(self) -> None:
        moves = self.moved(row(0, [1, 2], ["/b", "any"]))
        now = {"t": topic("t", [[1, 2]])}
        assert undone(moves, now, local_replicas(DIRS)) == ([], [])

    def test_a_replica_that_stays_on_a_broker_that_is_down_is_asked_nothing(self) -> None:
        moves = self.moved(row(0, [1, 2], ["/b", "/a"]))
        dirs = {1: log_dirs({"/a": 0, "/b": 0}, {("t", 0): "/b"})}
        rows, _ = undone(moves, {"t": topic("t", [[1, 2]])}, local_replicas(dirs))
        assert rows == [row(0, [1, 2], ["/a", "any"])]


class TestStaleMetadata:
    """What brokers may not have heard of yet is told apart from what is wrong whatever they know."""

    @pytest.mark.parametrize(
        "wanted",
        [
            row(0, [1, 3], name="none"),
            row(2, [1, 3]),
            row(0, [1, 7]),
            row(0, [1]),
            row(0, [1, 2]),
        ],
    )
    def test_another_broker_may_know_more(self, wanted: PartitionReassignment) -> None:
        assert validate([wanted], known()).may_be_stale

    @pytest.mark.parametrize(
        "wanted",
        [
            row(0, [1, 3], name="a b"),
            row(-1, [1, 3]),
            row(0, []),
            row(0, [3, 3]),
            row(0, [1, 3], ["any"]),
            row(0, [1, 3], ["any", "c"]),
        ],
    )
    def test_it_is_wrong_anyway(self, wanted: PartitionReassignment) -> None:
        assert not validate([wanted], known()).may_be_stale
        assert not validate([wanted, row(1, [1])], known()).may_be_stale

    def test_what_is_right(self) -> None:
        assert not validate([row(0, [1, 3])], known()).may_be_stale

    def test_what_has_to_wait(self) -> None:
        ongoing = {("other", 0): Reassignment((1,), (1,), ())}
        assert not validate([row(0, [1, 3])], known(ongoing=ongoing)).may_be_stale
