"""Which moves of which requests begin, continue and end: from the state of the cluster to instructions for Kafka. PURE.

Moves begin in the order of requests and of their partitions, as soon as all brokers involved have room. One whose
partition an earlier request moves replaces that request's move, and gets its slots. The caller stores moves as
``starting`` before it carries out their instructions, so the next controller knows what Kafka may have been asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.machine.contention import Contention
from spark_ordered_kafka.controller.reassign.machine.failures import away_error, foreign, offline_error
from spark_ordered_kafka.controller.reassign.machine.instructions import (
    Ask,
    CancelLogDirMove,
    Instruction,
    MoveToLogDir,
    Start,
    Withdraw,
)
from spark_ordered_kafka.controller.reassign.machine.steps import forbids_directory, starting, step
from spark_ordered_kafka.controller.reassign.machine.tasks import BEGUN, Advance, Failure, Memory, Task
from spark_ordered_kafka.controller.reassign.machine.tracking import (
    NEVER,
    Limits,
    Tracker,
    View,
    is_in_progress,
)
from spark_ordered_kafka.controller.reassign.machine.transitions import (
    Event,
    Tracked,
    ended,
    failing,
    story,
    transition,
    with_line,
)
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
from spark_ordered_kafka.kafka.values import PartitionId


@dataclass
class _Headroom:
    """Free slots; a partition takes one of each broker that receives, and of the leader that sends."""

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

    def give_back(self, brokers: Collection[int]) -> None:
        if brokers:
            self.total -= 1
            self.brokers.subtract(brokers)

    def has(self, brokers: Collection[int]) -> bool:
        return not brokers or (
            self.total < self.limits.total
            and all(self.brokers[broker] < self.limits.per_broker for broker in brokers)
            and all(self.beginning[broker] < self.limits.burst for broker in brokers)
        )


def advance(
    tasks: Sequence[Task],
    memory: Memory,
    cluster: ClusterState,
    limits: Limits,
    *,
    held: Collection[int] = (),
) -> Advance:
    """The next step of all requests.

    Args:
        held: requests whose moves may not begin yet.
    """
    away = {
        broker: memory.away.get(broker, cluster.at)
        for broker in set(chain.from_iterable(_brokers(tasks, memory)))
        if broker not in cluster.alive
    }
    turn = _Turn(View(cluster, limits, away), memory)
    continued = [turn.proceed(task) for task in tasks]
    headroom = _occupied(continued, turn.trackers, cluster, limits)
    contention = Contention.of(continued)
    for task in continued:
        if task.request_id not in held or task.cancelling:
            contention.tasks[task.request_id] = turn.begin(task, headroom, contention)
    for request_id, tps in contention.replaced(held).items():
        contention.tasks[request_id] = turn.replace(contention.tasks[request_id], tps)
    return Advance(
        tuple(contention.tasks.values()),
        Memory(away, turn.trackers, turn.differing),
        tuple(turn.asks),
        {request: frozenset(tps) for request, tps in turn.intents.items()},
        frozenset(turn.look),
        tuple(turn.failures),
    )


@dataclass
class _Turn:
    """The results of one step of the machine, collected request by request: see :class:`Advance`."""

    view: View
    memory: Memory
    trackers: dict[tuple[int, PartitionId], Tracker] = field(default_factory=dict)
    differing: dict[tuple[int, PartitionId], float] = field(default_factory=dict)
    asks: list[Ask] = field(default_factory=list)
    intents: dict[int, set[PartitionId]] = field(default_factory=lambda: defaultdict(set))
    look: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)

    def proceed(self, task: Task) -> Task:
        """The next step of the moves that have begun."""
        changed: dict[PartitionId, Move] = {}
        for tp in task.active:
            move, key = task.moves[tp], (task.request_id, tp)
            tracker = self.memory.trackers.get(key, Tracker())
            taken = step(move, tracker, self.view, cancelling=task.cancelling)
            if taken.move is not move:
                changed[tp] = taken.move
                if taken.move.error_code != move.error_code and taken.move.state not in ENDED:
                    self.intents[task.request_id].add(tp)
            if taken.move.state in BEGUN:
                self.trackers[key] = taken.tracker
            elif taken.move.state == "failed":
                self.failures.append(Failure(task.request_id, taken.move, story(taken.tracker)))
            self.asks += [Ask(task.request_id, instruction) for instruction in taken.instructions]
            if taken.look:
                self.look.add(tp[0])
        return task.with_moves(changed)

    def begin(self, task: Task, headroom: _Headroom, contention: Contention) -> Task:
        """Begin waiting moves as far as there is room; end those that cannot begin."""
        changed = _beginning(task, self, headroom, contention)
        for tp, (move, tracker) in changed.items():
            if move.state not in BEGUN:
                continue
            self.intents[task.request_id].add(tp)
            self.trackers[task.request_id, tp] = tracker
            if move.state == "starting":
                self.asks += [Ask(task.request_id, instruction) for instruction in starting(move)]
        return task.with_moves({tp: move for tp, (move, _) in changed.items()})

    def is_as_planned(self, request_id: int, move: Move) -> bool | None:
        """Whether a waiting move's partition is what the move was made for; None: not known yet, it is described again.

        The move may have waited for hours since its topic was described: another topic may have its name now (D-370).
        """
        view, key = self.view, (request_id, move.tp)
        partition = view.cluster.partitions.get(move.tp)
        if partition is None:
            return True  # Kafka refuses what does not exist
        recent = view.waited(partition.at) <= view.limits.patience
        if recent and set(partition.replicas) in (set(move.before), set(move.after)):
            return True
        self.look.add(move.topic)
        if not recent:
            return None
        since = self.differing[key] = self.memory.differing.get(key, view.cluster.at)
        return False if view.waited(since) >= view.limits.patience else None

    def replace(self, task: Task, tps: Mapping[PartitionId, int]) -> Task:
        """End moves without a rollback: other requests, ``tps`` has their ids, move these partitions now, or will."""
        active = frozenset(task.active)
        changed = {}
        for tp, by in tps.items():
            tracker = self.trackers.pop((task.request_id, tp), Tracker())
            message = f"request {by} has replaced it"
            changed[tp], tracker = ended(task.moves[tp], tracker, self.view.cluster.at, message)
            if tp in active and changed[tp].state == "failed":
                self.failures.append(Failure(task.request_id, changed[tp], story(tracker)))
        self.asks = [
            ask for ask in self.asks if ask.request_id != task.request_id or ask.instruction.tp not in changed
        ]
        return task.with_moves(changed)


def with_responses(
    tasks: Sequence[Task],
    memory: Memory,
    answers: Iterable[tuple[Ask, OrderedKafkaError | None]],
    now: float,
    limits: Limits,
) -> tuple[tuple[Task, ...], Memory]:
    """The tasks after Kafka's answers to their instructions. An answer is an error, or None for success."""
    by_id = {task.request_id: task for task in tasks}
    changed: dict[int, dict[PartitionId, Move]] = {task.request_id: {} for task in tasks}
    trackers = dict(memory.trackers)
    for ask, error in answers:
        tp = ask.instruction.tp
        key = (ask.request_id, tp)
        if key not in trackers:
            continue
        moves = changed[ask.request_id]
        move = moves.get(tp, by_id[ask.request_id].moves[tp])
        after, trackers[key] = _answered(move, trackers[key], ask.instruction, error, now, limits)
        if after is not move:
            moves[tp] = after
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
) -> Tracked:
    if error is not None:
        tracker = with_line(tracker, now, f"{type(asked).__name__}: {error}")
    if isinstance(asked, Start):
        if error is None:
            tracker = replace(tracker, asked_at=now, gone_since=None)
            accepted = move.state == "starting"
            return transition(move, tracker, Event.ACCEPTED, now) if accepted else (move, tracker)
        if error.retriable:
            return move, replace(tracker, asked_at=now, unsure_until=now + limits.patience)
        # Kafka did not start it; an earlier attempt without an answer may still start it.
        sure = tracker.unsure_until == NEVER
        return _refused(move, replace(tracker, asked_at=None) if sure else tracker, error, now)
    if isinstance(asked, MoveToLogDir):
        tracker = replace(tracker, dir_asked_at={**tracker.dir_asked_at, asked.broker: now})
        if error is not None and forbids_directory(error):
            return _refused(move, tracker, error, now)
        if error is None and asked.broker in move.receiving:
            # Another tool may end the copy before the next look at the directories.
            tracker = replace(tracker, copying=tracker.copying | {asked.broker})
        return move, tracker
    if isinstance(asked, CancelLogDirMove):
        return move, replace(tracker, dir_asked_at={**tracker.dir_asked_at, asked.broker: now})
    if isinstance(asked, Withdraw):
        over = error is None or error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return move, replace(tracker, withdrawn_at=now, refusal="" if over else str(error))
    return move, tracker


def _refused(move: Move, tracker: Tracker, error: OrderedKafkaError, now: float) -> Tracked:
    if move.error_code != 0:
        return move, tracker
    return failing(move, tracker, error.code, getattr(error, "message", str(error)), now)


def _brokers(tasks: Sequence[Task], memory: Memory) -> Iterable[Collection[int]]:
    yield memory.away
    for task in tasks:
        for tp in task.active:
            yield task.moves[tp].after
        for tp in task.waiting:
            yield task.receiving[tp]


def _occupied(
    tasks: Sequence[Task],
    trackers: Mapping[tuple[int, PartitionId], Tracker],
    cluster: ClusterState,
    limits: Limits,
) -> _Headroom:
    headroom = _Headroom(limits)
    for task in tasks:
        for tp in task.active:
            move = task.moves[tp]
            tracker = trackers.get((task.request_id, tp))
            through = tracker is not None and tracker.gone_since is not None and move.state != "starting"
            # A reassignment that Kafka has ended frees its slot at once; its result is checked later.
            begins = (
                tracker is not None
                and tracker.asked_at is not None
                and cluster.at - tracker.asked_at < limits.ramp
            )
            headroom.take(_placing(task, move) if through else _copying(task, move, cluster), begins=begins)
    return headroom


def _copying(task: Task, move: Move, cluster: ClusterState) -> Collection[int]:
    """Brokers whose slots a move takes: those that receive, and the leader that sends."""
    receiving = task.receiving[move.tp]
    partition = cluster.partitions.get(move.tp)
    if partition is None or not move.adding or partition.leader < 0 or partition.leader in receiving:
        return receiving
    return (*receiving, partition.leader)


def _placing(task: Task, move: Move) -> Collection[int]:
    placements = move.placements
    return [broker for broker in task.receiving[move.tp] if broker in placements] if placements else ()


def _beginning(
    task: Task, turn: _Turn, headroom: _Headroom, contention: Contention
) -> dict[PartitionId, Tracked]:
    """Moves that begin now, and those that end without having begun."""
    view = turn.view
    changed: dict[PartitionId, Tracked] = {}
    for tp in task.waiting:
        before = contention.begun_before(task, tp) if tp in contention.tps else []
        full = headroom.total >= headroom.limits.total and task.receiving[tp] and not before
        if not task.cancelling and (full or contention.has_to_wait(task, tp)):
            continue
        move = task.moves[tp]
        if is_in_progress(move, view.cluster):
            # An earlier controller has asked Kafka for it.
            changed[tp] = transition(move, Tracker(), Event.IN_PROGRESS, view.cluster.at)
            headroom.take(_copying(task, move, view.cluster), begins=False)
            continue
        if task.cancelling:
            changed[tp] = ended(move, Tracker(), view.cluster.at)
            continue
        slots = [_copying(one, one.moves[tp], view.cluster) for one in before]
        for brokers in slots:
            headroom.give_back(brokers)
        after = _begun(task, move, turn, headroom)
        if after is not None:
            changed[tp] = after
        if after is None or after[0].state in ENDED:
            for brokers in slots:
                headroom.take(brokers, begins=False)
    return changed


def _begun(task: Task, move: Move, turn: _Turn, headroom: _Headroom) -> Tracked | None:
    view, receiving = turn.view, task.receiving[move.tp]
    trouble = foreign(move, view.cluster)
    for broker in receiving:
        path = move.placements.get(broker) if move.after_log_dirs is not None else None
        if trouble is None and view.cluster.directories.is_offline(broker, path):
            trouble = offline_error(broker, path)
        if trouble is None and view.is_gone(broker):
            trouble = away_error(broker, view)
    at = view.cluster.at
    if trouble is not None:
        return ended(*failing(move, Tracker(), *trouble, at), at)
    if any(broker not in view.cluster.alive for broker in receiving):
        return None
    brokers = _copying(task, move, view.cluster)
    if not headroom.has(brokers):
        return None
    # Also for one that is described first: no later one overtakes it, and no more are described than can begin.
    headroom.take(brokers, begins=True)
    planned = turn.is_as_planned(task.request_id, move)
    if planned is None:
        return None
    if not planned:
        changed = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "somebody else has changed its replicas meanwhile")
        return ended(*failing(move, Tracker(), *changed, at), at)
    if move.before == move.after and not move.placements:
        return transition(move, Tracker(), Event.TARGET_HOLDS, at)
    return transition(move, Tracker(asked_at=at), Event.BEGUN, at)
