"""The machine of reassignments, beside later requests, cancels, brokers that are away and other tools."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_ordered_kafka.controller.reassign.machine.instructions import (
    CancelLogDirMove,
    MoveToLogDir,
    Restore,
    Start,
    Withdraw,
)
from spark_ordered_kafka.controller.reassign.machine.tasks import Task
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.values import LocalReplica
from tests.controller.reassign.story import LIMITS, P0, Story, a_move, both, dirs, joined, placed


@pytest.mark.parametrize("path", ["/a", "/c"])
def test_a_later_request_gets_the_slot_of_the_one_that_it_replaces(path: str) -> None:
    story = Story(placed("/b"), limits=replace(LIMITS, per_broker=1, total=1))
    assert story.tick() == [MoveToLogDir(P0, 1, "/b")]
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10, "/b", 5))
    story.tick()
    joined(story, placed(path))
    assert story.tick() == [MoveToLogDir(P0, 1, path)]
    assert both(story) == ["cancelled", "starting"]
    assert story.intents == {2: frozenset({P0})}
    assert (story.move().error_code, story.move().error_message) == (
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        "request 2 has replaced it",
    )
    story.directories = dirs(story.now + 0.9, b1=LocalReplica(path, 10))
    story.shows((1,))
    assert [*story.tick(), *story.tick()] == []
    assert both(story) == ["cancelled", "done"]


def test_a_later_request_waits_for_the_rollback_of_an_earlier_one() -> None:
    story = Story(placed("/b"))
    story.tick()
    story.cancel()
    joined(story, placed("/c"))
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10, "/b", 5))
    assert story.tick(seconds=2.0) == []
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10, "/b", 5))
    assert story.tick() == [CancelLogDirMove(P0, 1, "/a")]
    assert both(story) == ["starting", "waiting"]
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10))
    story.shows((1,))
    assert story.tick(seconds=2.0) == [MoveToLogDir(P0, 1, "/c")]
    assert both(story) == ["cancelled", "starting"]


def test_of_two_requests_that_wait_the_later_one_begins() -> None:
    story = Story(placed("/b"), limits=replace(LIMITS, per_broker=0))
    joined(story, placed("/c"))
    assert story.tick() == []
    assert both(story) == ["cancelled", "waiting"]


def test_all_moves_of_a_large_request_are_replaced_at_once() -> None:
    """A list that is searched for each move would take minutes for 10,000."""
    numbers = range(3_000)

    def moves(path: str) -> list[Move]:
        return [placed(path, partition=p) for p in numbers]

    story = Story(*moves("/b"))
    story.tick()
    story.tasks = (*story.tasks, Task.of(2, moves("/c"), cancelling=False))
    asked = story.tick()
    first, second = story.tasks
    assert (first.ended, len(second.active), len(second.waiting)) == (True, LIMITS.per_broker, 2_998)
    assert asked == [MoveToLogDir(("t", p), 1, "/c") for p in range(LIMITS.per_broker)]


def test_a_request_that_is_cancelled_before_it_begins_replaces_nothing() -> None:
    story = Story(placed("/b"))
    story.tick()
    joined(story, placed("/c"))
    first, second = story.tasks
    story.tasks = (first, replace(second, cancelling=True))
    assert story.tick() == []
    assert both(story) == ["placing", "cancelled"]


def test_a_request_whose_directory_is_offline_replaces_nothing() -> None:
    story = Story(placed("/b"))
    story.tick()
    joined(story, placed("/c"))
    story.directories = dirs(story.now, {1: frozenset({"/c"})}, b1=LocalReplica("/a", 10, "/b", 5))
    assert story.tick() == []
    assert both(story) == ["placing", "failed"]


def test_a_controller_that_takes_over_completes_the_replacement() -> None:
    story = Story(placed("/b", state="placing"))
    joined(story, placed("/c", state="starting"))
    # The controller before it died when it had stored the second one, and asked for nothing.
    story.directories = dirs(story.now + 0.9, b1=LocalReplica("/a", 10, "/b", 5))
    assert story.tick() == [MoveToLogDir(P0, 1, "/c")]
    assert both(story) == ["cancelled", "starting"]


def test_a_cancel_is_over_when_kafka_has_put_all_back_in_order() -> None:
    story = Story(a_move((1, 2), (3, 2, 1)), a_move((1,), (2,), 1), limits=replace(LIMITS, per_broker=1))
    story.begin()
    story.cancel()
    assert story.tick() == [Withdraw(P0)]
    assert story.states == ["moving", "cancelled"]
    story.ongoing.clear()
    story.shows((2, 1))
    assert story.tick() == [Restore(P0, (1, 2))]
    story.shows((1, 2))
    story.tick()
    assert story.states == ["cancelled", "cancelled"]
    assert story.move().error_code == ErrorCode.OPERATION_NOT_ATTEMPTED


def test_a_start_without_an_answer_is_waited_for_before_a_cancel_is_over() -> None:
    story = Story(a_move((1,), (2,)))
    story.tick({Start: UnavailableError("no answer")}, seconds=0.1)
    story.cancel()
    story.shows((1,))
    story.tick()
    assert story.states == ["starting"]
    story.ongoing[P0] = (2,)  # it came late
    assert story.tick() == [Withdraw(P0)]


def test_what_was_done_before_the_cancel_came_through_is_done() -> None:
    story = Story(a_move((1,), (2,)))
    story.begin()
    story.cancel()
    story.tick({Withdraw: RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing goes on")})
    story.ongoing.clear()
    story.shows((2,))
    story.tick()
    assert story.states == ["done"]


def test_a_cancel_that_kafka_refuses_is_told() -> None:
    story = Story(a_move((1,), (2,)))
    story.begin()
    story.cancel()
    refused = RequestError(ErrorCode.POLICY_VIOLATION, "unclean")
    for _ in range(40):
        story.tick({Withdraw: refused})
    assert story.states == ["cancelled"]
    assert "which continues: POLICY_VIOLATION: unclean" in (story.move().error_message or "")


@pytest.mark.parametrize("begun", [True, False])
def test_a_broker_that_is_away_for_too_long_fails_what_goes_to_it(begun: bool) -> None:
    story = Story(a_move((1,), (2,)), a_move((1,), (3,), 1))
    if begun:
        story.begin()
    story.alive.discard(2)
    asked = [*story.tick(), *story.tick(seconds=20.0)]
    assert Withdraw(P0) not in asked
    assert story.move(P0).error_code == 0
    asked = story.tick(seconds=15.0)
    assert story.move(P0).error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert (Withdraw(P0) in asked) == begun
    assert story.move(("t", 1)).state == "moving"


def test_a_broker_that_comes_back_in_time_fails_nothing() -> None:
    story = Story(a_move((1,), (2,)))
    story.begin()
    story.alive.discard(2)
    story.tick(seconds=20.0)
    story.alive.add(2)
    story.tick(seconds=1.0)
    story.alive.discard(2)
    assert story.tick(seconds=20.0) == []
    assert story.move().error_code == 0


def test_a_partition_without_a_leader_to_copy_from_fails() -> None:
    story = Story(a_move((1,), (2,)))
    story.begin()
    for _ in range(4):
        story.shows((2, 1), isr=(1,), leader=-1)
        story.tick(seconds=12.0)
    assert story.move().error_code == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize("begun", [True, False])
def test_somebody_elses_reassignment_is_left_alone(begun: bool) -> None:
    story = Story(a_move((1,), (2,)))
    if begun:
        story.begin()
    story.ongoing[P0] = (3,)
    asked = [*story.tick(), *story.tick()]
    assert asked == []
    assert story.states == ["failed"]
    assert story.move().error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("begun", [True, False])
def test_another_topic_of_the_same_name_is_not_moved(begun: bool) -> None:
    story = Story(a_move((1,), (2,)))
    if begun:
        story.begin()
    story.ongoing.clear()
    story.shows((1,), topic_id="another")
    assert story.tick() == []
    story.tick()
    assert story.states == ["failed"]
    assert story.move().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
