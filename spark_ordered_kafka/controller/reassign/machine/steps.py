"""The next step of one move that has begun. PURE.

A move goes forward (``starting``, ``moving``, ``placing``, ``done``) or, after a cancel or an error, is rolled back: its
reassignment in Kafka is cancelled before it ends. It is done only when Kafka shows the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_ordered_kafka.controller.reassign.machine.cluster_state import Partition
from spark_ordered_kafka.controller.reassign.machine.failures import foreign, trouble
from spark_ordered_kafka.controller.reassign.machine.instructions import (
    CancelLogDirMove,
    Instruction,
    MoveToLogDir,
    Restore,
    Start,
    Withdraw,
)
from spark_ordered_kafka.controller.reassign.machine.tracking import (
    NEVER,
    Tracker,
    View,
    is_in_progress,
    is_settled,
    observe,
    since,
)
from spark_ordered_kafka.controller.reassign.machine.transitions import Event, ended, failing, transition
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError

_MAX_RESTORES = 3


@dataclass(frozen=True)
class Step:
    """A move and its tracker after a step; ``look``: its topic must be described before the next step."""

    move: Move
    tracker: Tracker
    instructions: tuple[Instruction, ...] = ()
    look: bool = False


def step(move: Move, tracker: Tracker, view: View, *, cancelling: bool) -> Step:
    """The next step of a move that is ``starting``, ``moving`` or ``placing``."""
    tracker = observe(move, tracker, view)
    if move.error_code == 0 and not cancelling:
        found = trouble(move, tracker, view)
        if found is not None:
            move, tracker = failing(move, tracker, *found, view.cluster.at)
    if move.error_code != 0 or cancelling:
        return _roll_back(move, replace(tracker, back_since=since(tracker.back_since, view)), view)
    match move.state:
        case "starting":
            return _starting(move, tracker, view)
        case "moving":
            return _moving(move, tracker, view)
        case _:
            return _placing(move, tracker, view)


def starting(move: Move) -> tuple[Instruction, ...]:
    """The first instructions of a move. Log directories come first, so that brokers create replicas there."""
    placed = tuple(MoveToLogDir(move.tp, broker, path) for broker, path in move.placements.items())
    return placed if move.before == move.after else (*placed, Start(move.tp, move.after))


def forbids_directory(error: OrderedKafkaError | None) -> bool:
    """Whether a broker's answer means that the replica cannot be in the requested log directory.

    A broker that is down has until the broker timeout, and one without the replica remembers the directory.
    """
    passing = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE)
    return error is not None and not error.retriable and error.code not in passing


# -- forward ----------------------------------------------------------------------------------------------------------


def _starting(move: Move, tracker: Tracker, view: View) -> Step:
    if is_in_progress(move, view.cluster):
        return _after(Event.IN_PROGRESS, move, tracker, view)
    if tracker.asked_at is None:
        return _taken_over(move, tracker, view)
    if move.before == move.after:
        return _after(Event.ONLY_LOG_DIRS, move, tracker, view)
    if view.waited(tracker.asked_at) < view.limits.retry:
        return Step(move, tracker)
    return Step(move, replace(tracker, asked_at=view.cluster.at), starting(move))


def _taken_over(move: Move, tracker: Tracker, view: View) -> Step:
    """Start a move that an earlier controller has stored, and may have started: asking Kafka again does no harm."""
    directories = view.cluster.directories
    if move.placements:
        asked = [broker for broker in move.placements if broker in view.cluster.alive]
        if directories.at == NEVER or not directories.answered.issuperset(asked):
            # It may be copying already, so it keeps its slot until the directories are known.
            return Step(move, tracker)
        # Also a copy to another directory, which it replaces.
        if any(directories.of(move.tp, broker).future_path is not None for broker in move.placements):
            return Step(move, replace(tracker, asked_at=view.cluster.at), starting(move))
    if move.before != move.after:
        partition = view.cluster.partitions.get(move.tp)
        if partition is None or partition.at <= since(tracker.gone_since, view):
            return Step(move, tracker, look=True)
        if partition.replicas == move.after:
            # Kafka was through with it before this controller looked: a cancel must not find it waiting.
            return _after(Event.ACCEPTED, move, tracker, view)
    return _after(Event.NEVER_ASKED, move, tracker, view)


def _moving(move: Move, tracker: Tracker, view: View) -> Step:
    if tracker.gone_since is None:
        return Step(move, tracker)
    reached = _reached(move, tracker, view)
    if reached is None:
        return Step(move, tracker, look=True)
    if not reached:
        lost = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "somebody else cancelled or replaced its reassignment")
        return Step(*failing(move, tracker, *lost, view.cluster.at), look=True)
    if move.placements:
        return _placing(*transition(move, tracker, Event.REPLICAS_IN_PLACE, view.cluster.at), view)
    return _after(Event.TARGET_HOLDS, move, tracker, view)


def _placing(move: Move, tracker: Tracker, view: View) -> Step:
    directories = view.cluster.directories
    missing = [
        (broker, path) for broker, path in move.placements.items() if not _is_placed(move, broker, path, view)
    ]
    if not missing:
        partition = view.cluster.partitions.get(move.tp)
        if partition is None or partition.at <= directories.at:
            return Step(move, tracker, look=True)
        if partition.replicas == move.after:
            return _after(Event.TARGET_HOLDS, move, tracker, view)
        if not is_settled(partition, tracker, view):
            return Step(move, tracker, look=True)
        changed = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "somebody else has changed its replicas meanwhile")
        return Step(*failing(move, tracker, *changed, view.cluster.at))
    due = [
        MoveToLogDir(move.tp, broker, path)
        for broker, path in missing
        if broker in view.cluster.alive
        and directories.of(move.tp, broker).future_path != path
        # A copy that had begun and is missing was cancelled by another tool.
        and broker not in tracker.copying
        and _is_due(tracker, broker, view)
    ]
    asked = dict.fromkeys((instruction.broker for instruction in due), view.cluster.at)
    return Step(
        move, replace(tracker, dir_asked_at={**tracker.dir_asked_at, **asked}) if due else tracker, tuple(due)
    )


def _is_placed(move: Move, broker: int, path: str, view: View) -> bool:
    directories = view.cluster.directories
    held = directories.of(move.tp, broker)
    return broker in directories.answered and held.path == path and held.future_path is None


def _is_due(tracker: Tracker, broker: int, view: View) -> bool:
    """Whether the retry interval has passed since the broker was asked, and its directories were read since."""
    last = tracker.dir_asked_at.get(broker, NEVER)
    return view.cluster.directories.at > last and view.waited(last) >= view.limits.retry


def _reached(move: Move, tracker: Tracker, view: View) -> bool | None:
    """Whether the target holds, of a move that Kafka has ended; None: not known yet."""
    partition = view.cluster.partitions.get(move.tp)
    if partition is None or tracker.gone_since is None or partition.at <= tracker.gone_since:
        return None
    settled = is_settled(partition, tracker, view)
    if partition.replicas == move.after:
        # More replicas show so already while they are copied, in a copy of the metadata that is behind.
        return True if settled or set(move.adding) <= set(partition.isr) else None
    return False if settled else None


# -- back -------------------------------------------------------------------------------------------------------------


def _roll_back(move: Move, tracker: Tracker, view: View) -> Step:
    if is_in_progress(move, view.cluster):
        return _withdraw(move, tracker, view)
    if view.cluster.at < tracker.unsure_until:
        return Step(move, tracker, look=True)
    instructions, tracker, copying = _stop_copying(move, tracker, view)
    if copying:
        return Step(move, tracker, instructions, look=True)
    gone = move.tp in view.cluster.partitions and view.cluster.partitions[move.tp] is None
    if gone or foreign(move, view.cluster) is not None:
        return _ended(move, tracker, view)
    partition = view.cluster.partitions.get(move.tp)
    if partition is None or tracker.gone_since is None or partition.at <= tracker.gone_since:
        return Step(move, tracker, look=True)
    if partition.replicas == move.after and set(move.adding) <= set(partition.isr):
        placed = all(_is_placed(move, broker, path, view) for broker, path in move.placements.items())
        return _after(Event.TARGET_HOLDS, move, tracker, view) if placed else _ended(move, tracker, view)
    return _restore(move, tracker, partition, view)


def _withdraw(move: Move, tracker: Tracker, view: View) -> Step:
    if tracker.refusal and view.waited(since(tracker.back_since, view)) >= view.limits.broker_timeout:
        message = f"Kafka does not cancel its reassignment, which continues: {tracker.refusal}"
        if move.error_code != 0:
            message = f"{move.error_message}; {message}"
            move, tracker = failing(move, tracker, move.error_code, message, view.cluster.at)
        return Step(*ended(move, tracker, view.cluster.at, message))
    if view.waited(tracker.withdrawn_at) < view.limits.retry:
        return Step(move, tracker)
    return Step(move, replace(tracker, withdrawn_at=view.cluster.at), (Withdraw(move.tp),))


def _stop_copying(move: Move, tracker: Tracker, view: View) -> tuple[tuple[Instruction, ...], Tracker, bool]:
    """Cancel copies between log directories: the instructions, and whether a copy may still be in progress."""
    directories, began = view.cluster.directories, since(tracker.back_since, view)
    if not move.placements or view.waited(began) >= view.limits.broker_timeout:
        return (), tracker, False
    instructions, copying = [], False
    for broker, path in move.placements.items():
        if view.is_gone(broker):
            continue
        held = directories.of(move.tp, broker)
        asked = max(began, since(tracker.gone_since, view), tracker.dir_asked_at.get(broker, NEVER))
        # A copy that completes just before its cancel is copied back: that copy is cancelled, too, and one that the
        # move was to replace, unless that copy has replaced the move's own.
        replaced = move.before == move.after and broker not in tracker.copying
        ours = held.future_path == path or (
            held.future_path is not None and (replaced or broker in tracker.dir_cancelled)
        )
        if directories.at <= asked or broker not in directories.answered:
            copying = True
        elif held.path is not None and ours:
            copying = True
            if _is_due(tracker, broker, view):
                instructions.append(CancelLogDirMove(move.tp, broker, held.path))
    brokers = [instruction.broker for instruction in instructions]
    if brokers:
        dir_asked_at = {**tracker.dir_asked_at, **dict.fromkeys(brokers, view.cluster.at)}
        tracker = replace(
            tracker, dir_asked_at=dir_asked_at, dir_cancelled=tracker.dir_cancelled.union(brokers)
        )
    return tuple(instructions), tracker, copying


def _restore(move: Move, tracker: Tracker, partition: Partition, view: View) -> Step:
    """Restore the order of the replicas: a cancel in Kafka removes new ones, and leaves the others in the target's order."""
    settled = is_settled(partition, tracker, view)
    if partition.replicas == move.before:
        # Kafka may have completed it at once, and the broker does not show it yet.
        surely = settled or tracker.withdrawn_at > NEVER or tracker.asked_at is None
        return _ended(move, tracker, view) if surely else Step(move, tracker, look=True)
    if set(partition.replicas) == set(move.before) and tracker.restored < _MAX_RESTORES:
        if view.waited(tracker.withdrawn_at) < view.limits.retry and tracker.restored > 0:
            return Step(move, tracker, look=True)
        tracker = replace(tracker, restored=tracker.restored + 1, withdrawn_at=view.cluster.at)
        return Step(move, tracker, (Restore(move.tp, move.before),), look=True)
    return _ended(move, tracker, view) if settled else Step(move, tracker, look=True)


def _after(event: Event, move: Move, tracker: Tracker, view: View) -> Step:
    return Step(*transition(move, tracker, event, view.cluster.at))


def _ended(move: Move, tracker: Tracker, view: View) -> Step:
    return Step(*ended(move, tracker, view.cluster.at))
