"""The change machine against a model of Kafka and ZooKeeper that fails, crashes and is cancelled at random."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.client.schemas import ChangeKind
from spark_ordered_kafka.controller.change import machine
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.change.protocol import Boundary, Change
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.errors import ErrorCode, TransitionError
from tests.machine_checks import validate_change
from tests.seeds import examples

TIMING = Timing()
MISHAPS = st.sampled_from(
    ["none", "none", "none", "retriable", "fatal", "crash before", "crash after", "cancel", "growth", "slow"]
)
# What must have been carried out, in this order and by one controller without a failure in between, before a commit.
PROTOCOL = [
    p.ListTransactions,
    p.Persist,
    p.Fence,
    p.Persist,
    p.ReadBoundaries,
    p.Persist,
    p.CheckLogEnds,
    p.CommitLayout,
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
    since_start: list[p.Instruction] = field(default_factory=list)
    # Whether the controller at work has looked for foreign writers, since it last asked for partitions.
    looked: bool = False

    def carry_out(self, instruction: p.Instruction, growth: bool) -> p.Event | None:
        self.now += 0.01
        self.since_start.append(instruction)
        if isinstance(instruction, p.Pause):
            self.now += instruction.seconds
            return None
        if isinstance(instruction, p.Persist):
            assert self.change is not None
            if instruction.change.closing and not self.change.closing:
                assert self.looked or not self.change.refuses_foreign, (
                    "nobody looked since partitions were made"
                )
            self.change = instruction.change
            return None
        if isinstance(instruction, p.DetectForeignProducers):
            self.looked = True
            return (
                p.ForeignProducersDetected(self.now, "growth") if growth else p.NoForeignProducers(self.now)
            )
        if isinstance(instruction, p.CreatePartitions):
            assert self.change is not None
            assert self.looked or self.change.force or not self.change.ordered_delivery
            self.looked = False
            self.partitions = max(self.partitions, instruction.total)
            self.reduced -= set(range(self.change.source, self.change.target))
            return p.PartitionsCreated(self.now)
        if isinstance(instruction, p.AwaitLeaders):
            assert self.partitions >= instruction.total
            return p.LeadersElected(self.now)
        if isinstance(instruction, p.FenceIdle):
            assert self.change is not None
            assert not self.change.closing, "writers wait while idle ones are fenced"
            return p.IdleFenced(self.now)
        return self._closed(instruction, growth)

    def _closed(self, instruction: p.Instruction, growth: bool) -> p.Event:
        assert self.change is not None
        if isinstance(instruction, p.ListTransactions):
            assert self.change.closing, "listed while writers could still begin under the old layout"
            return p.TransactionsListed(self.now, {"ordered:t:w:0": "Ongoing" if growth else "Empty"})
        if isinstance(instruction, p.Fence):
            return p.WritersFenced(self.now, len(instruction.transactional_ids))
        if isinstance(instruction, p.ReadBoundaries):
            assert self.partitions >= instruction.total
            return p.BoundariesRead(
                self.now, tuple(Boundary(self.log_end, 0) for _ in range(self.partitions))
            )
        if isinstance(instruction, p.CheckLogEnds):
            if growth:
                self.log_end += 1
                return p.LogEndsChanged(self.now, {0: self.log_end})
            return p.LogEndsUnchanged(self.now)
        if isinstance(instruction, p.CommitLayout):
            self.layouts.append((instruction.change.target, instruction.boundaries))
            assert self.reduced.isdisjoint(range(instruction.change.target))
            self.change, self.ended = None, "done"
            return p.Committed(self.now)
        assert isinstance(instruction, p.RollBack)
        self.change, self.ended = None, instruction.ending.outcome
        return p.RolledBack(self.now)


def check_commit(world: World) -> None:
    """The commit just made followed the whole protocol, in the hands of one controller."""
    assert world.change is None
    count, boundaries = world.layouts[-1]
    assert len(boundaries) == world.partitions >= count
    assert [type(one) for one in world.since_start[-len(PROTOCOL) :]] == PROTOCOL
    reading = [one for one in world.since_start if isinstance(one, p.Persist)][-1]
    assert reading.change.step == "committing"


def run(world: World, mishaps: list[str]) -> str:
    """Carry the change out, with one mishap per instruction until they run out."""
    left = iter(mishaps)
    assert world.change is not None
    running, todo = machine.resume(world.change, world.now, TIMING)
    world.since_start.clear()
    for _ in range(2000):
        event: p.Event | None = None
        for instruction in todo:
            if isinstance(instruction, p.Finish):
                assert world.change is None
                return instruction.outcome
            mishap = next(left, "none")
            if mishap == "slow":
                world.now += 31.0
            if mishap in ("retriable", "fatal"):
                world.since_start.clear()
                code = ErrorCode.REQUEST_TIMED_OUT
                event = p.Failed(world.now, code, "injected", mishap == "retriable")
                break
            if mishap == "cancel" and machine.cancellable(running):
                world.change = replace(world.change, cancel_requested=True) if world.change else None
            if mishap != "crash before":
                event = world.carry_out(instruction, mishap == "growth")
                if isinstance(event, p.Committed):
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
            event = p.CancelRequested(world.now)
        before = running
        running, todo = machine.advance(running, event, TIMING)
        validate_change(before, running, todo)
    raise AssertionError(f"the change does not end: {running.story}")


@st.composite
def changes(draw: st.DrawFn) -> tuple[Change, int]:
    source = draw(st.integers(1, 6))
    target = draw(st.integers(1, 6))
    same: ChangeKind = draw(st.sampled_from(["order", "unorder"]))
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
            p.Started,
            p.NoForeignProducers,
            p.PartitionsCreated,
            p.LeadersElected,
            p.IdleFenced,
            p.LogEndsUnchanged,
            p.Committed,
            p.RolledBack,
            p.CancelRequested,
        )
    ]
    + [
        st.builds(p.TransactionsListed, st.floats(1000, 1100), st.just({"ordered:t:w:0": "Ongoing"})),
        st.builds(p.ForeignProducersDetected, st.floats(1000, 1100), st.just("somebody")),
        st.builds(p.WritersFenced, st.floats(1000, 1100), st.integers(0, 5)),
        st.builds(p.BoundariesRead, st.floats(1000, 1100), st.just((Boundary(1, 0),) * 7)),
        st.builds(p.LogEndsChanged, st.floats(1000, 1100), st.just({0: 2})),
        st.builds(
            p.Failed, st.floats(1000, 1100), st.just(ErrorCode.REQUEST_TIMED_OUT), st.just("x"), st.booleans()
        ),
    ]
)


@settings(max_examples=examples(400), deadline=None)
@given(changes(), st.lists(EVENTS, max_size=30))
def test_random_events_keep_the_invariants(planned: tuple[Change, int], happened: list[p.Event]) -> None:
    running, _ = machine.resume(planned[0], 1000.0, TIMING)
    for event in happened:
        before = running
        try:
            running, todo = machine.advance(running, event, TIMING)
        except TransitionError:
            continue
        validate_change(before, running, todo)
