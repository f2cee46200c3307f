"""The change machine, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_ordered_kafka.controller.change import machine, planning
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.change.protocol import Boundary, Change, Ending, Running
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.errors import ErrorCode, RequestError, TransitionError
from tests.machine_checks import validate_change

TIMING = Timing(creating=60.0, closing=30.0, drain=2.0, backoff=0.05, retry=1.0)
EXPAND = Change(id="c1", topic="t", kind="expand", source=2, target=4, existing=2, started_at=100.0)
SHRINK = replace(EXPAND, kind="shrink", source=4, target=2, existing=4)
ENDS = (Boundary(7, 1), Boundary(0, 0), Boundary(3, 2), Boundary(9, 0))


def walk(running: Running, *happened: p.Event) -> machine.Answer:
    answer: machine.Answer = (running, ())
    for event in happened:
        before = answer[0]
        answer = machine.advance(before, event, TIMING)
        validate_change(before, *answer)
    return answer


def closing(change: Change = EXPAND) -> Running:
    running, todo = machine.resume(change, 100.0, TIMING)
    if isinstance(todo[-1], p.DetectForeignProducers):
        running, _ = walk(running, p.NoForeignProducers(100.5))
    if change.target > change.source:
        running, _ = walk(running, p.PartitionsCreated(101.0))
    running, todo = walk(running, p.LeadersElected(102.0))
    if isinstance(todo[0], p.FenceIdle):
        running, todo = walk(running, p.IdleFenced(102.0))
    return (
        walk(running, p.NoForeignProducers(102.0))[0]
        if isinstance(todo[0], p.DetectForeignProducers)
        else running
    )


def test_expansion_creates_closes_fences_reads_checks_and_commits() -> None:
    running, todo = machine.resume(EXPAND, 100.0, TIMING)
    assert todo == (p.DetectForeignProducers(160.0),)
    running, todo = walk(running, p.NoForeignProducers(100.5))
    creating = replace(EXPAND, step="creating")
    assert todo == (p.Persist(creating), p.CreatePartitions(4, 160.0))
    running, todo = walk(running, p.PartitionsCreated(101.0))
    assert todo == (p.AwaitLeaders(4, 160.0),)
    running, todo = walk(running, p.LeadersElected(101.5))
    assert todo == (p.FenceIdle(30.0),)
    assert not running.change.closing
    running, todo = walk(running, p.IdleFenced(101.8))
    assert todo == (p.DetectForeignProducers(161.8),)
    assert not running.change.closing
    running, todo = walk(running, p.NoForeignProducers(102.0))
    closed = replace(EXPAND, step="closing", closing_at=102.0)
    assert todo == (p.Persist(closed), p.ListTransactions(132.0))
    assert closed.closing
    running, todo = walk(running, p.TransactionsListed(102.1, {"b": "Empty", "a": "CompleteCommit"}))
    assert todo == (p.Persist(replace(closed, step="fencing", total_fences=2)), p.Fence(("a", "b"), 132.0))
    running, todo = walk(running, p.WritersFenced(102.2, 2))
    fenced = replace(closed, step="boundaries", total_fences=2, fenced=2)
    assert todo == (p.Persist(fenced), p.ReadBoundaries(4, 132.0))
    running, todo = walk(running, p.BoundariesRead(102.3, ENDS))
    committing = replace(fenced, step="committing")
    assert todo == (p.Persist(committing), p.CheckLogEnds(ENDS, 132.0))
    assert not machine.cancellable(running)
    running, todo = walk(running, p.LogEndsUnchanged(102.4))
    assert todo == (p.CommitLayout(committing, ENDS),)
    running, todo = walk(running, p.Committed(102.5))
    assert todo == (p.Finish("done"),)


def test_shrink_creates_no_partitions_but_waits_for_leaders() -> None:
    running, todo = machine.resume(SHRINK, 100.0, TIMING)
    assert todo == (p.DetectForeignProducers(160.0),)
    running, todo = walk(running, p.NoForeignProducers(100.5))
    assert todo == (p.AwaitLeaders(4, 160.0),)
    assert walk(running, p.LeadersElected(101.0), p.IdleFenced(101.5))[0].change.step == "closing"


@pytest.mark.parametrize("existing", [3, 5])
def test_expansion_into_removed_partitions_goes_through_creating_for_their_replicas(existing: int) -> None:
    change = replace(EXPAND, existing=existing, force=True)
    total = max(4, existing)
    running, todo = machine.resume(change, 100.0, TIMING)
    creating = replace(change, step="creating")
    assert todo == (p.Persist(creating), p.CreatePartitions(total, 160.0))
    assert walk(running, p.PartitionsCreated(101.0))[1] == (p.AwaitLeaders(total, 160.0),)
    # A controller that takes it up asks for the replicas again.
    assert machine.resume(creating, 300.0, TIMING)[1] == (
        p.Persist(creating),
        p.CreatePartitions(total, 360.0),
    )


@pytest.mark.parametrize(("ordered_delivery", "kind"), [(True, "order"), (False, "unorder")])
def test_switching_ordered_delivery_holds_and_fences_writers(ordered_delivery: bool, kind: str) -> None:
    change = planning.plan_order(
        "t",
        change_id="c1",
        ordered_delivery=ordered_delivery,
        count=3,
        existing=4,
        force=False,
        pending=None,
        now=100.0,
    )
    assert (change.kind, change.source, change.target) == (kind, 3, 3)
    assert change.ordered_delivery == ordered_delivery
    running, todo = machine.resume(change, 100.0, TIMING)
    if ordered_delivery:
        assert todo == (p.DetectForeignProducers(160.0),)
        running, todo = walk(running, p.NoForeignProducers(100.5))
    assert todo == (p.AwaitLeaders(4, 160.0),)
    running, todo = walk(running, p.LeadersElected(101.0), p.IdleFenced(101.5))
    assert running.change.closing
    assert isinstance(todo[-1], p.ListTransactions)
    happened = (p.TransactionsListed(102.1, {"a": "Empty"}), p.WritersFenced(102.2, 1))
    running, todo = walk(running, *happened, p.BoundariesRead(102.3, ENDS), p.LogEndsUnchanged(102.4))
    assert todo == (p.CommitLayout(running.change, ENDS),)


def test_growth_after_the_fence_does_not_keep_order_from_being_switched_off() -> None:
    off = replace(SHRINK, kind="unorder", target=4)
    happened = (p.TransactionsListed(102.1, {}), p.WritersFenced(102.2, 0), p.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(off), *happened)
    assert walk(running, p.LogEndsChanged(102.4, {2: 5}))[1] == (p.CommitLayout(running.change, ENDS),)
    running, _ = walk(closing(replace(off, kind="order")), *happened)
    assert isinstance(walk(running, p.LogEndsChanged(102.4, {2: 5}))[1][0], p.RollBack)


def test_a_second_change_is_told_what_the_first_one_does() -> None:
    for pending, words in [
        (EXPAND, "is changing from 2 to 4 partitions"),
        (replace(EXPAND, kind="unorder", target=2), "is switching ordered delivery off"),
    ]:
        with pytest.raises(RequestError, match=words) as raised:
            planning.plan_order(
                "t",
                change_id="x",
                ordered_delivery=True,
                count=2,
                existing=2,
                force=False,
                pending=pending,
                now=0.0,
            )
        assert raised.value.code == ErrorCode.PARTITION_CHANGE_IN_PROGRESS


def test_unordered_topic_is_changed_without_holding_or_fencing_writers() -> None:
    running = closing(replace(SHRINK, ordered=False))
    assert running.change.step == "boundaries"
    assert not running.change.closing
    assert not running.change.ordered_delivery
    running, todo = walk(running, p.BoundariesRead(103.0, ENDS))
    assert todo[-1] == p.CommitLayout(running.change, ENDS)
    assert machine.finished(running.change, Ending("done"), 104.0).writer_pause_seconds == 0.0


def test_open_transactions_are_drained_until_the_drain_time_is_over() -> None:
    running = closing()
    running, todo = walk(running, p.TransactionsListed(102.5, {"a": "Ongoing", "b": "Empty"}))
    assert todo == (p.Pause(0.05), p.ListTransactions(132.0))
    running, todo = walk(running, p.TransactionsListed(103.98, {"a": "Ongoing", "b": "Empty"}))
    assert isinstance(todo[0], p.Pause)
    assert todo[0].seconds == pytest.approx(0.02)
    running, todo = walk(running, p.TransactionsListed(104.0, {"a": "Ongoing", "b": "Empty"}))
    assert isinstance(todo[-1], p.Fence)


def test_a_writer_that_begins_again_is_not_waited_for() -> None:
    running, _ = walk(closing(), p.TransactionsListed(102.1, {"a": "Ongoing", "b": "Empty"}))
    running, todo = walk(
        running, p.TransactionsListed(102.2, {"a": "CompleteCommit", "b": "Ongoing", "c": "Ongoing"})
    )
    assert todo[-1] == p.Fence(("a", "b", "c"), 132.0)


@pytest.mark.parametrize(
    "event",
    [p.TransactionsListed(132.0, {}), p.Failed(132.0, ErrorCode.REQUEST_TIMED_OUT, "broker 1 is away", True)],
)
def test_closing_that_takes_too_long_is_taken_back(event: p.Event) -> None:
    running, todo = walk(closing(), event)
    assert isinstance(todo[0], p.RollBack)
    assert todo[0].ending.outcome == "failed"
    assert todo[0].ending.code == ErrorCode.REQUEST_TIMED_OUT
    assert "step closing" in (todo[0].ending.message or "")
    assert "30 s" in (todo[0].ending.message or "")
    assert walk(running, p.RolledBack(133.0))[1] == (p.Finish("failed"),)


def test_the_error_says_what_was_not_reached() -> None:
    _, todo = walk(closing(), p.Failed(140.0, ErrorCode.REQUEST_TIMED_OUT, "broker 1 is away", True))
    assert "broker 1 is away" in str(todo[0])


@pytest.mark.parametrize("step", ["closing", "fencing", "boundaries", "committing"])
def test_a_retriable_failure_while_closed_starts_the_listing_again(step: str) -> None:
    happened: list[p.Event] = [
        p.TransactionsListed(102.1, {"a": "Empty"}),
        p.WritersFenced(102.2, 1),
        p.BoundariesRead(102.3, ENDS),
    ]
    running, _ = walk(closing(), *happened[: ["closing", "fencing", "boundaries", "committing"].index(step)])
    assert running.change.step == step
    running, todo = walk(running, p.Failed(103.0, ErrorCode.REQUEST_TIMED_OUT, "later", True))
    assert running.boundaries is None
    assert [type(one) for one in todo] == [p.Pause, p.Persist, p.ListTransactions]


def test_a_failure_for_good_is_taken_back_with_its_error() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    _, todo = walk(running, p.Failed(100.5, ErrorCode.INVALID_PARTITIONS, "no", False))
    assert todo == (p.RollBack(EXPAND, Ending("failed", ErrorCode.INVALID_PARTITIONS, "no")),)


def test_a_foreign_writer_is_looked_for_before_anything_is_created() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    _, todo = walk(running, p.ForeignProducersDetected(100.5, "offset 7 of partition 1"))
    (back,) = todo
    assert isinstance(back, p.RollBack)
    assert back.change == EXPAND
    assert back.ending.code == ErrorCode.ACTIVE_FOREIGN_PRODUCERS
    assert "offset 7 of partition 1; stop that producer, or use force" in (back.ending.message or "")
    # Nor by the next controller.
    assert machine.resume(replace(EXPAND, step="creating"), 100.0, TIMING)[1] == (
        p.DetectForeignProducers(160.0),
    )
    for careless in (replace(EXPAND, force=True), replace(EXPAND, ordered=False)):
        assert isinstance(machine.resume(careless, 100.0, TIMING)[1][-1], p.CreatePartitions)


def test_a_foreign_writer_that_began_while_partitions_were_made_is_seen_before_writers_are_held() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    happened = (p.NoForeignProducers(100.5), p.PartitionsCreated(101.0), p.LeadersElected(102.0))
    # However long the fence took, there is time to look.
    running, todo = walk(running, *happened, p.IdleFenced(900.0))
    assert todo == (p.DetectForeignProducers(960.0),)
    _, (back,) = walk(running, p.ForeignProducersDetected(900.5, "offset 7 of partition 1"))
    assert isinstance(back, p.RollBack)
    assert back.ending.code == ErrorCode.ACTIVE_FOREIGN_PRODUCERS
    assert not back.change.closing
    # A broker that is away does not make it fence once more, nor try for ever.
    away = p.Failed(930.0, ErrorCode.REQUEST_TIMED_OUT, "away", True)
    running, todo = walk(running, away)
    assert todo == (p.Pause(TIMING.retry), p.DetectForeignProducers(960.0))
    assert isinstance(walk(running, replace(away, at=960.0))[1][0], p.RollBack)


def test_retries_do_not_extend_the_time_for_creating() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    running, todo = walk(running, p.Failed(130.0, ErrorCode.REQUEST_TIMED_OUT, "away", True))
    assert todo[-1] == p.DetectForeignProducers(160.0)
    assert walk(running, p.NoForeignProducers(130.5))[1][-1] == p.CreatePartitions(4, 160.0)
    _, todo = walk(running, p.Failed(160.0, ErrorCode.REQUEST_TIMED_OUT, "away", True))
    assert isinstance(todo[0], p.RollBack)


def test_growth_after_the_fence_names_partitions_and_offsets() -> None:
    happened = (p.TransactionsListed(102.1, {}), p.WritersFenced(102.2, 0), p.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(), *happened)
    _, todo = walk(running, p.LogEndsChanged(102.4, {2: 5, 0: 8}))
    assert isinstance(todo[0], p.RollBack)
    assert todo[0].ending.code == ErrorCode.ACTIVE_FOREIGN_PRODUCERS
    assert "0 (7 -> 8), 2 (3 -> 5)" in (todo[0].ending.message or "")


def test_growth_is_accepted_with_force() -> None:
    happened = (p.TransactionsListed(102.1, {}), p.WritersFenced(102.2, 0), p.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(replace(EXPAND, force=True)), *happened)
    _, todo = walk(running, p.LogEndsChanged(102.4, {2: 5}))
    assert todo == (p.CommitLayout(running.change, ENDS),)


def test_a_failed_take_back_is_tried_again() -> None:
    running, _ = walk(closing(), p.CancelRequested(103.0))
    _, todo = walk(running, p.Failed(104.0, ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper is away", True))
    assert [type(one) for one in todo] == [p.Pause, p.RollBack]


@pytest.mark.parametrize("step", ["closing", "fencing", "boundaries", "committing"])
def test_resume_after_closing_lists_and_fences_afresh_in_a_fresh_window(step: str) -> None:
    change = replace(EXPAND, step=step, closing_at=102.0, fenced=3)  # type: ignore[arg-type]
    running, todo = machine.resume(change, 500.0, TIMING)
    closed = replace(change, step="closing", fenced=0)
    assert todo == (p.Persist(closed), p.ListTransactions(530.0))
    assert running.change.closing_at == 102.0


@pytest.mark.parametrize("step", ["planned", "creating", "closing", "fencing", "boundaries", "committing"])
def test_resume_of_a_cancelled_change_takes_it_back(step: str) -> None:
    change = replace(EXPAND, step=step, cancel_requested=True)  # type: ignore[arg-type]
    assert machine.resume(change, 500.0, TIMING)[1] == (p.RollBack(change, Ending("cancelled")),)


def test_an_event_without_a_row_tells_the_story() -> None:
    running = closing()
    with pytest.raises(TransitionError, match="c1") as raised:
        machine.advance(running, p.Committed(103.0), TIMING)
    for part in ("'t'", "Committed", "at step closing", "PartitionsCreated at creating"):
        assert part in str(raised.value)


def test_nothing_can_be_cancelled_once_boundaries_are_read() -> None:
    happened = (p.TransactionsListed(102.1, {}), p.WritersFenced(102.2, 0), p.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(), *happened)
    with pytest.raises(TransitionError):
        machine.advance(running, p.CancelRequested(103.0), TIMING)


@pytest.mark.parametrize(
    ("target", "pending", "code", "words"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS, "value 1: it cannot go below the initial partition count 2"),
        (0, None, ErrorCode.INVALID_PARTITIONS, "value 0"),
        (-3, None, ErrorCode.INVALID_PARTITIONS, "value -3"),
        (4, None, ErrorCode.INVALID_PARTITIONS, "nothing is to be changed"),
        (5, EXPAND, ErrorCode.PARTITION_CHANGE_IN_PROGRESS, "change c1, step planned"),
    ],
)
def test_plan_refuses(target: int, pending: Change | None, code: ErrorCode, words: str) -> None:
    with pytest.raises(RequestError, match=words) as raised:
        planning.plan_count(
            "t",
            change_id="x",
            target=target,
            source=4,
            initial=2,
            existing=4,
            ordered=True,
            force=False,
            pending=pending,
            now=0.0,
        )
    assert raised.value.code == code


def test_writer_pause_runs_from_the_first_closing_to_the_end() -> None:
    change = replace(EXPAND, step="committing", closing_at=102.0, fenced=3)
    done = machine.finished(change, Ending("done"), 102.5)
    assert (done.writer_pause_seconds, done.fenced, done.outcome) == (0.5, 3, "done")
    assert machine.finished(EXPAND, Ending("cancelled"), 103.0).writer_pause_seconds == 0.0
