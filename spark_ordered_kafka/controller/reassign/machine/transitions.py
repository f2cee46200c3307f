"""The transition table of a move: :data:`TABLE` has every change of its state, and each is a line of its story. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TypeAlias

from spark_ordered_kafka.controller.reassign.machine.progress import completed
from spark_ordered_kafka.controller.reassign.machine.tracking import Tracker
from spark_ordered_kafka.controller.state.reassignment_records import Move, MoveState
from spark_ordered_kafka.errors import ErrorCode, TransitionError, error_name
from spark_ordered_kafka.updates import updated

_STORY_LENGTH = 40

Tracked: TypeAlias = tuple[Move, Tracker]
"""A move and its tracker."""


class Event(Enum):
    """What changes the state of a move."""

    BEGUN = "its turn has come"
    ACCEPTED = "Kafka accepted its reassignment"
    IN_PROGRESS = "Kafka was seen to reassign it"
    ONLY_LOG_DIRS = "nothing but log directories is asked for"
    NEVER_ASKED = "Kafka was never asked for it"
    REPLICAS_IN_PLACE = "its replicas are in place"
    TARGET_HOLDS = "all is as it was asked for"
    CANCELLED = "cancelled"
    FAILED = "failed"


_LIVE: tuple[MoveState, ...] = ("waiting", "starting", "moving", "placing")

TABLE: Mapping[tuple[str, Event], MoveState] = {
    ("waiting", Event.BEGUN): "starting",
    # An earlier controller had asked for it, and Kafka lists it only now.
    ("waiting", Event.IN_PROGRESS): "moving",
    ("starting", Event.ACCEPTED): "moving",
    ("starting", Event.IN_PROGRESS): "moving",
    ("starting", Event.ONLY_LOG_DIRS): "placing",
    # A former controller stored it, and ended before it asked.
    ("starting", Event.NEVER_ASKED): "waiting",
    ("moving", Event.REPLICAS_IN_PLACE): "placing",
    # Also while it is rolled back: it may have completed before the cancel.
    **{(state, Event.TARGET_HOLDS): "done" for state in _LIVE},
    **{(state, Event.CANCELLED): "cancelled" for state in _LIVE},
    **{(state, Event.FAILED): "failed" for state in _LIVE},
}


def transition(move: Move, tracker: Tracker, event: Event, at: float) -> Tracked:
    """The move after ``event``, which happened at ``at`` (seconds).

    Raises TransitionError, with the story so far, when the table has no row for it: a bug in the caller.
    """
    state = TABLE.get((move.state, event))
    if state is None:
        raise TransitionError(
            f"partition {move.topic}-{move.partition}: {event.name} is not expected in state {move.state}; "
            f"so far: {story(tracker)}"
        )
    tracker = with_line(tracker, at, f"{move.state} -> {state}: {event.value}")
    if state == "done":
        move = updated(completed(move), error_code=0, error_message=None)
    return updated(move, state=state), tracker


def failing(move: Move, tracker: Tracker, code: int, message: str, at: float) -> Tracked:
    """The move with an error: it is rolled back, and then fails."""
    failed = updated(move, error_code=int(code), error_message=message)
    return failed, with_line(tracker, at, f"{move.state}, to be taken back: {error_name(code)}: {message}")


def ended(move: Move, tracker: Tracker, at: float, message: str = "the request was cancelled") -> Tracked:
    """The move after its end: failed if it has an error, else cancelled with ``message``."""
    if move.error_code != 0:
        return transition(move, tracker, Event.FAILED, at)
    cancelled, tracker = transition(move, tracker, Event.CANCELLED, at)
    code = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
    return updated(cancelled, error_code=code, error_message=message), tracker


def with_line(tracker: Tracker, at: float, line: str) -> Tracker:
    """The tracker with one more line in its story, unless it repeats the last one."""
    if tracker.story and tracker.story[-1][1] == line:
        return tracker
    return replace(tracker, story=(*tracker.story, (at, line))[-_STORY_LENGTH:])


def story(tracker: Tracker) -> str:
    """The events of a move under this leader, in one line."""
    return " | ".join(f"{at:.3f} {line}" for at, line in tracker.story)
