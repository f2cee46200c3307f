"""Which moves of which requests begin, go on and end: from what was seen of Kafka to what Kafka is to be asked. PURE.

Moves begin in the order of requests and of their partitions, as soon as every broker that has to do with them has room. The
caller stores moves as ``starting`` before it carries out the instructions for them, so that a controller that takes over
knows what Kafka may have been asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.machine.failures import away_error, foreign, offline_error
from spark_ordered_kafka.controller.reassign.machine.instructions import (
    Ask,
    CancelLogDirMove,
    Instruction,
    MoveToLogDir,
    Start,
    Withdraw,
)
from spark_ordered_kafka.controller.reassign.machine.progress import completed
from spark_ordered_kafka.controller.reassign.machine.steps import (
    ended,
    failed,
    forbids_directory,
    starting,
    step,
)
from spark_ordered_kafka.controller.reassign.machine.tracking import (
    NEVER,
    Limits,
    Tracker,
    View,
    is_in_progress,
)
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from spark_ordered_kafka.kafka.values import PartitionId

_BEGUN = frozenset({"starting", "moving", "placing"})


@dataclass(frozen=True)
class Task:
    """A request. ``active`` moves have begun, ``waiting`` ones have not; ``receiving`` are the brokers that get bytes."""

    request_id: int
    cancelling: bool
    moves: Mapping[PartitionId, Move]
    receiving: Mapping[PartitionId, tuple[int, ...]]
    active: tuple[PartitionId, ...]
    waiting: tuple[PartitionId, ...]

    @classmethod
    def of(cls, request_id: int, moves: Sequence[Move], *, cancelling: bool) -> Task:
        """The task of a request as it was stored."""
        return cls(
            request_id=request_id,
            cancelling=cancelling,
            moves={move.place: move for move in moves},
            receiving={move.place: move.receiving for move in moves if move.state not in ENDED},
            active=tuple(move.place for move in moves if move.state in _BEGUN),
            waiting=tuple(move.place for move in moves if move.state == "waiting"),
        )

    @property
    def ended(self) -> bool:
        """Whether all of its moves have."""
        return not self.active and not self.waiting

    def with_moves(self, changed: Mapping[PartitionId, Move]) -> Task:
        """The task with other moves in the places of its own."""
        if not changed:
            return self
        begun = {place for place in self.active if place not in changed}
        begun.update(place for place, move in changed.items() if move.state in _BEGUN)
        waits = {place for place, move in changed.items() if move.state == "waiting"}
        order = {**dict.fromkeys(self.active), **changed}
        return replace(
            self,
            moves={**self.moves, **changed},
            active=tuple(place for place in order if place in begun),
            waiting=(
                *(place for place in self.waiting if place not in changed or place in waits),
                *(place for place in self.active if place in waits),
            ),
        )


@dataclass(frozen=True)
class Memory:
    """What is remembered from look to look: since when brokers are away, and notes by request and place."""

    away: Mapping[int, float] = field(default_factory=dict)
    trackers: Mapping[tuple[int, PartitionId], Tracker] = field(default_factory=dict)


@dataclass(frozen=True)
class Advance:
    """What follows from a look at Kafka.

    Attributes:
        instructions: to be carried out in this order.
        intents: request -> places whose moves must be stored first: by them another controller knows what Kafka was asked
            for, and why what it sees is taken back.
        look: topics to be described for the next step.
    """

    tasks: tuple[Task, ...]
    memory: Memory
    instructions: tuple[Ask, ...]
    intents: Mapping[int, frozenset[PartitionId]]
    look: frozenset[str]


@dataclass
class _Headroom:
    """Free places; a partition takes one of each broker that receives, and of the leader that sends."""

    limits: Limits
    total: int = 0
    brokers: Counter[int] = field(default_factory=Counter)
    beginning: Counter[int] = field(default_factory=Counter)

    def take(self, brokers: Collection[int], *, begins: bool) -> None:
        if brokers:
            self.total += 1
            self.brokers.update(brokers)
        if begins:
            self.beginning.update(brokers)

    def has(self, brokers: Collection[int]) -> bool:
        return not brokers or (
            self.total < self.limits.total
            and all(self.brokers[broker] < self.limits.per_broker for broker in brokers)
            and all(self.beginning[broker] < self.limits.burst for broker in brokers)
        )


def advance(
    tasks: Sequence[Task], memory: Memory, seen: ClusterState, limits: Limits, *, held: Collection[int] = ()
) -> Advance:
    """The next step of all requests.

    Args:
        held: requests of which nothing may begin yet.
    """
    away = {
        broker: memory.away.get(broker, seen.at)
        for broker in set(chain.from_iterable(_brokers(tasks, memory)))
        if broker not in seen.alive
    }
    view = View(seen, limits, away)
    trackers: dict[tuple[int, PartitionId], Tracker] = {}
    asks: list[Ask] = []
    intents: dict[int, set[PartitionId]] = defaultdict(set)
    look: set[str] = set()
    stepped = []
    for task in tasks:
        changed: dict[PartitionId, Move] = {}
        for place in task.active:
            move, key = task.moves[place], (task.request_id, place)
            taken = step(move, memory.trackers.get(key, Tracker()), view, cancelling=task.cancelling)
            if taken.move is not move:
                changed[place] = taken.move
                if taken.move.error_code != move.error_code and taken.move.state not in ENDED:
                    intents[task.request_id].add(place)
            if taken.move.state in _BEGUN:
                trackers[key] = taken.tracker
            asks += [Ask(task.request_id, instruction) for instruction in taken.instructions]
            if taken.look:
                look.add(place[0])
        stepped.append(task.with_moves(changed))
    headroom = _occupied(stepped, trackers, seen, limits)
    begun = []
    for task in stepped:
        changed = {} if task.request_id in held and not task.cancelling else _beginning(task, view, headroom)
        for place, move in changed.items():
            if move.state not in _BEGUN:
                continue
            intents[task.request_id].add(place)
            if move.state == "starting":
                trackers[task.request_id, place] = Tracker(asked_at=seen.at)
                asks += [Ask(task.request_id, instruction) for instruction in starting(move)]
        begun.append(task.with_moves(changed))
    stored = {request: frozenset(places) for request, places in intents.items()}
    return Advance(tuple(begun), Memory(away, trackers), tuple(asks), stored, frozenset(look))


def with_responses(
    tasks: Sequence[Task],
    memory: Memory,
    answers: Iterable[tuple[Ask, OrderedKafkaError | None]],
    now: float,
    limits: Limits,
) -> tuple[tuple[Task, ...], Memory]:
    """The tasks after Kafka's answers to their instructions; None: it was done."""
    by_id = {task.request_id: task for task in tasks}
    changed: dict[int, dict[PartitionId, Move]] = {task.request_id: {} for task in tasks}
    trackers = dict(memory.trackers)
    for ask, error in answers:
        place = ask.instruction.place
        key = (ask.request_id, place)
        if key not in trackers:
            continue
        moves = changed[ask.request_id]
        move = moves.get(place, by_id[ask.request_id].moves[place])
        after, trackers[key] = _answered(move, trackers[key], ask.instruction, error, now, limits)
        if after is not move:
            moves[place] = after
    return tuple(task.with_moves(changed[task.request_id]) for task in tasks), replace(
        memory, trackers=trackers
    )


def _answered(
    move: Move,
    tracker: Tracker,
    asked: Instruction,
    error: OrderedKafkaError | None,
    now: float,
    limits: Limits,
) -> tuple[Move, Tracker]:
    if isinstance(asked, Start):
        if error is None:
            begun = move.model_copy(update={"state": "moving"}) if move.state == "starting" else move
            return begun, replace(tracker, asked_at=now, gone_since=None)
        if error.retriable:
            return move, replace(tracker, asked_at=now, unsure_until=now + limits.patience)
        # Nothing has come of it, unless something comes of an earlier one.
        sure = tracker.unsure_until == NEVER
        return _refused(move, error), replace(tracker, asked_at=None) if sure else tracker
    if isinstance(asked, MoveToLogDir):
        tracker = replace(tracker, placed_at={**tracker.placed_at, asked.broker: now})
        refused = error if forbids_directory(error) else None
        return (move if refused is None else _refused(move, refused)), tracker
    if isinstance(asked, CancelLogDirMove):
        return move, replace(tracker, placed_at={**tracker.placed_at, asked.broker: now})
    if isinstance(asked, Withdraw):
        over = error is None or error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return move, replace(tracker, withdrawn_at=now, refusal="" if over else str(error))
    return move, tracker


def _refused(move: Move, error: OrderedKafkaError) -> Move:
    if move.error_code != 0:
        return move
    return failed(move, error.code, getattr(error, "message", str(error)))


def _brokers(tasks: Sequence[Task], memory: Memory) -> Iterable[Collection[int]]:
    yield memory.away
    for task in tasks:
        for place in task.active:
            yield task.moves[place].after
        for place in task.waiting:
            yield task.receiving[place]


def _occupied(
    tasks: Sequence[Task],
    trackers: Mapping[tuple[int, PartitionId], Tracker],
    seen: ClusterState,
    limits: Limits,
) -> _Headroom:
    headroom = _Headroom(limits)
    for task in tasks:
        for place in task.active:
            move = task.moves[place]
            tracker = trackers.get((task.request_id, place))
            through = tracker is not None and tracker.gone_since is not None and move.state != "starting"
            # What Kafka is through with leaves its place at once; its result is looked at later.
            begins = (
                tracker is not None
                and tracker.asked_at is not None
                and seen.at - tracker.asked_at < limits.ramp
            )
            headroom.take(_placing(task, move) if through else _copying(task, move, seen), begins=begins)
    return headroom


def _copying(task: Task, move: Move, seen: ClusterState) -> Collection[int]:
    """Brokers that a move keeps busy: those that receive, and the leader that sends."""
    receiving = task.receiving[move.place]
    partition = seen.partitions.get(move.place)
    if partition is None or not move.adding or partition.leader < 0 or partition.leader in receiving:
        return receiving
    return (*receiving, partition.leader)


def _placing(task: Task, move: Move) -> Collection[int]:
    placements = move.placements
    return [broker for broker in task.receiving[move.place] if broker in placements] if placements else ()


def _beginning(task: Task, view: View, headroom: _Headroom) -> dict[PartitionId, Move]:
    """Moves that begin now, or that end without having begun."""
    changed: dict[PartitionId, Move] = {}
    for place in task.waiting:
        if not task.cancelling and headroom.total >= headroom.limits.total and task.receiving[place]:
            continue
        move = task.moves[place]
        if is_in_progress(move, view.seen):
            # What another controller had asked for before it ended has come true.
            changed[place] = move.model_copy(update={"state": "moving"})
            headroom.take(_copying(task, move, view.seen), begins=False)
            continue
        if task.cancelling:
            changed[place] = ended(move)
            continue
        after = _begun(task, move, view, headroom)
        if after is not None:
            changed[place] = after
    return changed


def _begun(task: Task, move: Move, view: View, headroom: _Headroom) -> Move | None:
    receiving = task.receiving[move.place]
    trouble = foreign(move, view.seen)
    for broker in receiving:
        path = move.placements.get(broker) if move.after_log_dirs is not None else None
        if trouble is None and view.seen.directories.is_offline(broker, path):
            trouble = offline_error(broker, path)
        if trouble is None and view.is_gone(broker):
            trouble = away_error(broker, view)
    if trouble is not None:
        return ended(failed(move, *trouble))
    if any(broker not in view.seen.alive for broker in receiving):
        return None
    brokers = _copying(task, move, view.seen)
    if not headroom.has(brokers):
        return None
    headroom.take(brokers, begins=True)
    if move.before == move.after and not move.placements:
        return completed(move).model_copy(update={"state": "done"})
    return move.model_copy(update={"state": "starting"})
