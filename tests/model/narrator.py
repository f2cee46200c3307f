"""Steps of the change protocol's model in words, for traces."""

from __future__ import annotations

from tests.model.controller import ChangeMachine
from tests.model.logs import record_of
from tests.model.state import ONGOING, Action, Config, Program, State

_WRITER = {
    "crash": "crashes",
    "fenced": "learns that it is fenced, and starts over",
    "abort": "begins to initialise its transactions: the one its predecessor left open is aborted",
    "timeout": "has a transaction open for too long: the broker aborts it",
    "late fence": "is fenced by a late request of a dead controller",
    "commit": "commits",
    "commit unknown": "commits, and crashes before the answer arrives",
}
_CONTROLLER = {
    "list again": "lists the transactional ids, and lets open transactions finish",
    "boundaries": "reads the boundaries",
    "cover": "reads the log ends, for a layout that covers partitions that something else has made",
    "take back": "takes the change back; it is asked for again",
    "controller crash": "crashes; the next one resumes",
}
_READER = {
    "reader crash": "crashes or gives up, and keeps its positions only",
    "deliver": "delivers what it had read",
}


class Narrator:
    """Puts steps into words."""

    def __init__(self, config: Config, program: Program, machine: ChangeMachine) -> None:
        self._counts = config.counts
        self._program = program
        self._machine = machine

    def describe(self, action: Action, before: State, after: State) -> str:
        """``action``, which led from ``before`` to ``after``."""
        kind, subject, number = action
        if kind in _WRITER:
            return f"writer {subject} {_WRITER[kind]}"
        if kind in _CONTROLLER:
            return f"controller {_CONTROLLER[kind]}"
        if kind in _READER:
            return f"reader {_READER[kind]}"
        words: str = getattr(self, f"_{kind.replace(' ', '_')}")(subject, number, before)
        return words

    def _layout(self, epoch: int) -> str:
        return f"layout {epoch} ({self._counts[epoch]} partitions)"

    def _init(self, writer: int, skipped: int, before: State) -> str:
        found = "; the ledger says that its transaction was committed" if skipped else ""
        return f"writer {writer} initialises its transactions{found}"

    def _check(self, writer: int, epoch: int, before: State) -> str:
        closing = ", although a change is closing" if self._machine.closing(before.node) else ""
        return f"writer {writer} asks for the layout and is told {self._layout(epoch)}{closing}"

    def _send(self, partition: int, record: int, before: State) -> str:
        writer = record // self._program.per_writer
        return f"writer {writer} sends {self._program.name(record)} to partition {partition}"

    def _commit_marker(self, partition: int, writer: int, before: State) -> str:
        return f"partition {partition} gets the marker of writer {writer}'s commit"

    def _abort_marker(self, partition: int, writer: int, before: State) -> str:
        return f"partition {partition} gets the marker of writer {writer}'s abort"

    def _close(self, subject: int, number: int, before: State) -> str:
        counts = self._counts[before.epoch : before.epoch + 2]
        return f"controller persists that the change from {counts[0]} to {counts[1]} partitions is closing"

    def _list(self, fence: int, number: int, before: State) -> str:
        found = " and ".join(f"writer {w}" for w in range(len(before.writers)) if fence >> w & 1)
        return f"controller lists the transactional ids; to fence: {found or 'none'}"

    def _fence_ahead(self, writer: int, number: int, before: State) -> str:
        return f"controller fences writer {writer}, which is idle, before it closes"

    def _fence(self, writer: int, number: int, before: State) -> str:
        is_open = before.writers[writer].state == ONGOING
        aborts = ", which aborts its open transaction" if is_open else ""
        return f"controller sends InitProducerId for writer {writer}{aborts}"

    def _closing_check(self, grew: int, number: int, before: State) -> str:
        return f"controller reads the log ends again: {'a log grew' if grew else 'nothing grew'}"

    def _commit_layout(self, epoch: int, number: int, before: State) -> str:
        return f"controller commits {self._layout(epoch)}"

    def _disturbance(self, which: int, number: int, before: State) -> str:
        return f"controller: what it asks Kafka {self._machine.disturbed(before.node)[which][0]}"

    def _take_layout(self, subject: int, epoch: int, before: State) -> str:
        return f"reader takes {self._layout(epoch)}"

    def _take_ends(self, subject: int, number: int, before: State) -> str:
        return "reader takes end offsets"

    def _read(self, partition: int, stop: int, before: State) -> str:
        read = [record_of(value)[0] for value in before.parts[partition].entries[:stop] if value]
        names = ", then ".join(map(self._program.name, read))
        return f"reader reads partition {partition}: {names or 'nothing to deliver'}"
