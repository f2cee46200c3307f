"""What is in Kafka and what layouts know of it, while foreign producers and other tools do as they like.

The controller's steps are the package's own: the transition table of ``controller/change/machine.py``, here with the instructions
that :mod:`tests.model.controller` leaves out (looking for foreign writers, creating partitions), and
``controller/topics/foreign_partitions.py``. Any instruction may fail for good, be cancelled, or be the last one of a controller that dies.

**What is checked.** A change that is refused because of a producer that wrote before it and all the while has created
nothing. No records are deleted that no layout has covered. And from every state everything that was written can still be read,
once the changes are over and the producer has stopped.

A log holds at most one record that matters, and offsets do not: :mod:`tests.model.protocol` is about those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from spark_ordered_kafka.controller.change import machine, planning, protocol
from spark_ordered_kafka.controller.change.protocol import Boundary, Event, Instruction, Running
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.controller.topics.drain import emptied
from spark_ordered_kafka.controller.topics.foreign_partitions import covering_layout
from spark_ordered_kafka.errors import ErrorCode

INITIAL = 2
EMPTY, WRITTEN, DONE = range(3)
NEVER, RUNNING, STOPPED = range(3)

RULES = {
    "look first": "the controller creates partitions without looking for foreign writers",
    "cover": "no layout covers what a change that was taken back, or another tool, has made",
    "delete what is covered": "records are deleted in all partitions beyond the count",
}


class Topic(NamedTuple):
    """``kafka``: partitions there are; ``layout``: count of the newest layout, and how many partitions it knows; ``logs``:
    what each holds; ``foreign``: what the producer does; ``asked``: counts that changes are still asked for.

    Of the change that goes on, ``running`` and ``todo``; ``before``: partitions when it was asked for, and those that
    another tool has made since; ``steady``: whether the producer has run since then.
    """

    kafka: int
    layout: tuple[int, int]
    logs: tuple[int, ...]
    foreign: int
    asked: tuple[int, ...]
    running: Running | None = None
    todo: tuple[Instruction, ...] = ()
    before: int = 0
    steady: bool = False


Move: TypeAlias = tuple[str, Topic, "str | None"]


class Strays:
    """The model, for :class:`tests.model.search.Search`.

    ``asked``: counts that changes are asked for, one after another; ``most``: partitions that there ever are.
    """

    def __init__(self, asked: tuple[int, ...], most: int, *, broken: frozenset[str] = frozenset()) -> None:
        if broken - RULES.keys():
            raise ValueError(f"rules {sorted(broken - RULES.keys())}: known are {sorted(RULES)}")
        self._asked = asked
        self._most = most
        self._broken = broken
        self._timing = Timing()

    def initial(self) -> Topic:
        """A topic that nobody has written to."""
        return Topic(INITIAL, (INITIAL, INITIAL), (EMPTY,) * self._most, NEVER, self._asked)

    def is_goal(self, state: Topic) -> bool:
        """Nothing goes on, and all that was written is read or was deleted."""
        return state.running is None and state.foreign != RUNNING and WRITTEN not in state.logs

    def describe(self, action: str, before: Topic, after: Topic) -> str:
        """The step as a line of a trace."""
        return action

    def successors(self, state: Topic) -> Iterator[Move]:
        """Every step that can come next."""
        yield from self._others(state)
        yield from self._readers(state)
        if state.running is not None:
            yield from self._controller(state, state.running)
            return
        if state.asked:
            yield self._ask(state)
        count, known = state.layout
        if state.kafka > known and "cover" not in self._broken:
            wider = covering_layout(_record(count, known), {}, state.kafka, ordered_delivery=True, now=0.0)
            layout = wider.undeleted_partition_count, len(wider.starts)
            yield "the controller covers all partitions", state._replace(layout=layout), None

    def _others(self, state: Topic) -> Iterator[Move]:
        if state.foreign == NEVER:
            yield "a foreign producer starts", state._replace(foreign=RUNNING), None
        if state.foreign == RUNNING:
            yield "the foreign producer stops", state._replace(foreign=STOPPED, steady=False), None
            for partition in range(state.kafka):
                if state.logs[partition] != WRITTEN:
                    yield f"it writes to partition {partition}", _with_log(state, partition, WRITTEN), None
        if state.kafka < self._most:
            more = state._replace(kafka=state.kafka + 1, before=state.before + (state.running is not None))
            yield "another tool adds a partition", more, None

    def _readers(self, state: Topic) -> Iterator[Move]:
        count, known = state.layout
        for partition in range(known):
            if state.logs[partition] == WRITTEN:
                yield f"a reader reads partition {partition}", _with_log(state, partition, DONE), None
        covered = state.kafka if "delete what is covered" in self._broken else known
        for partition in emptied(count, state.kafka, covered):
            if state.logs[partition] == WRITTEN:
                hidden = "records are deleted that no layout has covered" if partition >= known else None
                what = f"records of partition {partition} are deleted on request"
                yield what, _with_log(state, partition, DONE), hidden

    # -- the controller -----------------------------------------------------------------------------------------

    def _ask(self, state: Topic) -> Move:
        target, *later = state.asked
        count, _ = state.layout
        state = state._replace(asked=tuple(later))
        if target == count:
            return f"a change to {target} partitions is refused", state, None
        change = planning.plan_count(
            "t",
            change_id=str(len(later)),
            target=target,
            source=count,
            initial=INITIAL,
            existing=state.kafka,
            ordered=True,
            force=False,
            pending=None,
            now=0.0,
        )
        answer = machine.resume(change, 0.0, self._timing)
        begun = state._replace(before=state.kafka, steady=state.foreign == RUNNING)
        return f"a change to {target} partitions is asked for", self._next(begun, answer), None

    def _controller(self, state: Topic, running: Running) -> Iterator[Move]:
        instruction = state.todo[0]
        name = type(instruction).__name__
        if isinstance(instruction, protocol.Finish):
            ended = state._replace(running=None, todo=(), before=0, steady=False)
            yield "the change has ended", ended, self._judge(state, running)
            return
        resumed = self._next(state, machine.resume(running.change, 0.0, self._timing))
        yield f"the controller dies before {name}; the next one resumes", resumed, None
        for what, after, event in self._results(state, instruction):
            yield f"{name}: {what}", self._next(after, machine.advance(running, event, self._timing)), None
        failed = protocol.Failed(0.0, ErrorCode.INVALID_REQUEST, "", retriable=False)
        yield f"{name} fails", self._next(state, machine.advance(running, failed, self._timing)), None
        if machine.cancellable(running):
            cancelled = machine.advance(running, protocol.CancelRequested(0.0), self._timing)
            yield "the change is cancelled", self._next(state, cancelled), None

    def _results(self, state: Topic, instruction: Instruction) -> Iterator[tuple[str, Topic, Event]]:
        match instruction:
            case protocol.DetectForeignProducers():
                if state.foreign == RUNNING and "look first" not in self._broken:
                    yield "one is seen", state, protocol.ForeignProducersDetected(0.0, "")
                else:
                    yield "none is seen", state, protocol.NoForeignProducers(0.0)
            case protocol.CreatePartitions(total):
                made = state._replace(kafka=max(state.kafka, total))
                yield "done", made, protocol.PartitionsCreated(0.0)
            case protocol.AwaitLeaders():
                yield "done", state, protocol.LeadersElected(0.0)
            case protocol.FenceIdle():
                yield "done", state, protocol.IdleFenced(0.0)
            case protocol.ListTransactions():
                yield "none", state, protocol.TransactionsListed(0.0, {})
            case protocol.Fence():
                yield "done", state, protocol.WritersFenced(0.0, 0)
            case protocol.ReadBoundaries():
                yield "done", state, protocol.BoundariesRead(0.0, (Boundary(0, 0),) * state.kafka)
            case protocol.CheckLogEnds():
                yield "nothing grew", state, protocol.LogEndsUnchanged(0.0)
                if state.foreign == RUNNING:
                    yield "a log grew", state, protocol.LogEndsChanged(0.0, {0: 1})
            case protocol.CommitLayout(change, starts):
                yield "done", state._replace(layout=(change.target, len(starts))), protocol.Committed(0.0)
            case protocol.RollBack():
                yield "done", state, protocol.RolledBack(0.0)

    def _judge(self, state: Topic, running: Running) -> str | None:
        ending = running.ending
        refused = ending is not None and ending.code == ErrorCode.ACTIVE_FOREIGN_PRODUCERS
        if refused and state.steady and state.kafka > state.before:
            return "a change has created partitions and was refused for a producer that had been there before"
        return None

    def _next(self, state: Topic, answer: machine.Answer) -> Topic:
        running, todo = answer
        # What others cannot see is done at once, and the story is told to those who watch.
        visible = tuple(one for one in todo if not isinstance(one, (protocol.Persist, protocol.Pause)))
        return state._replace(running=replace(running, story=()), todo=visible)


def _with_log(state: Topic, partition: int, content: int) -> Topic:
    logs = state.logs
    return state._replace(logs=(*logs[:partition], content, *logs[partition + 1 :]))


def _record(count: int, known: int) -> LayoutRecord:
    return LayoutRecord(
        undeleted_partition_count=count, starts=[0] * known, leader_epochs=[0] * known, committed_at=0.0
    )
