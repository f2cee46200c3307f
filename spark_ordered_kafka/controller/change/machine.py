"""The partition change as a transition table. PURE: events in, state and instructions out; no I/O, no clock.

A change walks the steps ``planned, creating, closing, fencing, boundaries, committing``. :data:`TABLE` maps
``(step, event type)`` to the handler that answers with the next state and the instructions to carry out; the last
instruction of an answer is the one whose result comes back as the next event. Times are seconds of one clock, the
caller's; they come in with the events.

Crash safety: only :class:`Change` is persisted. Every instruction may be repeated, and :func:`resume` says where a
new controller goes on. From ``closing`` on it starts the listing afresh: a fence is harmless to repeat, and boundaries
are exact only when read after a complete fence by the one who commits them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from spark_ordered_kafka.controller.change.events import (
    BoundariesRead,
    CancelRequested,
    Committed,
    Event,
    Failed,
    ForeignWriterSeen,
    IdleFenced,
    LeadersElected,
    LogsGrew,
    NoForeignWriter,
    NothingGrew,
    PartitionsCreated,
    RolledBack,
    Started,
    TransactionsListed,
    WritersFenced,
)
from spark_ordered_kafka.controller.change.instructions import (
    AwaitLeaders,
    CheckNothingGrew,
    CommitLayout,
    CreatePartitions,
    Fence,
    FenceIdle,
    Finish,
    Instruction,
    ListTransactions,
    LookForForeign,
    Pause,
    Persist,
    ReadBoundaries,
    RollBack,
)
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import (
    CLOSED_STEPS,
    STEPS,
    Change,
    Ending,
    FinishedChange,
    Running,
    Step,
)
from spark_ordered_kafka.errors import ErrorCode, TransitionError

ONGOING = "Ongoing"  # the transaction state in which a writer can still finish by itself
_STORY_LENGTH = 40
_NAMED_PARTITIONS = 5
_STOP_IT = "stop that producer, or use force if its records need no order"

Answer: TypeAlias = tuple[Running, tuple[Instruction, ...]]


# -- entry points ---------------------------------------------------------------------------------------------------


def resume(change: Change, now: float, timing: Timing) -> Answer:
    """State and instructions for a persisted change, new or left behind by another controller.

    A resumed closing gets a fresh ``timing.closing`` window, since its predecessor may have used up the first.
    """
    deadline = now + change.creation_limit(timing)
    running = Running(change, deadline, now, story=(f"{now:.3f} taken up at {change.step}",))
    if change.cancel_requested:
        return _take_back(running, Ending("cancelled"))
    if change.step in CLOSED_STEPS:
        return _close(running, now, timing)
    return advance(running, Started(now), timing)


def advance(running: Running, event: Event, timing: Timing) -> Answer:
    """Next state and instructions after ``event``.

    Raises TransitionError, with the story so far, when the table has no row for it: a bug in the caller.
    """
    change = running.change
    handler = TABLE.get((change.step, type(event)))
    taking_back = running.ending is not None
    expected = isinstance(event, (RolledBack, Failed)) if taking_back else not isinstance(event, RolledBack)
    if handler is None or not expected:
        raise TransitionError(
            f"change {change.id} of topic {change.topic!r}: event {event!r} is not expected at step "
            f"{change.step}{' while it is taken back' if taking_back else ''}; "
            f"so far: {' | '.join(running.story)}"
        )
    line = f"{event.at:.3f} {type(event).__name__} at {change.step}"
    return handler(replace(running, story=(*running.story, line)[-_STORY_LENGTH:]), event, timing)


def cancellable(running: Running) -> bool:
    """Whether a cancel still has an effect: until the boundaries have been read."""
    return running.boundaries is None and running.ending is None


def finished(change: Change, ending: Ending, at: float) -> FinishedChange:
    """The record kept of a change that ends at ``at``."""
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


def done_to_kafka(change: Change, existing: int | None) -> str:
    """What an expansion that is taken back leaves; ``existing``: Kafka partitions by now, None if that is not known."""
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
    # Before anything is created: partitions cannot be taken back, and whoever goes by Kafka's count would spread over them.
    if change.refuses_foreign:
        return running, (LookForForeign(running.deadline),)
    return _prepare(running)


def _none_seen(running: Running, event: NoForeignWriter, timing: Timing) -> Answer:
    return _prepare(running)


def _foreign_seen(running: Running, event: ForeignWriterSeen, timing: Timing) -> Answer:
    message = foreign_refusal(running.change.topic, event.what)
    return _take_back(running, Ending("failed", ErrorCode.ACTIVE_FOREIGN_PRODUCERS, message))


def _prepare(running: Running) -> Answer:
    change = running.change
    if change.target <= change.source:
        return running, (AwaitLeaders(change.existing, running.deadline),)
    # Also when Kafka has the partitions: one that was removed may have given replicas away.
    change = replace(change, step="creating")
    return replace(running, change=change), (
        Persist(change),
        CreatePartitions(_total(change), running.deadline),
    )


def _created(running: Running, event: PartitionsCreated, timing: Timing) -> Answer:
    return running, (AwaitLeaders(_total(running.change), running.deadline),)


def _led(running: Running, event: LeadersElected, timing: Timing) -> Answer:
    if not running.change.ordered:
        return _close(running, event.at, timing)
    return running, (FenceIdle(timing.closing),)


def _fenced_ahead(running: Running, event: IdleFenced, timing: Timing) -> Answer:
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


def _listed(running: Running, event: TransactionsListed, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the transactions were listed too late to fence their writers")
    change = replace(running.change, total_fences=len(event.states))
    # Only who has been open since the first listing is waited for: a writer that was seen between two transactions
    # had its turn, or busy writers would use up the whole drain time with one new transaction after another.
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


def _fenced(running: Running, event: WritersFenced, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the writers were fenced too late")
    change = replace(running.change, step="boundaries", fenced=event.count)
    return replace(running, change=change), (
        Persist(change),
        ReadBoundaries(_total(change), running.deadline),
    )


def _read(running: Running, event: BoundariesRead, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the log ends were read too late")
    change = replace(running.change, step="committing")
    running = replace(running, change=change, boundaries=event.boundaries)
    if not change.ordered:
        return running, (Persist(change), CommitLayout(change, event.boundaries))
    return running, (Persist(change), CheckNothingGrew(event.boundaries, running.deadline))


def _unchanged(running: Running, event: NothingGrew, timing: Timing) -> Answer:
    if event.at >= running.deadline:
        return _too_late(running, timing, "the log ends were confirmed too late")
    return _commit(running)


def _grew(running: Running, event: LogsGrew, timing: Timing) -> Answer:
    # Under a layout without ordered delivery it matters to nobody who wrote what lies behind its start.
    if running.change.force or not running.change.ordered_delivery:
        return _commit(running)
    boundaries = running.boundaries or ()
    shown = [
        f"{partition} ({boundaries[partition].offset} -> {event.ends[partition]})"
        for partition in sorted(event.ends)[:_NAMED_PARTITIONS]
    ]
    more = len(event.ends) - len(shown)
    message = (
        f"something that is not an ordered writer still writes to topic {running.change.topic!r}: after the fence "
        f"the log ends changed of partition {', '.join(shown)}{f' and {more} more' if more else ''}; {_STOP_IT}"
    )
    return _take_back(running, Ending("failed", ErrorCode.ACTIVE_FOREIGN_PRODUCERS, message))


def _committed(running: Running, event: Committed, timing: Timing) -> Answer:
    return running, (Finish("done"),)


def _taken_back(running: Running, event: RolledBack, timing: Timing) -> Answer:
    return running, () if running.ending is None else (Finish(running.ending.outcome),)


def _cancel(running: Running, event: CancelRequested, timing: Timing) -> Answer:
    change = replace(running.change, cancel_requested=True)
    return _take_back(replace(running, change=change), Ending("cancelled"))


def _failed(running: Running, event: Failed, timing: Timing) -> Answer:
    change = running.change
    if running.ending is not None:
        return running, (Pause(timing.retry), RollBack(change, running.ending))
    if not event.retriable:
        return _take_back(running, Ending("failed", event.code, event.message))
    if event.at >= running.deadline:
        return _too_late(running, timing, event.message)
    if change.step not in CLOSED_STEPS:
        deadline = running.deadline
        running, instructions = _started(running, Started(event.at), timing)
        instructions = tuple(_until(deadline, instruction) for instruction in instructions)
        return replace(running, deadline=deadline), (Pause(timing.backoff), *instructions)
    # Nothing read before the failure may be used: the list, the fence and the boundaries belong together.
    step: Step = "closing" if change.ordered else "boundaries"
    change = replace(change, step=step, fenced=0)
    running = replace(running, change=change, boundaries=None)
    if not change.ordered:
        return running, (Pause(timing.backoff), ReadBoundaries(_total(change), running.deadline))
    return running, (Pause(timing.backoff), Persist(change), ListTransactions(running.deadline))


def _until(deadline: float, instruction: Instruction) -> Instruction:
    if isinstance(instruction, (LookForForeign, CreatePartitions, AwaitLeaders)):
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
    return _take_back(running, Ending("failed", ErrorCode.REQUEST_TIMED_OUT, message))


def _take_back(running: Running, ending: Ending) -> Answer:
    return replace(running, ending=ending), (RollBack(running.change, ending),)


def _total(change: Change) -> int:
    return max(change.existing, change.target)


Handler: TypeAlias = Callable[..., Answer]

TABLE: dict[tuple[Step, type], Handler] = {
    ("planned", Started): _started,
    ("planned", NoForeignWriter): _none_seen,
    ("planned", ForeignWriterSeen): _foreign_seen,
    ("planned", LeadersElected): _led,
    ("creating", Started): _started,
    ("creating", NoForeignWriter): _none_seen,
    ("creating", ForeignWriterSeen): _foreign_seen,
    ("creating", PartitionsCreated): _created,
    ("creating", LeadersElected): _led,
    ("planned", IdleFenced): _fenced_ahead,
    ("creating", IdleFenced): _fenced_ahead,
    ("closing", TransactionsListed): _listed,
    ("fencing", WritersFenced): _fenced,
    ("boundaries", BoundariesRead): _read,
    ("committing", NothingGrew): _unchanged,
    ("committing", LogsGrew): _grew,
    ("committing", Committed): _committed,
    ("planned", CancelRequested): _cancel,
    ("creating", CancelRequested): _cancel,
    ("closing", CancelRequested): _cancel,
    ("fencing", CancelRequested): _cancel,
    ("boundaries", CancelRequested): _cancel,
    **{(step, Failed): _failed for step in STEPS},
    **{(step, RolledBack): _taken_back for step in STEPS},
}
