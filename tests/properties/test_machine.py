"""The change machine against a model of Kafka and ZooKeeper that fails, crashes and is cancelled at random."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.change import events as e
from spark_ordered_kafka.controller.change import instructions as i
from spark_ordered_kafka.controller.change import machine
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import STEPS, Boundary, Change, Kind, Running
from spark_ordered_kafka.errors import ErrorCode, TransitionError
from tests.seeds import examples

TIMING = Timing()
MISHAPS = st.sampled_from(
    ["none", "none", "none", "retriable", "fatal", "crash before", "crash after", "cancel", "growth", "slow"]
)
# What must have been carried out, in this order and by one controller without a failure in between, before a commit.
PROTOCOL = [
    i.ListTransactions,
    i.Fence,
    i.Persist,
    i.ReadBoundaries,
    i.Persist,
    i.CheckNothingGrew,
    i.CommitLayout,
]


@dataclass
class World:
    """Kafka and ZooKeeper, as far as a change sees them."""

    change: Change | None
    partitions: int
    # Partitions that have given replicas away; made live again, they must have them back.
    reduced: set[int] = field(default_factory=set)
    now: float = 1000.0
    layouts: list[tuple[int, tuple[Boundary, ...]]] = field(default_factory=list)
    ended: str | None = None
    log_end: int = 0
    since_start: list[i.Instruction] = field(default_factory=list)
    # Whether the controller at work has looked for foreign writers.
    looked: bool = False

    def carry_out(self, instruction: i.Instruction, growth: bool) -> e.Event | None:
        self.now += 0.01
        self.since_start.append(instruction)
        if isinstance(instruction, i.Pause):
            self.now += instruction.seconds
            return None
        if isinstance(instruction, i.Persist):
            assert self.change is not None
            self.change = instruction.change
            return None
        if isinstance(instruction, i.LookForForeign):
            self.looked = True
            return e.ForeignWriterSeen(self.now, "growth") if growth else e.NoForeignWriter(self.now)
        if isinstance(instruction, i.CreatePartitions):
            assert self.change is not None
            assert self.looked or self.change.force or not self.change.ordered_delivery
            self.partitions = max(self.partitions, instruction.total)
            self.reduced -= set(range(self.change.source, self.change.target))
            return e.PartitionsCreated(self.now)
        if isinstance(instruction, i.AwaitLeaders):
            assert self.partitions >= instruction.total
            return e.LeadersElected(self.now)
        if isinstance(instruction, i.FenceIdle):
            assert self.change is not None
            assert not self.change.closing, "writers wait while idle ones are fenced"
            return e.IdleFenced(self.now)
        return self._closed(instruction, growth)

    def _closed(self, instruction: i.Instruction, growth: bool) -> e.Event:
        assert self.change is not None
        if isinstance(instruction, i.ListTransactions):
            assert self.change.closing, "listed while writers could still begin under the old layout"
            return e.TransactionsListed(self.now, {"ordered:t:w:0": "Ongoing" if growth else "Empty"})
        if isinstance(instruction, i.Fence):
            return e.WritersFenced(self.now, len(instruction.transactional_ids))
        if isinstance(instruction, i.ReadBoundaries):
            assert self.partitions >= instruction.total
            return e.BoundariesRead(
                self.now, tuple(Boundary(self.log_end, 0) for _ in range(self.partitions))
            )
        if isinstance(instruction, i.CheckNothingGrew):
            if growth:
                self.log_end += 1
                return e.LogsGrew(self.now, {0: self.log_end})
            return e.NothingGrew(self.now)
        if isinstance(instruction, i.CommitLayout):
            self.layouts.append((instruction.change.target, instruction.boundaries))
            assert self.reduced.isdisjoint(range(instruction.change.target))
            self.change, self.ended = None, "done"
            return e.Committed(self.now)
        assert isinstance(instruction, i.RollBack)
        self.change, self.ended = None, instruction.ending.outcome
        return e.RolledBack(self.now)


def check_commit(world: World) -> None:
    """The commit just made followed the whole protocol, in the hands of one controller."""
    assert world.change is None
    count, boundaries = world.layouts[-1]
    assert len(boundaries) == world.partitions >= count
    tail = [type(one) for one in world.since_start[-len(PROTOCOL) :]]
    expected = PROTOCOL.copy()
    expected.insert(1, i.Persist)
    tail = [type(one) for one in world.since_start[-len(expected) :]]
    assert tail == expected
    reading = [one for one in world.since_start if isinstance(one, i.Persist)][-1]
    assert reading.change.step == "committing"


def run(world: World, mishaps: list[str]) -> str:
    """Carry the change out, with one mishap per instruction until they run out."""
    left = iter(mishaps)
    assert world.change is not None
    running, todo = machine.resume(world.change, world.now, TIMING)
    world.since_start.clear()
    for _ in range(2000):
        event: e.Event | None = None
        for instruction in todo:
            if isinstance(instruction, i.Finish):
                assert world.change is None
                return instruction.outcome
            mishap = next(left, "none")
            if mishap == "slow":
                world.now += 31.0
            if mishap in ("retriable", "fatal"):
                world.since_start.clear()
                code = ErrorCode.REQUEST_TIMED_OUT
                event = e.Failed(world.now, code, "injected", mishap == "retriable")
                break
            if mishap == "cancel" and machine.cancellable(running):
                world.change = replace(world.change, cancel_requested=True) if world.change else None
            if mishap != "crash before":
                event = world.carry_out(instruction, mishap == "growth")
                if isinstance(event, e.Committed):
                    check_commit(world)
            if mishap.startswith("crash"):
                if world.change is None:
                    return world.ended or ""
                world.since_start.clear()
                world.looked = False
                running, todo = machine.resume(world.change, world.now + 6.0, TIMING)
                event = None
                break
        else:
            assert event is not None
        if event is None:
            continue
        cancelled = world.change is not None and world.change.cancel_requested
        if cancelled and machine.cancellable(running):
            event = e.CancelRequested(world.now)
        running, todo = machine.advance(running, event, TIMING)
    raise AssertionError(f"the change does not end: {running.story}")


@st.composite
def changes(draw: st.DrawFn) -> tuple[Change, int]:
    source = draw(st.integers(1, 6))
    target = draw(st.integers(1, 6))
    same: Kind = draw(st.sampled_from(["order", "unorder"]))
    existing = draw(st.integers(source, 7))
    change = Change(
        id="c",
        topic="t",
        kind="expand" if target > source else "shrink" if target < source else same,
        source=source,
        target=target,
        existing=existing,
        started_at=1000.0,
        force=draw(st.booleans()),
    )
    return change, existing


@settings(max_examples=examples(400), deadline=None)
@given(changes(), st.lists(MISHAPS, max_size=25))
def test_every_change_ends_and_only_the_whole_protocol_commits(
    planned: tuple[Change, int], mishaps: list[str]
) -> None:
    change, existing = planned
    world = World(change, existing, set(range(change.source, existing)))
    outcome = run(world, mishaps)
    assert outcome == world.ended
    assert outcome in ("done", "cancelled", "failed")
    assert len(world.layouts) == (outcome == "done")
    if world.layouts:
        assert world.layouts[0][0] == change.target
    if not mishaps:
        assert outcome == "done"


EVENTS = st.one_of(
    [
        st.builds(kind, at)
        for at in [st.floats(1000, 1100)]
        for kind in (
            e.Started,
            e.NoForeignWriter,
            e.PartitionsCreated,
            e.LeadersElected,
            e.IdleFenced,
            e.NothingGrew,
            e.Committed,
            e.RolledBack,
            e.CancelRequested,
        )
    ]
    + [
        st.builds(e.TransactionsListed, st.floats(1000, 1100), st.just({"ordered:t:w:0": "Ongoing"})),
        st.builds(e.ForeignWriterSeen, st.floats(1000, 1100), st.just("somebody")),
        st.builds(e.WritersFenced, st.floats(1000, 1100), st.integers(0, 5)),
        st.builds(e.BoundariesRead, st.floats(1000, 1100), st.just((Boundary(1, 0),) * 7)),
        st.builds(e.LogsGrew, st.floats(1000, 1100), st.just({0: 2})),
        st.builds(
            e.Failed, st.floats(1000, 1100), st.just(ErrorCode.REQUEST_TIMED_OUT), st.just("x"), st.booleans()
        ),
    ]
)


@settings(max_examples=examples(400), deadline=None)
@given(changes(), st.lists(EVENTS, max_size=30))
def test_random_events_keep_the_invariants(planned: tuple[Change, int], happened: list[e.Event]) -> None:
    running, _ = machine.resume(planned[0], 1000.0, TIMING)
    for event in happened:
        before = running
        try:
            running, todo = machine.advance(running, event, TIMING)
        except TransitionError:
            continue
        check_state(before, running, todo)


def check_state(before: Running, running: Running, todo: tuple[i.Instruction, ...]) -> None:
    change = running.change
    assert todo
    assert change.step in STEPS
    assert replace(
        change, step="planned", closing_at=None, fenced=0, total_fences=0, cancel_requested=False
    ) == replace(
        before.change, step="planned", closing_at=None, fenced=0, total_fences=0, cancel_requested=False
    )
    assert (running.boundaries is not None) == (change.step == "committing")
    commits = [one for one in todo if isinstance(one, i.CommitLayout)]
    if commits:
        assert before.change.step == "committing"
        assert before.ending is None
    # Every answer ends with exactly one instruction that brings an event, or with the end.
    silent = (i.Persist, i.Pause)
    assert [isinstance(one, silent) for one in todo] == [True] * (len(todo) - 1) + [False]
    if before.ending is not None:
        assert running.ending == before.ending
        assert isinstance(todo[-1], (i.RollBack, i.Finish))
