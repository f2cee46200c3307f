"""The controller of the model: the package's real transition table, cut into the steps that others can see.

A *node* is all that a controller and its ZooKeeper hold about a change: what is persisted, the machine's own state and
the instructions still to be carried out. Nodes are numbered, so that a state of the model holds an int. ``kind(node)``
is the next instruction that a writer, a broker or a reader could notice. The others are carried out at once:

- creating partitions and waiting for their leaders: nobody writes or reads them before the commit;
- fencing idle writers ahead: :class:`tests.model.protocol.Protocol` lets that befall them at any time before the closing;
- persisting a step that writers are answered alike to as before (:attr:`Change.closing` is all they are told), since a
  new controller starts every closed step over at the listing;
- pauses: every step of the model may be as late as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from spark_ordered_kafka.controller.change import machine, planning, protocol
from spark_ordered_kafka.controller.change.protocol import (
    Boundary,
    Change,
    Ending,
    Event,
    Instruction,
    Running,
)
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.errors import ErrorCode

# All that the machine does with times is to compare them with its limits, so three times are as good as all.
EARLY, DRAINED, LATE = 0.0, 3.0, 1000.0

NOTHING, CLOSE, LIST, FENCE, READ, CHECK, COMMIT, TAKE_BACK, COVER = range(9)


@dataclass(frozen=True)
class CoverPartitions:
    """The log ends are read for a layout of the same count, which holds and fences nobody (``controller/topics/foreign_partitions.py``)."""

    epoch: int


@dataclass(frozen=True)
class CommitCovering:
    """That layout is committed."""

    epoch: int


_KINDS: dict[type, int] = {
    CoverPartitions: COVER,
    CommitCovering: COMMIT,
    protocol.Persist: CLOSE,
    protocol.ListTransactions: LIST,
    protocol.Fence: FENCE,
    protocol.ReadBoundaries: READ,
    protocol.CheckLogEnds: CHECK,
    protocol.CommitLayout: COMMIT,
    protocol.RollBack: TAKE_BACK,
}
_ENDING = Ending("failed")  # nothing depends on why a change is taken back
#: Steps whose result may come too late or not at all.
ASKING_KAFKA = (LIST, FENCE, READ, CHECK)


class _Node(NamedTuple):
    persisted: Change | None
    running: Running | None
    todo: tuple[Instruction | CoverPartitions | CommitCovering, ...]


class ChangeMachine:
    """Nodes of the changes that lead a topic through ``counts``; change e goes from ``counts[e]`` to ``counts[e + 1]``.

    Where the two are equal, the layout covers partitions that something else has made.

    ``drain``: whether the time that writers get to finish by themselves is modelled (as more listings), or zero.
    """

    def __init__(self, counts: tuple[int, ...], *, force: bool, drain: bool) -> None:
        self._counts = counts
        self._force = force
        self._timing = Timing(drain=2.0 if drain else 0.0)
        self._nodes: list[_Node] = []
        self._numbers: dict[_Node, int] = {}
        self._kinds: list[int] = []
        self.listed_at = (EARLY, DRAINED) if drain else (EARLY,)
        # Each is a pure function of few arguments.
        self.planned: Callable[[int], int] = cache(self._planned)
        self.resumed: Callable[[int], int] = cache(self._resumed)
        self.listed: Callable[[int, tuple[tuple[str, str], ...], float], int] = cache(self._listed)
        self.fenced: Callable[[int], int] = cache(self._fenced)
        self.read: Callable[[int], int] = cache(self._read)
        self.checked: Callable[[int, bool], int] = cache(self._checked)
        self.disturbed: Callable[[int], tuple[tuple[str, int], ...]] = cache(self._disturbed)

    def kind(self, node: int) -> int:
        """The step that comes next."""
        return self._kinds[node]

    def closing(self, node: int) -> bool:
        """Whether writers that ask for the layout must wait."""
        persisted = self._nodes[node].persisted
        return persisted is not None and persisted.closing

    def existing(self, epoch: int) -> int:
        """Kafka partitions that layout ``epoch`` knows of: those of the largest count so far."""
        return max(self._counts[: epoch + 1])

    def ids_to_fence(self, node: int) -> tuple[str, ...]:
        """Transactional ids of the Fence that comes next."""
        instruction = self._nodes[node].todo[0]
        assert isinstance(instruction, protocol.Fence)
        return instruction.transactional_ids

    # -- steps --------------------------------------------------------------------------------------------------

    def closed(self, node: int) -> int:
        """The closing is persisted."""
        _, running, todo = self._nodes[node]
        instruction = todo[0]
        assert isinstance(instruction, protocol.Persist)
        return self._settled(_Node(instruction.change, running, todo[1:]))

    def committed(self, node: int) -> None:
        """The layout is in ZooKeeper; the machine must have nothing left to do."""
        _, running, todo = self._nodes[node]
        if isinstance(todo[0], CommitCovering):
            return
        assert running is not None
        _, todo = machine.advance(running, protocol.Committed(EARLY), self._timing)
        assert todo == (protocol.Finish("done"),)

    def covered(self, node: int) -> int:
        """The log ends were read."""
        step = self._nodes[node].todo[0]
        assert isinstance(step, CoverPartitions)
        return self._number(_Node(None, None, (CommitCovering(step.epoch),)))

    def taken_back(self, node: int) -> None:
        """The change is cleared in ZooKeeper; the machine must have nothing left to do."""
        running = self._nodes[node].running
        assert running is not None
        _, todo = machine.advance(running, protocol.RolledBack(EARLY), self._timing)
        assert isinstance(todo[0], protocol.Finish)

    def _planned(self, epoch: int) -> int:
        """A change away from layout ``epoch``, up to the step that closes; no change after the last layout."""
        if epoch + 1 == len(self._counts):
            return self._number(_Node(None, None, ()))
        if self._counts[epoch + 1] == self._counts[epoch]:
            return self._number(_Node(None, None, (CoverPartitions(epoch),)))
        change = planning.plan_count(
            "t",
            change_id=str(epoch),
            target=self._counts[epoch + 1],
            source=self._counts[epoch],
            initial=self._counts[0],
            existing=self.existing(epoch),
            ordered=True,
            force=self._force,
            pending=None,
            now=EARLY,
        )
        running, todo = machine.resume(change, EARLY, self._timing)
        return self._settled(_Node(change, running, todo))

    def _resumed(self, node: int) -> int:
        """The controller dies, and a new one goes on from what is persisted."""
        persisted = self._nodes[node].persisted
        assert persisted is not None
        running, todo = machine.resume(persisted, EARLY, self._timing)
        return self._settled(_Node(persisted, running, todo))

    def _listed(self, node: int, states: tuple[tuple[str, str], ...], at: float) -> int:
        return self._after(node, protocol.TransactionsListed(at, dict(states)))

    def _fenced(self, node: int) -> int:
        return self._after(node, protocol.WritersFenced(EARLY, len(self.ids_to_fence(node))))

    def _read(self, node: int) -> int:
        # The machine hands boundaries on without looking at them. The model keeps them relative to the reader's
        # positions, which go on moving, and gives the machine blanks.
        instruction = self._nodes[node].todo[0]
        assert isinstance(instruction, protocol.ReadBoundaries)
        return self._after(node, protocol.BoundariesRead(EARLY, (Boundary(0, 0),) * instruction.total))

    def _checked(self, node: int, grew: bool) -> int:
        event = protocol.LogEndsChanged(EARLY, {0: 1}) if grew else protocol.LogEndsUnchanged(EARLY)
        return self._after(node, event)

    def _disturbed(self, node: int) -> tuple[tuple[str, int], ...]:
        """What else may happen at a step that asks Kafka: what is said of it, and the node after it."""
        failed = protocol.Failed(EARLY, ErrorCode.REQUEST_TIMED_OUT, "", retriable=True)
        refused = replace(failed, retriable=False)
        disturbances: list[tuple[str, Event]] = [
            ("fails and is tried again", failed),
            ("comes too late", replace(failed, at=LATE)),
            ("is refused", refused),
        ]
        running = self._nodes[node].running
        assert running is not None
        if machine.cancellable(running):
            disturbances.append(("is cancelled", protocol.CancelRequested(EARLY)))
        found: dict[int, list[str]] = {}
        for what, event in disturbances:
            found.setdefault(self._after(node, event), []).append(what)
        return tuple((" or ".join(whats), after) for after, whats in found.items())

    # -- helpers ------------------------------------------------------------------------------------------------

    def _after(self, node: int, event: Event) -> int:
        persisted, running, _ = self._nodes[node]
        assert running is not None
        running, todo = machine.advance(running, event, self._timing)
        return self._settled(_Node(persisted, running, todo))

    def _settled(self, node: _Node) -> int:
        """Carry out what nobody sees."""
        persisted, running, todo = node
        assert persisted is not None
        assert running is not None
        while True:
            instruction = todo[0]
            if isinstance(instruction, protocol.Persist):
                if instruction.change.closing != persisted.closing:
                    break
                persisted = instruction.change
            elif isinstance(instruction, protocol.DetectForeignProducers):
                running, todo = machine.advance(running, protocol.NoForeignProducers(EARLY), self._timing)
                continue
            elif isinstance(instruction, protocol.CreatePartitions):
                running, todo = machine.advance(running, protocol.PartitionsCreated(EARLY), self._timing)
                continue
            elif isinstance(instruction, protocol.AwaitLeaders):
                running, todo = machine.advance(running, protocol.LeadersElected(EARLY), self._timing)
                continue
            elif isinstance(instruction, protocol.FenceIdle):
                running, todo = machine.advance(running, protocol.IdleFenced(EARLY), self._timing)
                continue
            elif not isinstance(instruction, protocol.Pause):
                break
            todo = todo[1:]
        return self._number(_Node(persisted, running, todo))

    def _number(self, node: _Node) -> int:
        persisted, running, todo = node
        if persisted is not None and running is not None:
            persisted = _without_report(persisted)
            ending = None if running.ending is None else _ENDING
            running = replace(running, change=_without_report(running.change), ending=ending, story=())
            todo = tuple(map(_plain, todo))
        node = _Node(persisted, running, todo)
        if node not in self._numbers:
            self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
            self._kinds.append(_KINDS[type(todo[0])] if todo else NOTHING)
        return self._numbers[node]


def _without_report(change: Change) -> Change:
    # Counted for those who watch; the machine never reads them.
    return replace(change, fenced=0, total_fences=0)


def _plain(
    instruction: Instruction | CoverPartitions | CommitCovering,
) -> Instruction | CoverPartitions | CommitCovering:
    if isinstance(instruction, (protocol.Persist, protocol.CommitLayout)):
        return replace(instruction, change=_without_report(instruction.change))
    if isinstance(instruction, protocol.RollBack):
        return replace(
            instruction, change=_without_report(instruction.change), ending=Ending(instruction.ending.outcome)
        )
    return instruction
