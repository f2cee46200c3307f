"""The next step of one move that has begun. PURE.

A move goes forward (``starting``, ``moving``, ``placing``, ``done``) or, after a cancel or an error, is taken back: what Kafka
does for it is cancelled first, and only then it has ended. It is done only when Kafka shows that the target holds.
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
from spark_ordered_kafka.controller.reassign.machine.progress import completed
from spark_ordered_kafka.controller.reassign.machine.tracking import (
    NEVER,
    Tracker,
    View,
    is_in_progress,
    is_settled,
    observe,
    since,
)
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError

_MAX_RESTORES = 3


@dataclass(frozen=True)
class Step:
    """A move, and what is remembered of it, after a step; ``look``: its topic has to be described to decide the next one."""

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
            move = failed(move, *found)
    if move.error_code != 0 or cancelling:
        return _take_back(move, replace(tracker, back_since=since(tracker.back_since, view)), view)
    match move.state:
        case "starting":
            return _starting(move, tracker, view)
        case "moving":
            return _moving(move, tracker, view)
        case _:
            return _placing(move, tracker, view)


def failed(move: Move, code: ErrorCode, message: str) -> Move:
    """The move is to be taken back and then fails."""
    return move.model_copy(update={"error_code": int(code), "error_message": message})


def ended(move: Move, message: str | None = None) -> Move:
    """The move without going on: failed if it has an error, else cancelled."""
    if move.error_code != 0:
        return move.model_copy(update={"state": "failed"})
    code = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
    return move.model_copy(
        update={
            "state": "cancelled",
            "error_code": code,
            "error_message": message or "the request was cancelled",
        }
    )


def starting(move: Move) -> tuple[Instruction, ...]:
    """What Kafka is to be asked for at the start. The log directories come first, so that replicas are made there."""
    placed = tuple(MoveToLogDir(move.place, broker, path) for broker, path in move.placements.items())
    return placed if move.before == move.after else (*placed, Start(move.place, move.after))


def forbids_directory(error: OrderedKafkaError | None) -> bool:
    """Whether a broker cannot have a replica in the log directory that was asked for, by its answer.

    One that is down is given the time that brokers have, and one without the replica remembers the directory.
    """
    passing = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE)
    return error is not None and not error.retriable and error.code not in passing


# -- forward ----------------------------------------------------------------------------------------------------------


def _starting(move: Move, tracker: Tracker, view: View) -> Step:
    if is_in_progress(move, view.seen):
        return Step(_in_state(move, "moving"), tracker)
    if tracker.asked_at is None:
        return _taken_over(move, tracker, view)
    if move.before == move.after:
        return Step(_in_state(move, "placing"), tracker)
    if view.waited(tracker.asked_at) < view.limits.retry:
        return Step(move, tracker)
    return Step(move, replace(tracker, asked_at=view.seen.at), starting(move))


def _taken_over(move: Move, tracker: Tracker, view: View) -> Step:
    """Another controller was about to ask, or did. Kafka does not mind being asked again."""
    directories = view.seen.directories
    if move.placements:
        asked = [broker for broker in move.placements if broker in view.seen.alive]
        if directories.at == NEVER or not directories.answered.issuperset(asked):
            # What may be copied already has its place until that is known.
            return Step(move, tracker)
        if any(directories.of(move.place, b).future_path == path for b, path in move.placements.items()):
            return Step(move, replace(tracker, asked_at=view.seen.at), starting(move))
    return Step(_in_state(move, "waiting"), tracker)


def _moving(move: Move, tracker: Tracker, view: View) -> Step:
    if tracker.gone_since is None:
        return Step(move, tracker)
    reached = _reached(move, tracker, view)
    if reached is None:
        return Step(move, tracker, look=True)
    if not reached:
        lost = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "somebody else cancelled or replaced its reassignment")
        return Step(failed(move, *lost), tracker, look=True)
    if move.placements:
        return _placing(_in_state(move, "placing"), tracker, view)
    return Step(_done(move), tracker)


def _placing(move: Move, tracker: Tracker, view: View) -> Step:
    directories = view.seen.directories
    missing = [
        (broker, path) for broker, path in move.placements.items() if not _is_placed(move, broker, path, view)
    ]
    if not missing:
        partition = view.seen.partitions.get(move.place)
        if partition is None or partition.at <= directories.at:
            return Step(move, tracker, look=True)
        if partition.replicas == move.after:
            return Step(_done(move), tracker)
        if not is_settled(partition, tracker, view):
            return Step(move, tracker, look=True)
        changed = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "somebody else has changed its replicas meanwhile")
        return Step(failed(move, *changed), tracker)
    due = [
        MoveToLogDir(move.place, broker, path)
        for broker, path in missing
        if broker in view.seen.alive
        and directories.of(move.place, broker).future_path != path
        # One that has begun and is not there any more was ended by somebody else.
        and broker not in tracker.copying
        and _is_due(tracker, broker, view)
    ]
    asked = dict.fromkeys((instruction.broker for instruction in due), view.seen.at)
    return Step(
        move, replace(tracker, placed_at={**tracker.placed_at, **asked}) if due else tracker, tuple(due)
    )


def _is_placed(move: Move, broker: int, path: str, view: View) -> bool:
    directories = view.seen.directories
    held = directories.of(move.place, broker)
    return broker in directories.answered and held.path == path and held.future_path is None


def _is_due(tracker: Tracker, broker: int, view: View) -> bool:
    """Whether a broker's directories were looked at since it was last asked, a while ago."""
    last = tracker.placed_at.get(broker, NEVER)
    return view.seen.directories.at > last and view.waited(last) >= view.limits.retry


def _reached(move: Move, tracker: Tracker, view: View) -> bool | None:
    """Whether the target holds, of a move that Kafka is not busy with; None: that cannot be told yet."""
    partition = view.seen.partitions.get(move.place)
    if partition is None or tracker.gone_since is None or partition.at <= tracker.gone_since:
        return None
    settled = is_settled(partition, tracker, view)
    if partition.replicas == move.after:
        # More replicas show so already while they are copied, in a copy of the metadata that is behind.
        return True if settled or set(move.adding) <= set(partition.isr) else None
    return False if settled else None


# -- back -------------------------------------------------------------------------------------------------------------


def _take_back(move: Move, tracker: Tracker, view: View) -> Step:
    if is_in_progress(move, view.seen):
        return _withdraw(move, tracker, view)
    if view.seen.at < tracker.unsure_until:
        return Step(move, tracker, look=True)
    instructions, tracker, copying = _stop_copying(move, tracker, view)
    if copying:
        return Step(move, tracker, instructions, look=True)
    gone = move.place in view.seen.partitions and view.seen.partitions[move.place] is None
    if gone or foreign(move, view.seen) is not None:
        return Step(ended(move), tracker)
    partition = view.seen.partitions.get(move.place)
    if partition is None or tracker.gone_since is None or partition.at <= tracker.gone_since:
        return Step(move, tracker, look=True)
    if partition.replicas == move.after and set(move.adding) <= set(partition.isr):
        placed = all(_is_placed(move, broker, path, view) for broker, path in move.placements.items())
        return Step(_done(move) if placed else ended(move), tracker)
    return _restore(move, tracker, partition, view)


def _withdraw(move: Move, tracker: Tracker, view: View) -> Step:
    if tracker.refusal and view.waited(since(tracker.back_since, view)) >= view.limits.broker_timeout:
        told = f"Kafka does not cancel its reassignment, which goes on: {tracker.refusal}"
        if move.error_code != 0:
            told = f"{move.error_message}; {told}"
            return Step(ended(move.model_copy(update={"error_message": told})), tracker)
        return Step(ended(move, told), tracker)
    if view.waited(tracker.withdrawn_at) < view.limits.retry:
        return Step(move, tracker)
    return Step(move, replace(tracker, withdrawn_at=view.seen.at), (Withdraw(move.place),))


def _stop_copying(move: Move, tracker: Tracker, view: View) -> tuple[tuple[Instruction, ...], Tracker, bool]:
    """Ends copying between log directories: what is to be done, and whether some may still go on."""
    directories, began = view.seen.directories, since(tracker.back_since, view)
    if not move.placements or view.waited(began) >= view.limits.broker_timeout:
        return (), tracker, False
    instructions, copying = [], False
    for broker, path in move.placements.items():
        if view.is_gone(broker):
            continue
        held = directories.of(move.place, broker)
        asked = max(began, since(tracker.gone_since, view), tracker.placed_at.get(broker, NEVER))
        # One that ends in the very moment in which it is taken back is copied back: that is ended likewise.
        ours = held.future_path == path or (held.future_path is not None and broker in tracker.backed)
        if directories.at <= asked or broker not in directories.answered:
            copying = True
        elif held.path is not None and ours:
            copying = True
            if _is_due(tracker, broker, view):
                instructions.append(CancelLogDirMove(move.place, broker, held.path))
    brokers = [instruction.broker for instruction in instructions]
    if brokers:
        placed_at = {**tracker.placed_at, **dict.fromkeys(brokers, view.seen.at)}
        tracker = replace(tracker, placed_at=placed_at, backed=tracker.backed.union(brokers))
    return tuple(instructions), tracker, copying


def _restore(move: Move, tracker: Tracker, partition: Partition, view: View) -> Step:
    """Kafka takes the new replicas out, but leaves the others in the order of the target."""
    settled = is_settled(partition, tracker, view)
    if partition.replicas == move.before:
        # What Kafka does at once may be done, and not show yet.
        surely = settled or tracker.withdrawn_at > NEVER or tracker.asked_at is None
        return Step(ended(move), tracker) if surely else Step(move, tracker, look=True)
    if set(partition.replicas) == set(move.before) and tracker.restored < _MAX_RESTORES:
        if view.waited(tracker.withdrawn_at) < view.limits.retry and tracker.restored > 0:
            return Step(move, tracker, look=True)
        tracker = replace(tracker, restored=tracker.restored + 1, withdrawn_at=view.seen.at)
        return Step(move, tracker, (Restore(move.place, move.before),), look=True)
    return Step(ended(move), tracker) if settled else Step(move, tracker, look=True)


def _in_state(move: Move, state: str) -> Move:
    return move.model_copy(update={"state": state})


def _done(move: Move) -> Move:
    return completed(move).model_copy(update={"state": "done", "error_code": 0, "error_message": None})
