"""The table of a move's states, and the story that it tells of failures."""

from __future__ import annotations

import itertools

import pytest

from spark_ordered_kafka.controller.reassign.machine.tracking import Tracker
from spark_ordered_kafka.controller.reassign.machine.transitions import (
    TABLE,
    Event,
    ended,
    failing,
    story,
    transition,
    with_line,
)
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move, MoveState
from spark_ordered_kafka.errors import ErrorCode, TransitionError
from tests.machine_checks import REACHABLE, validate_move

STATES: tuple[MoveState, ...] = ("waiting", "starting", "moving", "placing", "done", "failed", "cancelled")
PAIRS = tuple(itertools.product(STATES, Event))


def a_move(state: MoveState) -> Move:
    return Move(topic="t", partition=3, before=(1, 2), after=(2, 4), state=state)


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair in TABLE])
def test_each_row_changes_the_state_and_adds_to_the_story(state: MoveState, event: Event) -> None:
    move, tracker = transition(a_move(state), Tracker(), event, 7.0)
    assert move.state == TABLE[state, event]
    assert story(tracker) == f"7.000 {state} -> {move.state}: {event.value}"


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair not in TABLE])
def test_what_has_no_row_tells_the_story(state: MoveState, event: Event) -> None:
    with pytest.raises(
        TransitionError, match=f"t-3: {event.name} is not expected in state {state}"
    ) as raised:
        transition(a_move(state), with_line(Tracker(), 5.0, "so it began"), event, 7.0)
    assert str(raised.value).endswith("so far: 5.000 so it began")


def test_every_state_is_reached_and_only_ends_are_final() -> None:
    assert REACHABLE["waiting"] == set(STATES)
    assert {state for state in STATES if REACHABLE[state] == {state}} == ENDED
    assert {state for state in STATES if REACHABLE[state] >= ENDED} == set(STATES) - ENDED


@pytest.mark.parametrize("state", sorted(set(STATES) - ENDED))
def test_how_moves_end(state: MoveState) -> None:
    move = a_move(state)
    done, _ = transition(move, Tracker(), Event.TARGET_HOLDS, 1.0)
    assert (done.error_code, done.copied) == (0, {4: (1, 1)})
    cancelled, _ = ended(move, Tracker(), 1.0)
    assert (cancelled.state, cancelled.error_message) == ("cancelled", "the request was cancelled")
    began, tracker = failing(move, Tracker(), ErrorCode.KAFKA_STORAGE_ERROR, "offline", 1.0)
    assert began.state == state
    failed, tracker = ended(began, tracker, 2.0)
    assert (failed.state, failed.error_code, failed.error_message) == ("failed", 56, "offline")
    assert story(tracker) == (
        f"1.000 {state}, to be taken back: KAFKA_STORAGE_ERROR: offline | 2.000 {state} -> failed: failed"
    )
    for after in (done, cancelled, failed):
        validate_move(move, after)


def test_a_story_has_its_last_lines_and_none_twice_in_a_row() -> None:
    tracker = Tracker()
    for number in range(100):
        for _ in range(3):
            tracker = with_line(tracker, float(number), f"line {number}")
    lines = story(tracker).split(" | ")
    assert (len(lines), lines[0], lines[-1]) == (40, "60.000 line 60", "99.000 line 99")
