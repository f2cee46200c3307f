"""Single rules of the reassignment machine; the property tests have it as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spark_ordered_kafka.controller.reassign.machine import machine
from spark_ordered_kafka.controller.reassign.machine.cluster_state import (
    ClusterState,
    Directories,
    Partition,
)
from spark_ordered_kafka.controller.reassign.machine.instructions import (
    Ask,
    CancelLogDirMove,
    Instruction,
    MoveToLogDir,
    Restore,
    Start,
    Withdraw,
)
from spark_ordered_kafka.controller.reassign.machine.tasks import Failure, Memory, Task
from spark_ordered_kafka.controller.reassign.machine.tracking import Limits
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.values import LocalReplica, PartitionId, Reassignment
from tests.machine_checks import validate_advance, validate_tasks

LIMITS = Limits(per_broker=2, total=10, broker_timeout=30.0, patience=5.0, retry=1.0)
P0 = ("t", 0)


def a_move(before: tuple[int, ...], after: tuple[int, ...], partition: int = 0, **fields: Any) -> Move:
    return Move(topic="t", partition=partition, topic_id="id", before=before, after=after, **fields)


class Story:
    """A controller that carries one request out; the test plays Kafka."""

    def __init__(self, *moves: Move, limits: Limits = LIMITS) -> None:
        self.tasks: tuple[Task, ...] = (Task.of(1, moves, cancelling=False),)
        self.memory = Memory()
        self.limits = limits
        self.now = 100.0
        self.alive = {1, 2, 3, 4}
        self.ongoing: dict[PartitionId, tuple[int, ...]] = {}
        self.partitions: dict[PartitionId, Partition | None] = {}
        self.fresh: set[PartitionId] = set()
        self.directories = Directories()
        self.intents: Mapping[int, frozenset[PartitionId]] = {}
        self.failures: list[Failure] = []
        for move in moves:
            self.shows(move.before, place=move.place)

    def shows(
        self,
        replicas: tuple[int, ...],
        isr: tuple[int, ...] | None = None,
        *,
        place: PartitionId = P0,
        leader: int | None = None,
        at: float | None = None,
        topic_id: str = "id",
    ) -> None:
        """What the next look shows of a partition, as of then unless ``at`` says else."""
        first = replicas[0] if leader is None else leader
        isr = replicas if isr is None else isr
        self.partitions[place] = Partition(at or 0.0, topic_id, first, replicas, isr)
        if at is None:
            self.fresh.add(place)

    def tick(
        self, answers: Mapping[type, OrderedKafkaError] | None = None, seconds: float = 1.0
    ) -> list[Instruction]:
        """Look, act, and be answered; the instructions."""
        self.now += seconds
        for place in self.fresh:
            shown = self.partitions[place]
            assert shown is not None
            self.partitions[place] = replace(shown, at=self.now + 0.1)
        self.fresh.clear()
        ongoing = {place: Reassignment(target, (), ()) for place, target in self.ongoing.items()}
        seen = ClusterState(self.now, self.alive, ongoing, dict(self.partitions), self.directories)
        advance = machine.advance(self.tasks, self.memory, seen, self.limits)
        validate_advance(self.tasks, advance)
        self.failures += advance.failures
        self.intents = advance.intents
        told: list[tuple[Ask, OrderedKafkaError | None]] = [
            (ask, (answers or {}).get(type(ask.instruction))) for ask in advance.instructions
        ]
        self.tasks, self.memory = machine.with_responses(
            advance.tasks, advance.memory, told, self.now, self.limits
        )
        validate_tasks(advance.tasks, self.tasks, self.memory)
        return [ask.instruction for ask in advance.instructions]

    def begin(self, seconds: float = 1.0) -> None:
        """Let Kafka be at all moves that there is room for."""
        for instruction in self.tick(seconds=seconds):
            if isinstance(instruction, Start):
                self.ongoing[instruction.place] = instruction.replicas

    def cancel(self) -> None:
        self.tasks = tuple(replace(task, cancelling=True) for task in self.tasks)

    def move(self, place: PartitionId = P0) -> Move:
        return self.tasks[0].moves[place]

    @property
    def states(self) -> list[str]:
        return [move.state for move in self.tasks[0].moves.values()]


# -- forward ------------------------------------------------------------------------------------------------------


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


def test_a_request_that_is_held_begins_nothing() -> None:
    story = Story(a_move((1,), (2,)))
    seen = ClusterState(1.0, {1, 2}, {}, story.partitions)
    advance = machine.advance(story.tasks, Memory(), seen, LIMITS, held=[1])
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


# -- taking over --------------------------------------------------------------------------------------------------


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


# -- log directories ----------------------------------------------------------------------------------------------


def dirs(at: float, offline: dict[int, frozenset[str]] | None = None, **held: LocalReplica) -> Directories:
    """``b2=LocalReplica(...)``: what broker 2 has of the partition."""
    found = {(*P0, int(name[1:])): one for name, one in held.items()}
    return Directories(at, frozenset({1, 2, 3, 4}), found, offline or {})


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


# -- a later request for the same partition -----------------------------------------------------------------------


def placed(path: str, *, before: str = "/a", **fields: Any) -> Move:
    """A move of broker 1's replica to a log directory."""
    return a_move((1,), (1,), before_log_dirs=(before,), after_log_dirs=(path,), **fields)


def joined(story: Story, move: Move) -> None:
    """Another request, the second."""
    story.tasks = (*story.tasks, Task.of(2, (move,), cancelling=False))


def both(story: Story) -> list[str]:
    return [task.moves[P0].state for task in story.tasks]


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
    places = range(3_000)

    def moves(path: str) -> list[Move]:
        return [placed(path, partition=p) for p in places]

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


# -- back ---------------------------------------------------------------------------------------------------------


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
