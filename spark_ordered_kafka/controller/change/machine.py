"""The partition change as a transition table. PURE: events in, state and instructions out; no I/O, no clock.

A change takes the steps of :mod:`protocol` in order. :data:`TABLE` maps ``(step, event type)`` to the handler that answers
with the next state and the instructions to execute; the last instruction of an answer yields the next event. Times are
seconds of one clock, the caller's; they come with the events.

Crash safety: only :class:`Change` is persisted. Every instruction may be repeated, and :func:`resume` says where a new
controller continues. From ``closing`` on it starts with the listing again: repeating a fence is harmless, and boundaries
are exact only when the controller that commits them has read them after a complete fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from spark_ordered_kafka.controller.change.protocol import (
    CLOSED_STEPS,
    STEPS,
    AwaitLeaders,
    BoundariesRead,
    CancelRequested,
    Change,
    ChangeStep,
    CheckLogEnds,
    CommitLayout,
    Committed,
    CreatePartitions,
    DetectForeignProducers,
    Ending,
    Event,
    Failed,
    Fence,
    FenceIdle,
    Finish,
    ForeignProducersDetected,
    IdleFenced,
    Instruction,
    LeadersElected,
    ListTransactions,
    LogEndsChanged,
    LogEndsUnchanged,
    NoForeignProducers,
    PartitionsCreated,
    Pause,
    Persist,
    ReadBoundaries,
    RollBack,
    RolledBack,
    Running,
    Started,
    TransactionsListed,
    WritersFenced,
)
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.errors import ErrorCode, TransitionError
from spark_ordered_kafka.listed import listed

ONGOING = "Ongoing"  # the state of an open transaction, which its writer can still commit
_STORY_LENGTH = 40
_NAMED_PARTITIONS = 5
_STOP_IT = "stop that producer, or use force if its records need no order"

Answer: TypeAlias = tuple[Running, tuple[Instruction, ...]]


# -- entry points ---------------------------------------------------------------------------------------------------


def resume(change: Change, now: float, timing: Timing) -> Answer:
    """State and instructions for a persisted change, new or begun by another controller.

    A resumed ``closing`` gets ``timing.closing`` seconds again: the other controller may have used them up.
    """
    deadline = now + change.creation_limit(timing)
    running = Running(change, deadline, now, story=(f"{now:.3f} taken up at {change.step}",))
    if change.cancel_requested:
        return _roll_back(running, Ending("cancelled"))
    if change.step in CLOSED_STEPS:
        return _close(running, now, timing)
    return advance(running, Started(now), timing)


def advance(running: Running, event: Event, timing: Timing) -> Answer:
    """Next state and instructions after ``event``.

    Raises TransitionError, with the story so far, when the table has no row for it: a bug in the caller.
    """
    change = running.change
    handler = TABLE.get((change.step, type(event)))
    rolling_back = running.ending is not None
    expected = isinstance(event, (RolledBack, Failed)) if rolling_back else not isinstance(event, RolledBack)
    if handler is None or not expected:
        raise TransitionError(
            f"change {change.id} of topic {change.topic!r}: event {event!r} is not expected at step "
            f"{change.step}{' while it is rolled back' if rolling_back else ''}; "
            f"so far: {' | '.join(running.story)}"
        )
    line = f"{event.at:.3f} {type(event).__name__} at {change.step}"
    return handler(replace(running, story=(*running.story, line)[-_STORY_LENGTH:]), event, timing)


def cancellable(running: Running) -> bool:
    """Whether a cancel still has an effect: until the boundaries have been read."""
    return running.boundaries is None and running.ending is None


def finished(change: Change, ending: Ending, at: float) -> FinishedChange:
    """The record of a change that ends at ``at``."""
    held = change.ordered and change.closing_at is not None
    return FinishedChange(
        id=change.id,
        kind=change.kind,
        source=change.source,
        target=change.target,
        outcome=ending.outcome,
        started_at=change.started_at,
        finished_at=at,
        writer_pause_seconds=at - (change.closing_at or at) if held else 0.0,
        fenced=change.fenced,
        error_code=None if ending.code is None else int(ending.code),
        error_message=ending.message,
    )


def foreign_refusal(topic: str, what: str) -> str:
    """Why a change is refused when ``what`` was seen, and what to do about it."""
    return f"something that is not an ordered writer writes to topic {topic!r}: {what}; {_STOP_IT}"


def left_in_kafka(change: Change, existing: int | None) -> str:
    """What a rolled-back expansion leaves; ``existing``: Kafka partitions now, None if not known."""
    if change.step == "planned":
        return "nothing was changed in Kafka"
    if existing is None:
        return "whether partitions were created in Kafka by then is not known"
    if existing <= change.existing:
        return "no partitions were created in Kafka"
    return (
        f"Kafka has {existing} partitions by now, {existing - change.existing} more than before: they stay, and a layout "
        "that covers them lets readers deliver what is written there"
    )


# -- handlers -------------------------------------------------------------------------------------------------------


def _started(running: Running, event: Started, timing: Timing) -> Answer:
    change = running.change
    running = replace(running, deadline=event.at + change.creation_limit(timing))
    # First, since Kafka cannot remove partitions, and foreign producers would write to the new ones by Kafka's count.
    if change.refuses_foreign:
        return running, (DetectForeignProducers(running.deadline),)
    return _prepare(running)


def _no_foreign(running: Running, event: NoForeignProducers, timing: Timing) -> Answer:
    return _close(running, event.at, timing) if running.prepared else _prepare(running)


def _foreign_detected(running: Running, event: ForeignProducersDetected, timing: Timing) -> Answer:
    message = foreign_refusal(running.change.topic, event.what)
    return _roll_back(running, Ending("failed", ErrorCode.ACTIVE_FOREIGN_PRODUCERS, message))


def _prepare(running: Running) -> Answer:
    change = running.change
    if change.target <= change.source:
        return running, (AwaitLeaders(change.existing, running.deadline),)
    # Also when Kafka has the partitions: removed ones may have fewer replicas.
    change = replace(change, step="creating")
    return replace(running, change=change), (
        Persist(change),
        CreatePartitions(_total(change), running.deadline),
    )


def _partitions_created(running: Running, event: PartitionsCreated, timing: Timing) -> Answer:
    return running, (AwaitLeaders(_total(running.change), running.deadline),)


def _leaders_elected(running: Running, event: LeadersElected, timing: Timing) -> Answer:
    if not running.change.ordered:
        return _close(running, event.at, timing)
    return running, (FenceIdle(timing.closing),)


def _idle_fenced(running: Running, event: IdleFenced, timing: Timing) -> Answer:
    # A foreign producer may have started while partitions were created; once writers are held, there is no time to check.
    if running.change.refuses_foreign and running.change.step == "creating":
        # Fencing idle writers has no deadline and may have used up that of the creation.
        running = replace(running, prepared=True, deadline=event.at + timing.creating)
        return running, (DetectForeignProducers(running.deadline),)
    return _close(running, event.at, timing)


def _close(running: Running, now: float, timing: Timing) -> Answer:
    closing_at = running.change.closing_at
    change = replace(
        running.change,
        step="closing" if running.change.ordered else "boundaries",
        closing_at=now if closing_at is None and running.change.ordered else closing_at,
        fenced=0,
    )
    running = replace(
        running,
        change=change,
        deadline=now + timing.closing,
        drain_until=now + timing.drain,
        draining=None,
        boundaries=None,
    )
    if not change.ordered:
        return running, (Persist(change), ReadBoundaries(_total(change), running.deadline))
    return running, (Persist(change), ListTransactions(running.deadline))


def _transactions_listed(running: Running, event: TransactionsListed, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the transactions were listed too late to fence their writers")
    change = replace(running.change, total_fences=len(event.states))
    # Waits only for transactions that every listing has shown open: busy writers would use up the whole drain time with
    # one new transaction after another.
    still_open = frozenset(name for name, state in event.states.items() if state == ONGOING)
    if running.draining is not None:
        still_open &= running.draining
    if still_open and event.at < running.drain_until:
        pause = min(timing.backoff, running.drain_until - event.at)
        return replace(running, change=change, draining=still_open), (
            Pause(pause),
            ListTransactions(running.deadline),
        )
    change = replace(change, step="fencing")
    return replace(running, change=change), (
        Persist(change),
        Fence(tuple(sorted(event.states)), running.deadline),
    )


def _writers_fenced(running: Running, event: WritersFenced, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the writers were fenced too late")
    change = replace(running.change, step="boundaries", fenced=event.count)
    return replace(running, change=change), (
        Persist(change),
        ReadBoundaries(_total(change), running.deadline),
    )


def _boundaries_read(running: Running, event: BoundariesRead, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the log ends were read too late")
    change = replace(running.change, step="committing")
    running = replace(running, change=change, boundaries=event.boundaries)
    if not change.ordered:
        return running, (Persist(change), CommitLayout(change, event.boundaries))
    return running, (Persist(change), CheckLogEnds(event.boundaries, running.deadline))


def _ends_unchanged(running: Running, event: LogEndsUnchanged, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the log ends were confirmed too late")
    return _commit(running)


def _ends_changed(running: Running, event: LogEndsChanged, timing: Timing) -> Answer:
    # A layout without ordered delivery admits foreign producers, so their records may lie behind its start.
    if running.change.force or not running.change.ordered_delivery:
        return _commit(running)
    boundaries = running.boundaries or ()
    shown = listed(
        sorted(event.ends),
        _NAMED_PARTITIONS,
        lambda partition: f"{partition} ({boundaries[partition].offset} -> {event.ends[partition]})",
    )
    message = (
        f"something that is not an ordered writer still writes to topic {running.change.topic!r}: after the fence "
        f"the log ends changed of partition {shown}; {_STOP_IT}"
    )
    return _roll_back(running, Ending("failed", ErrorCode.ACTIVE_FOREIGN_PRODUCERS, message))


def _committed(running: Running, event: Committed, timing: Timing) -> Answer:
    return running, (Finish("done"),)


def _rolled_back(running: Running, event: RolledBack, timing: Timing) -> Answer:
    return running, () if running.ending is None else (Finish(running.ending.outcome),)


def _cancel(running: Running, event: CancelRequested, timing: Timing) -> Answer:
    change = replace(running.change, cancel_requested=True)
    return _roll_back(replace(running, change=change), Ending("cancelled"))


def _failed(running: Running, event: Failed, timing: Timing) -> Answer:
    change = running.change
    if running.ending is not None:
        return running, (Pause(timing.retry), RollBack(change, running.ending))
    if not event.retriable:
        return _roll_back(running, Ending("failed", event.code, event.message))
    if event.at >= running.deadline:
        return _too_late(running, timing, event.message)
    if change.step not in CLOSED_STEPS:
        # No writer waits. Kafka may refuse at once for a minute, as while a quota is used up.
        if running.prepared:
            return running, (Pause(timing.retry), DetectForeignProducers(running.deadline))
        deadline = running.deadline
        running, instructions = _started(running, Started(event.at), timing)
        instructions = tuple(_until(deadline, instruction) for instruction in instructions)
        return replace(running, deadline=deadline), (Pause(timing.retry), *instructions)
    # Nothing read before the failure may be used: listing, fence and boundaries are exact only together.
    step: ChangeStep = "closing" if change.ordered else "boundaries"
    change = replace(change, step=step, fenced=0)
    running = replace(running, change=change, boundaries=None)
    if not change.ordered:
        return running, (Pause(timing.backoff), ReadBoundaries(_total(change), running.deadline))
    return running, (Pause(timing.backoff), Persist(change), ListTransactions(running.deadline))


def _until(deadline: float, instruction: Instruction) -> Instruction:
    if isinstance(instruction, (DetectForeignProducers, CreatePartitions, AwaitLeaders)):
        return replace(instruction, deadline=deadline)
    return instruction


def _commit(running: Running) -> Answer:
    return running, (CommitLayout(running.change, running.boundaries or ()),)


def _too_late(running: Running, timing: Timing, what: str) -> Answer:
    closed = running.change.step in CLOSED_STEPS
    limit = timing.closing if closed else running.change.creation_limit(timing)
    message = (
        f"the change of topic {running.change.topic!r} was taken back at step {running.change.step}, since it did "
        f"not end within {limit:g} s: {what}"
    )
    return _roll_back(running, Ending("failed", ErrorCode.REQUEST_TIMED_OUT, message))


def _roll_back(running: Running, ending: Ending) -> Answer:
    return replace(running, ending=ending), (RollBack(running.change, ending),)


def _total(change: Change) -> int:
    return max(change.existing, change.target)


Handler: TypeAlias = Callable[..., Answer]

TABLE: dict[tuple[ChangeStep, type], Handler] = {
    ("planned", Started): _started,
    ("planned", NoForeignProducers): _no_foreign,
    ("planned", ForeignProducersDetected): _foreign_detected,
    ("planned", LeadersElected): _leaders_elected,
    ("creating", Started): _started,
    ("creating", NoForeignProducers): _no_foreign,
    ("creating", ForeignProducersDetected): _foreign_detected,
    ("creating", PartitionsCreated): _partitions_created,
    ("creating", LeadersElected): _leaders_elected,
    ("planned", IdleFenced): _idle_fenced,
    ("creating", IdleFenced): _idle_fenced,
    ("closing", TransactionsListed): _transactions_listed,
    ("fencing", WritersFenced): _writers_fenced,
    ("boundaries", BoundariesRead): _boundaries_read,
    ("committing", LogEndsUnchanged): _ends_unchanged,
    ("committing", LogEndsChanged): _ends_changed,
    ("committing", Committed): _committed,
    ("planned", CancelRequested): _cancel,
    ("creating", CancelRequested): _cancel,
    ("closing", CancelRequested): _cancel,
    ("fencing", CancelRequested): _cancel,
    ("boundaries", CancelRequested): _cancel,
    **{(step, Failed): _failed for step in STEPS},
    **{(step, RolledBack): _rolled_back for step in STEPS},
}
