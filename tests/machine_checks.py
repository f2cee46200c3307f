"""What holds after every step of the two state machines; all tests of the machines check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.controller.change.protocol import STEPS, Change, Running
from spark_ordered_kafka.controller.reassign.machine import instructions as i
from spark_ordered_kafka.controller.reassign.machine.tasks import BEGUN, Advance, Memory, Task
from spark_ordered_kafka.controller.reassign.machine.transitions import TABLE
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.errors import ErrorCode
from spark_ordered_kafka.updates import updated

# -- the partition change -------------------------------------------------------------------------------------------


def validate_change(before: Running, after: Running, todo: tuple[protocol.Instruction, ...]) -> None:
    """``after`` and ``todo`` may answer an event in ``before``."""
    assert todo
    assert after.change.step in STEPS
    assert _as_planned(after.change) == _as_planned(before.change)
    assert (after.boundaries is not None) == (after.change.step == "committing")
    if any(isinstance(one, protocol.CommitLayout) for one in todo):
        assert before.change.step in ("boundaries", "committing")
        assert before.ending is None
    # Every answer ends with exactly one instruction that brings an event, or with the end.
    silent = (protocol.Persist, protocol.Pause)
    assert [isinstance(one, silent) for one in todo] == [True] * (len(todo) - 1) + [False]
    if before.ending is not None:
        assert after.ending == before.ending
        assert isinstance(todo[-1], (protocol.RollBack, protocol.Finish))


def _as_planned(change: Change) -> Change:
    """What no step changes."""
    return replace(change, step="planned", closing_at=None, fenced=0, total_fences=0, cancel_requested=False)


# -- the reassignment -----------------------------------------------------------------------------------------------


def _reachable(state: str) -> set[str]:
    """States that may follow, after any number of events."""
    found = {state}
    while more := {after for (before, _), after in TABLE.items() if before in found} - found:
        found |= more
    return found


REACHABLE = {state: _reachable(state) for state in {state for state, _ in TABLE} | ENDED}


def validate_advance(before: Sequence[Task], advance: Advance) -> None:
    """``advance`` may follow from a look at Kafka."""
    validate_tasks(before, advance.tasks, advance.memory)
    old = {(task.request_id, tp): move for task in before for tp, move in task.moves.items()}
    new = {task.request_id: task for task in advance.tasks}
    for ask in advance.instructions:
        task, tp = new[ask.request_id], ask.instruction.tp
        move = task.moves[tp]
        assert tp in task.active, f"{ask} of a move that is {move.state}"
        match ask.instruction:
            case i.Start() | i.MoveToLogDir():
                assert not task.cancelling
                assert move.error_code == 0
                assert move.state == "starting" or isinstance(ask.instruction, i.MoveToLogDir)
                if old[ask.request_id, tp].state == "waiting":
                    assert tp in advance.intents[ask.request_id], f"{ask} before it is stored"
            case i.Withdraw() | i.Restore() | i.CancelLogDirMove():
                assert task.cancelling or move.error_code != 0, f"{ask} of a move that goes forward"
    failed = {
        (request_id, move.tp)
        for (request_id, _), move in old.items()
        if move.state in BEGUN and new[request_id].moves[move.tp].state == "failed"
    }
    assert {(failure.request_id, failure.move.tp) for failure in advance.failures} == failed
    assert all(failure.story.endswith("failed: failed") for failure in advance.failures)


def validate_tasks(before: Sequence[Task], after: Sequence[Task], memory: Memory) -> None:
    """``after`` may follow ``before``, after a look at Kafka or its answers."""
    assert [task.request_id for task in after] == [task.request_id for task in before]
    for old, new in zip(before, after, strict=True):
        assert list(new.moves) == list(old.moves)
        assert {tp for tp, move in new.moves.items() if move.state in BEGUN} == set(new.active)
        assert {tp for tp, move in new.moves.items() if move.state == "waiting"} == set(new.waiting)
        assert len(new.active) + len(new.waiting) == len({*new.active, *new.waiting})
        for tp, move in new.moves.items():
            validate_move(old.moves[tp], move)
    assert memory.trackers.keys() <= {(task.request_id, tp) for task in after for tp in task.active}


def validate_move(before: Move, after: Move) -> None:
    """``after`` may follow ``before``, after any number of events."""
    assert after.state in REACHABLE[before.state], f"{before.state} -> {after.state}"
    assert _as_asked(after) == _as_asked(before)
    if before.state in ENDED:
        assert (after.error_code, after.error_message) == (before.error_code, before.error_message)
    match after.state:
        case "done":
            assert (after.error_code, after.error_message) == (0, None)
            assert all(after.copied[b][0] == after.copied[b][1] > 0 for b in after.receiving)
        case "failed":
            assert after.error_code != 0
            assert after.error_message
        case "cancelled":
            assert after.error_code == ErrorCode.OPERATION_NOT_ATTEMPTED
            assert after.error_message
        case "waiting":
            assert (after.error_code, after.error_message) == (0, None)
    if before.error_code != 0 and after.state != "done":
        assert after.error_code == before.error_code
        assert (after.error_message or "").startswith(before.error_message or "")


def _as_asked(move: Move) -> Move:
    """What no step changes."""
    return updated(move, state="waiting", error_code=0, error_message=None, copied={})
