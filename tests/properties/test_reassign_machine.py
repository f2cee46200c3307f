"""The reassignment machine against a model of Kafka whose brokers die, while controllers do, too, and others interfere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.reassign.machine import instructions as i
from spark_ordered_kafka.controller.reassign.machine import machine
from spark_ordered_kafka.controller.reassign.machine.cluster_state import Directories, Partition
from spark_ordered_kafka.controller.reassign.machine.tasks import Memory, Task
from spark_ordered_kafka.controller.reassign.machine.tracking import Limits
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.values import PartitionId
from tests.machine_checks import validate_advance, validate_tasks
from tests.properties.reassign_model import PATHS, ModelKafka
from tests.seeds import examples

BROKERS = 5
TICK = 0.5
LIMITS = Limits(per_broker=1, total=2, broker_timeout=8.0, patience=2.0, retry=1.0)
# Two requests, one after the other, each with everything that can go wrong at its worst.
LONGEST = 200.0

brokers = st.integers(1, BROKERS)
replica_sets = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
tps = st.integers(0, 5).map(lambda partition: ("t", partition))
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["kill", "revive", "break dir"]), brokers),
    st.tuples(st.sampled_from(["foreign cancel", "foreign back"]), tps),
    st.tuples(st.just("foreign reassign"), tps, replica_sets),
    st.tuples(st.just("lag"), st.sampled_from([0.0, 0.5, 1.0, 1.5])),
    st.tuples(st.sampled_from(["cancel", "crash before", "crash between", "crash after", "store"])),
    st.tuples(st.sampled_from(["lost", "late", "refused", "old", "calm", "cancel last"])),
    st.tuples(st.just("replace"), tps, st.lists(st.sampled_from([None, *PATHS]), min_size=3, max_size=3)),
)


@st.composite
def moves(draw: st.DrawFn) -> tuple[Move, ...]:
    found = []
    for partition in range(draw(st.integers(1, 6))):
        before = draw(replica_sets)
        after = draw(st.one_of(replica_sets, st.just(before), st.permutations(before).map(tuple)))
        dirs = draw(
            st.one_of(
                st.none(),
                st.lists(st.sampled_from([None, *PATHS]), min_size=len(after), max_size=len(after)).map(
                    tuple
                ),
            )
        )
        found.append(
            Move(
                topic="t",
                partition=partition,
                topic_id="id",
                before=before,
                after=after,
                before_log_dirs=None if dirs is None else (PATHS[0],) * len(before),
                after_log_dirs=dirs,
            )
        )
    return tuple(found)


@dataclass
class World:
    """Kafka, what is stored, and the controller that leads."""

    kafka: ModelKafka
    stored: dict[int, tuple[Move, ...]]
    cancelled: set[int] = field(default_factory=set)
    mishaps: set[str] = field(default_factory=set)
    foreign: set[PartitionId] = field(default_factory=set)
    # Whose broker goes on copying by itself when it is back: a controller that came meanwhile cannot know.
    interrupted: set[PartitionId] = field(default_factory=set)
    # Whose copy goes on for a moment, until the broker is asked for that of a later request.
    replaced: set[PartitionId] = field(default_factory=set)
    ended: dict[tuple[int, PartitionId], Move] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    memory: Memory = field(default_factory=Memory)
    partitions: dict[PartitionId, Partition | None] = field(default_factory=dict)
    directories: Directories = field(default_factory=Directories)
    lag: float = 0.0
    lagged: bool = False

    def take_over(self) -> None:
        """A controller begins with what is stored."""
        self.memory, self.partitions, self.directories = Memory(), {}, Directories()
        # What it has sent does not outlive its connections, and what was not stored has not happened.
        self.kafka.late.clear()
        kept = {(r, move.tp) for r, rows in self.stored.items() for move in rows if move.state in ENDED}
        self.ended = {key: move for key, move in self.ended.items() if key in kept}
        self.tasks = tuple(
            Task.of(r, rows, cancelling=r in self.cancelled) for r, rows in self.stored.items()
        )

    def store(self) -> None:
        for task in self.tasks:
            self.stored[task.request_id] = tuple(task.moves.values())

    def happens(self, event: tuple[Any, ...]) -> None:
        kafka = self.kafka
        match event:
            case ("kill", broker):
                self.interrupted |= {tp for tp, copier in kafka.futures if copier == broker}
                kafka.kill(broker)
            case ("revive", broker):
                kafka.revive(broker)
            case ("break dir", broker):
                kafka.offline[broker].add(PATHS[1])
            case ("foreign cancel", tp) if tp in kafka.logs and kafka.logs[tp].target is not None:
                kafka.cancel(tp)
                self.foreign.add(tp)
            case ("foreign back", tp):
                for key in [key for key in kafka.futures if key[0] == tp]:
                    del kafka.futures[key]
                self.foreign.add(tp)
            case ("foreign reassign", tp, replicas) if tp in kafka.logs and replicas != self.move(tp).after:
                kafka.reassign(tp, replicas)
                self.foreign.add(tp)
            case ("cancel",):
                self.cancelled.update(self.stored)
                self.tasks = tuple(replace(task, cancelling=True) for task in self.tasks)
            case ("cancel last",):
                self.cancelled.add(max(self.stored))
                self.tasks = (*self.tasks[:-1], replace(self.tasks[-1], cancelling=True))
            case ("replace", tp, paths) if tp in kafka.logs:
                self.replace(tp, paths)
            case ("store",):
                self.store()
            case ("lag", seconds):
                self.lag = seconds
                self.lagged |= seconds > 0
            case (name, *_):
                self.mishaps.add(name)

    def replace(self, tp: PartitionId, paths: list[str | None]) -> None:
        """Another request moves the partition between log directories, as an earlier one does."""
        move = self.move(tp)
        if move.state in ENDED or move.before != move.after:
            return
        self.replaced.add(tp)
        request_id = max(self.stored) + 1
        here = tuple(self.kafka.held.get((tp, broker), PATHS[0]) for broker in move.before)
        new = dir_move(tp[1], move.before, tuple(paths[: len(move.before)]), here)
        self.stored[request_id] = (new,)
        self.tasks = (*self.tasks, Task.of(request_id, (new,), cancelling=False))

    def move(self, tp: PartitionId) -> Move:
        return [task.moves[tp] for task in self.tasks if tp in task.moves][-1]

    def tick(self) -> None:
        """One round of the executor, cut off where a mishap says so."""
        mishaps, self.mishaps = self.mishaps, set()
        if "old" not in mishaps:
            self.partitions = self.kafka.partitions(self.lag)
        cluster = self.kafka.cluster(self.partitions, self.directories)
        self.directories = self.kafka.directories()
        advance = machine.advance(self.tasks, self.memory, cluster, LIMITS)
        validate_advance(self.tasks, advance)
        if "crash before" in mishaps:
            return self.take_over()
        for task in advance.tasks:
            if advance.intents.get(task.request_id):
                self.stored[task.request_id] = tuple(task.moves.values())
        self.tasks, self.memory = advance.tasks, advance.memory
        self.check_ends()
        answers: list[tuple[i.Ask, OrderedKafkaError | None]] = []
        for number, ask in enumerate(advance.instructions):
            if "crash between" in mishaps and number == len(advance.instructions) // 2:
                return self.take_over()
            answers.append((ask, self.asked(ask.instruction, mishaps)))
        self.check_limits()
        if "crash after" in mishaps:
            return self.take_over()
        self.tasks, self.memory = machine.with_responses(
            self.tasks, self.memory, answers, self.kafka.now, LIMITS
        )
        validate_tasks(advance.tasks, self.tasks, self.memory)
        self.check_ends()
        return None

    def asked(self, instruction: i.Instruction, mishaps: set[str]) -> OrderedKafkaError | None:
        if "refused" in mishaps:
            mishaps.discard("refused")
            if isinstance(instruction, i.Withdraw):
                return UnavailableError("later")
            return RequestError(ErrorCode.POLICY_VIOLATION, "not today")
        if "late" in mishaps and isinstance(instruction, i.Start):
            mishaps.discard("late")
            self.kafka.late.append((self.kafka.now + LIMITS.patience - TICK, instruction))
            return UnavailableError("no answer")
        answer = self.kafka.ask(instruction)
        if "lost" in mishaps:
            mishaps.discard("lost")
            return UnavailableError("no answer")
        return answer

    # -- what must always hold ----------------------------------------------------------------------------------

    def check_limits(self) -> None:
        busy: Counter[int] = Counter()
        for tp, log in self.kafka.logs.items():
            if tp in self.foreign | self.interrupted | self.replaced:
                continue
            copying = {b for b in log.adding if b not in log.isr}
            copying |= {b for (p, b) in self.kafka.futures if p == tp}
            busy.update(copying)
            busy[0] += bool(copying)
        assert busy.pop(0, 0) <= LIMITS.total
        assert all(count <= LIMITS.per_broker for count in busy.values()), busy

    def check_ends(self) -> None:
        for task in self.tasks:
            assert len(task.moves) == len(self.stored[task.request_id])
            for tp, move in task.moves.items():
                if move.state not in ENDED:
                    assert tp not in task.active or move.state != "waiting"
                    continue
                key = (task.request_id, tp)
                if key not in self.ended:
                    self.ended[key] = move
                    self.check_end(tp, move)
                assert self.ended[key].state == move.state

    def check_end(self, tp: PartitionId, move: Move) -> None:
        log = self.kafka.logs[tp]
        if move.state == "done":
            assert move.error_code == 0
            assert move.after in log.settled
            if tp in self.foreign:
                return
            assert (log.target, log.replicas) == (None, move.after)
            for broker, path in move.placements.items():
                assert broker not in self.kafka.alive or self.kafka.held[tp, broker] == path
            return
        assert move.error_code != 0
        assert move.error_message
        if move.state == "cancelled" and move.before != move.after and not move.placements:
            assert log.replicas != move.after or self.lagged or tp in self.foreign, f"{move} is done"
        if log.target == move.after and tp not in self.foreign:
            raise AssertionError(f"{move} is left behind")
        if "has replaced it" in move.error_message:
            return
        for broker, path in move.placements.items():
            future = self.kafka.futures.get((tp, broker))
            if future is not None and future[0] == path and broker in self.kafka.alive:
                # The copy may be that of an earlier request, which is still being taken back.
                others = any(tp in task.active for task in self.tasks)
                assert self.kafka.offline[broker] or tp in self.foreign or others, (
                    f"{move} is still copied on {broker}"
                )


def dir_move(
    partition: int,
    replicas: tuple[int, ...],
    dirs: tuple[str | None, ...],
    here: tuple[str, ...] | None = None,
) -> Move:
    return Move(
        topic="t",
        partition=partition,
        topic_id="id",
        before=replicas,
        after=replicas,
        before_log_dirs=(PATHS[0],) * len(replicas) if here is None else here,
        after_log_dirs=dirs,
    )


REPLICA_MOVE = Move(topic="t", partition=2, topic_id="id", before=(2,), after=(3,))
# A controller dies when it has asked for a move within broker 2, and the broker before the next one can see that.
INTERRUPTED: list[tuple[tuple[Any, ...], int]] = [(("crash between",), 0), (("kill", 2), 0)]


@settings(max_examples=examples(600))
@example((dir_move(0, (2, 1), ("/b", None)), dir_move(1, (1,), ("/b",)), REPLICA_MOVE), INTERRUPTED, 0)
@example((dir_move(0, (2, 1), ("/b", "/b")),), [(("replace", ("t", 0), ["/a", None, None]), 9)], 0)
@given(moves(), st.lists(st.tuples(EVENTS, st.integers(0, 3)), max_size=25), st.integers(0, 1))
def test_every_move_ends_once_and_as_it_says(
    rows: tuple[Move, ...], events: list[tuple[tuple[Any, ...], int]], two_requests: int
) -> None:
    half = len(rows) // 2 if two_requests else 0
    stored = {1: rows[:half], 2: rows[half:]} if half else {1: rows}
    world = World(ModelKafka(BROKERS, {move.tp: move.before for move in rows}), stored)
    world.take_over()
    for event, ticks in events:
        world.happens(event)
        world.tick()
        world.kafka.run(TICK)
        for _ in range(ticks):
            world.tick()
            world.kafka.run(TICK)
    world.lag = 0.0
    deadline = world.kafka.now + LONGEST
    while not all(task.ended for task in world.tasks):
        world.tick()
        world.kafka.run(TICK)
        assert world.kafka.now < deadline, [
            m for t in world.tasks for m in t.moves.values() if m.state not in ENDED
        ]
    assert world.ended.keys() == {(r, move.tp) for r, moves in world.stored.items() for move in moves}
    assert all(
        log.target != move.after
        for move in rows
        for log in [world.kafka.logs[move.tp]]
        if move.tp not in world.foreign
    )
