"""Single rules of the reassignment machine; the property tests have it as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_ordered_kafka.controller.reassign.machine import machine
from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.machine.instructions import (
    CancelLogDirMove,
    MoveToLogDir,
    Start,
    Withdraw,
)
from spark_ordered_kafka.controller.reassign.machine.tasks import Memory
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.values import LocalReplica
from tests.controller.reassign.story import LIMITS, P0, Story, a_move, dirs


def test_a_move_is_stored_before_kafka_is_asked_and_done_when_the_target_holds() -> None:
    story = Story(a_move((1, 2), (2, 3)))
    assert story.tick() == [Start(P0, (2, 3))]
    assert story.intents == {1: frozenset({P0})}
    story.ongoing[P0] = (2, 3)
    assert story.tick() == []
    assert story.states == ["moving"]
    story.ongoing.clear()
    story.shows((2, 3))
    story.tick()
    assert story.states == ["done"]
    assert story.tasks[0].ended


def test_what_was_described_before_kafka_was_through_proves_nothing() -> None:
    story = Story(a_move((1, 2), (2, 3)))
    story.begin()
    story.ongoing.clear()
    story.shows((2, 3), at=story.now)
    story.tick()
    assert story.states == ["moving"]
    story.shows((2, 3))
    story.tick()
    assert story.states == ["done"]


def test_more_replicas_that_show_while_they_are_copied_are_not_there_yet() -> None:
    story = Story(a_move((1,), (1, 2)))
    story.begin()
    story.ongoing.clear()  # somebody else has cancelled it, and the broker that describes it does not know
    story.shows((1, 2), isr=(1,))
    story.tick()
    assert story.states == ["moving"]
    story.shows((1,))
    story.tick(seconds=LIMITS.patience - 1)
    assert story.move().error_code == 0
    for _ in range(2):
        story.shows((1,))
        story.tick()
    assert story.states == ["failed"]
    assert story.move().error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_replica_that_fell_out_of_sync_after_the_end_does_not_hold_it_up() -> None:
    story = Story(a_move((1,), (1, 2)))
    story.begin()
    story.ongoing.clear()
    for _ in range(2):
        story.shows((1, 2), isr=(1,))
        story.tick(seconds=LIMITS.patience + 1)
    assert story.states == ["done"]


def test_as_many_move_at_once_as_brokers_have_room_and_the_next_begins_at_once() -> None:
    moves = [a_move((1,), (2 + p % 2,), p) for p in range(5)]
    story = Story(*moves)
    story.begin()
    assert story.states == ["moving", "moving", "waiting", "waiting", "waiting"], "broker 1 sends two"
    del story.ongoing["t", 0]
    # Its end is not certain yet, but its place is free.
    assert story.tick() == [Start(("t", 2), (2,))]
    assert story.states[:3] == ["moving", "moving", "moving"]


def test_partitions_that_are_alike_begin_in_two_waves_so_that_they_do_not_all_end_at_once() -> None:
    moves = [a_move((1,), (2,), p) for p in range(60)]
    story = Story(*moves, limits=replace(LIMITS, per_broker=50, total=500))
    counts = []
    for seconds in (0.1, 0.1, 0.5, 0.5):
        story.begin(seconds)
        counts.append(len(story.ongoing))
    assert counts == [25, 25, 50, 50]


def test_what_copies_nothing_takes_no_place() -> None:
    story = Story(*[a_move((1, 2), (2, 1), p) for p in range(9)])
    assert len(story.tick()) == 9


def test_the_cluster_has_a_limit_of_its_own() -> None:
    moves = [a_move((1,), (2,), 0), a_move((3,), (4,), 1)]
    story = Story(*moves, limits=replace(LIMITS, total=1))
    assert story.tick() == [Start(("t", 0), (2,))]


def waited_for_long() -> Story:
    """The turn of z-0, from the brokers 1 and 2 to 3 and 2, has come after an hour."""
    later = Move(topic="z", partition=0, topic_id="id", before=(1, 2), after=(3, 2))
    story = Story(a_move((1,), (2,)), later, limits=replace(LIMITS, total=1))
    story.begin()
    story.tick(seconds=3600.0)
    story.ongoing.clear()
    story.shows((2,))
    assert story.tick() == []
    assert story.states == ["done", "waiting"], "what it was an hour ago proves nothing"
    assert story.look == {"z"}
    return story


@pytest.mark.parametrize("shown", [(1, 2), (2, 1), (3, 2)])
def test_a_move_that_waited_for_long_begins_when_its_topic_is_described_again(shown: tuple[int, ...]) -> None:
    story = waited_for_long()
    story.shows(shown, tp=("z", 0))
    assert story.tick() == [Start(("z", 0), (3, 2))]


def test_a_move_that_waited_for_long_is_not_begun_on_another_topic_of_the_name() -> None:
    story = waited_for_long()
    story.shows((1, 2, 4), tp=("z", 0), topic_id="another")
    assert story.tick() == []
    assert story.move(("z", 0)).error_message == "topic 'z' was deleted and replaced"
    assert story.states[1] == "failed"


def test_a_move_that_waited_takes_back_no_replicas_that_somebody_else_has_added() -> None:
    story = waited_for_long()
    for _ in range(6):
        assert story.states[1] == "waiting", "the broker that describes it may be behind"
        story.shows((1, 2, 4), tp=("z", 0))
        assert story.tick() == []
    assert story.move(("z", 0)).error_message == "somebody else has changed its replicas meanwhile"
    assert story.states[1] == "failed"


def test_a_broker_whose_metadata_is_behind_does_not_end_a_move() -> None:
    story = waited_for_long()
    for shown in ((1, 4), (1, 2)):
        story.shows(shown, tp=("z", 0))
        asked = story.tick()
    assert asked == [Start(("z", 0), (3, 2))]


def test_no_later_move_overtakes_one_that_is_described_first() -> None:
    names = ("x", "y", "z")
    story = Story(*[Move(topic=t, partition=0, topic_id="id", before=(1,), after=(2,)) for t in names])
    for name in names:
        story.shows((1,), tp=(name, 0), at=story.now - 60)
    story.fresh.clear()
    assert story.tick() == []
    assert story.look == {"x", "y"}, "broker 1 sends two"


def test_a_request_that_is_held_begins_nothing() -> None:
    story = Story(a_move((1,), (2,)))
    cluster = ClusterState(1.0, {1, 2}, {}, story.partitions)
    advance = machine.advance(story.tasks, Memory(), cluster, LIMITS, held=[1])
    assert (advance.instructions, advance.tasks[0].waiting) == ((), (P0,))


def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    story = Story(a_move((1,), (2,)))
    story.tick({Start: UnavailableError("no answer")})
    assert story.states == ["starting"]
    assert story.tick() == [Start(P0, (2,))]


def test_what_kafka_refuses_fails_with_its_code() -> None:
    story = Story(a_move((1,), (2,)))
    story.tick({Start: RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker")})
    story.shows((1,))
    story.tick()
    assert (story.states, story.move().error_message) == (["failed"], "no such broker")
    (failure,) = story.failures
    assert (failure.request_id, failure.move) == (1, story.move())
    assert failure.story == (
        "101.000 waiting -> starting: its turn has come | 101.000 Start: INVALID_REPLICA_ASSIGNMENT: no such broker | "
        "101.000 starting, to be taken back: INVALID_REPLICA_ASSIGNMENT: no such broker | "
        "102.000 starting -> failed: failed"
    )


def test_a_controller_that_takes_over_goes_on_with_what_kafka_is_at() -> None:
    moves = [a_move((1,), (2,), p, state="starting") for p in range(3)]
    story = Story(*moves)
    story.ongoing = {("t", 1): (2,)}
    # Of the others only one has room beside it.
    assert story.tick() == [Start(("t", 0), (2,))]
    assert sorted(story.states) == ["moving", "moving", "waiting"]


def test_what_was_done_meanwhile_is_done() -> None:
    story = Story(a_move((1,), (2,), state="moving"))
    story.shows((2,))
    assert story.tick() == []
    assert story.states == ["done"]


def test_what_kafka_did_while_nobody_led_is_done_for_whoever_cancels_it() -> None:
    """The controller that had asked for it died before it stored Kafka's answer."""
    asked = [a_move((1,), (2,), p, state="starting") for p in range(3)]
    story = Story(*asked, a_move((1,), (2,), 3))
    # They take all places of broker 2.
    story.ongoing = {("t", 0): (2,), ("t", 1): (2,)}
    story.shows((2,), tp=("t", 2))
    assert story.tick() == []
    story.cancel()
    assert story.tick() == [Withdraw(("t", 0)), Withdraw(("t", 1))]
    assert story.states == ["moving", "moving", "done", "cancelled"]


def test_what_the_last_controller_had_stored_as_next_begins_next() -> None:
    story = Story(a_move((1,), (2,), 5), *(a_move((1,), (2,), p, state="starting") for p in range(2)))
    assert story.tick() == [Start(("t", 0), (2,)), Start(("t", 1), (2,))]
    assert story.states == ["waiting", "moving", "moving"]


def test_a_log_directory_is_told_first_and_again_once_the_replica_is_elsewhere() -> None:
    story = Story(a_move((1,), (2,), after_log_dirs=("/b",)))
    absent = RequestError(ErrorCode.REPLICA_NOT_AVAILABLE, "none")
    assert story.tick({MoveToLogDir: absent}) == [MoveToLogDir(P0, 2, "/b"), Start(P0, (2,))]
    story.shows((2,))
    story.directories = dirs(story.now + 0.9, b2=LocalReplica("/a", 10))
    assert story.tick() == [MoveToLogDir(P0, 2, "/b")]
    assert story.states == ["placing"]
    for _ in range(2):
        story.directories = dirs(story.now + 0.9, b2=LocalReplica("/a", 10, "/b", 5))
        story.shows((2,))
        assert story.tick(seconds=2.0) == []
        assert story.states == ["placing"], "the future replica is being copied"
    story.directories = dirs(story.now + 0.9, b2=LocalReplica("/b", 10))
    story.shows((2,))
    story.tick()
    assert story.states == ["done"]


def test_a_copy_that_another_tool_ends_before_it_was_seen_is_not_begun_again() -> None:
    story = Story(a_move((1,), (1,), before_log_dirs=("/a",), after_log_dirs=("/b",)))
    story.directories = dirs(story.now, b1=LocalReplica("/a", 10))
    assert story.tick() == [MoveToLogDir(P0, 1, "/b")]
    for _ in range(9):
        story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10))
        story.shows((1,))
        assert story.tick() == []
    assert story.states == ["failed"]
    assert story.move().error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_log_directory_that_does_not_exist_fails_its_move_and_nothing_starts() -> None:
    story = Story(a_move((1,), (2,), after_log_dirs=("/x",)))
    story.tick({MoveToLogDir: RequestError(ErrorCode.LOG_DIR_NOT_FOUND, "/x")})
    assert story.move().error_code == ErrorCode.LOG_DIR_NOT_FOUND


def test_a_cancelled_copy_goes_back_to_where_the_replica_is() -> None:
    story = Story(a_move((1,), (1,), before_log_dirs=("/a",), after_log_dirs=("/b",)))
    assert story.tick() == [MoveToLogDir(P0, 1, "/b")]
    story.cancel()
    story.directories = dirs(story.now + 0.5, b1=LocalReplica("/a", 10, "/b", 5))
    assert story.tick() == []
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10, "/b", 5))
    assert story.tick() == [CancelLogDirMove(P0, 1, "/a")]
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10))
    story.shows((1,))
    story.tick()
    assert story.states == ["cancelled"]


def test_a_log_directory_that_goes_offline_fails_the_move() -> None:
    story = Story(a_move((1,), (2,)))
    story.begin()
    story.directories = dirs(story.now, b2=LocalReplica("/a", 10))
    story.tick()
    story.directories = dirs(story.now, {2: frozenset({"/a"})})
    assert story.tick() == [Withdraw(P0)]
    assert story.move().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert story.intents == {1: frozenset({P0})}, "why it is taken back must outlive this controller"
