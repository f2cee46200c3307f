"""What is on its way to a volume is taken off its space."""

from __future__ import annotations

from spark_ordered_kafka.controller.reassign.requests.arriving import arriving, less
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.kafka.values import LocalReplica, LogDir, Reassignment

HELD = {
    ("t", 0, 1): LocalReplica("/a", 100),
    ("t", 1, 1): LocalReplica("/a", 200),
    ("t", 1, 3): LocalReplica("/b", 60),
    ("t", 2, 1): LocalReplica("/a", 400, "/b", 150),
    ("t", 3, 2): LocalReplica("/a", 800),
}


def test_what_is_not_copied_yet_is_counted_once() -> None:
    moves = [
        Move(topic="t", partition=0, before=(1,), after=(3,)),
        Move(topic="t", partition=1, before=(1,), after=(1, 3), state="moving"),
        Move(topic="t", partition=3, before=(2,), after=(2, 3), after_log_dirs=(None, "/b")),
        Move(
            topic="t", partition=2, before=(1,), after=(1,), before_log_dirs=("/a",), after_log_dirs=("/b",)
        ),
    ]
    ongoing = {("t", 1): Reassignment((1, 3), (3,), ()), ("u", 0): Reassignment((1, 2), (2,), (1,))}
    assert arriving(moves, ongoing, HELD) == {
        (3, None): 100 + 140,
        (3, "/b"): 800,
        (1, "/b"): 250,
        (2, None): 0,
    }
    # Another tool's are seen at Kafka and at the brokers.
    assert arriving([], ongoing, HELD) == {(3, None): 140, (1, "/b"): 250, (2, None): 0}


def test_a_move_that_waits_for_another_directory_needs_all_of_its_bytes() -> None:
    there = {"before_log_dirs": ("/a",), "after_log_dirs": ("/b",)}
    move = Move.model_validate({"topic": "t", "partition": 3, "before": (2,), "after": (2,), **there})
    assert arriving([move], {}, HELD) == {(2, "/b"): 800, (1, "/b"): 250}


def test_space_is_left_after_what_arrives() -> None:
    dirs = [LogDir("/a", usable_bytes=500), LogDir("/b", usable_bytes=300), LogDir("/c", 56)]
    due = {(1, "/b"): 100, (1, None): 61, (2, "/a"): 9, (1, "/c"): 1}
    assert [one.usable_bytes for one in less(dirs, 1, due)] == [469, 169, None]
    assert [one.usable_bytes for one in less(dirs, 1, {(1, None): 5000})] == [0, 0, None]
    assert less(dirs, 3, due) == tuple(dirs)
