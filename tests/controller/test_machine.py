"""The change machine, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_ordered_kafka.controller.change import events as e
from spark_ordered_kafka.controller.change import instructions as i
from spark_ordered_kafka.controller.change import machine, planning
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import Boundary, Change, Ending, Running
from spark_ordered_kafka.errors import ErrorCode, RequestError, TransitionError

TIMING = Timing(creating=60.0, closing=30.0, drain=2.0, backoff=0.05, retry=1.0)
EXPAND = Change(id="c1", topic="t", kind="expand", source=2, target=4, existing=2, started_at=100.0)
SHRINK = replace(EXPAND, kind="shrink", source=4, target=2, existing=4)
ENDS = (Boundary(7, 1), Boundary(0, 0), Boundary(3, 2), Boundary(9, 0))


def walk(running: Running, *happened: e.Event) -> machine.Answer:
    answer: machine.Answer = (running, ())
    for event in happened:
        answer = machine.advance(answer[0], event, TIMING)
    return answer


def closing(change: Change = EXPAND) -> Running:
    running, todo = machine.resume(change, 100.0, TIMING)
    if isinstance(todo[-1], i.LookForForeign):
        running, _ = walk(running, e.NoForeignWriter(100.5))
    if change.target > change.source:
        running, _ = walk(running, e.PartitionsCreated(101.0))
    running, todo = walk(running, e.LeadersElected(102.0))
    return walk(running, e.IdleFenced(102.0))[0] if isinstance(todo[0], i.FenceIdle) else running


def test_expansion_creates_closes_fences_reads_checks_and_commits() -> None:
    running, todo = machine.resume(EXPAND, 100.0, TIMING)
    assert todo == (i.LookForForeign(160.0),)
    running, todo = walk(running, e.NoForeignWriter(100.5))
    creating = replace(EXPAND, step="creating")
    assert todo == (i.Persist(creating), i.CreatePartitions(4, 160.0))
    running, todo = walk(running, e.PartitionsCreated(101.0))
    assert todo == (i.AwaitLeaders(4, 160.0),)
    running, todo = walk(running, e.LeadersElected(101.5))
    assert todo == (i.FenceIdle(30.0),)
    assert not running.change.closing
    running, todo = walk(running, e.IdleFenced(102.0))
    closed = replace(EXPAND, step="closing", closing_at=102.0)
    assert todo == (i.Persist(closed), i.ListTransactions(132.0))
    assert closed.closing
    running, todo = walk(running, e.TransactionsListed(102.1, {"b": "Empty", "a": "CompleteCommit"}))
    assert todo == (i.Persist(replace(closed, step="fencing", total_fences=2)), i.Fence(("a", "b"), 132.0))
    running, todo = walk(running, e.WritersFenced(102.2, 2))
    fenced = replace(closed, step="boundaries", total_fences=2, fenced=2)
    assert todo == (i.Persist(fenced), i.ReadBoundaries(4, 132.0))
    running, todo = walk(running, e.BoundariesRead(102.3, ENDS))
    committing = replace(fenced, step="committing")
    assert todo == (i.Persist(committing), i.CheckNothingGrew(ENDS, 132.0))
    assert not machine.cancellable(running)
    running, todo = walk(running, e.NothingGrew(102.4))
    assert todo == (i.CommitLayout(committing, ENDS),)
    running, todo = walk(running, e.Committed(102.5))
    assert todo == (i.Finish("done"),)


def test_shrink_creates_no_partitions_but_waits_for_leaders() -> None:
    running, todo = machine.resume(SHRINK, 100.0, TIMING)
    assert todo == (i.LookForForeign(160.0),)
    running, todo = walk(running, e.NoForeignWriter(100.5))
    assert todo == (i.AwaitLeaders(4, 160.0),)
    assert walk(running, e.LeadersElected(101.0), e.IdleFenced(101.5))[0].change.step == "closing"


@pytest.mark.parametrize("existing", [3, 5])
def test_expansion_into_removed_partitions_goes_through_creating_for_their_replicas(existing: int) -> None:
    change = replace(EXPAND, existing=existing, force=True)
    total = max(4, existing)
    running, todo = machine.resume(change, 100.0, TIMING)
    creating = replace(change, step="creating")
    assert todo == (i.Persist(creating), i.CreatePartitions(total, 160.0))
    assert walk(running, e.PartitionsCreated(101.0))[1] == (i.AwaitLeaders(total, 160.0),)
    # A controller that takes it up asks for the replicas again.
    assert machine.resume(creating, 300.0, TIMING)[1] == (
        i.Persist(creating),
        i.CreatePartitions(total, 360.0),
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
        assert todo == (i.LookForForeign(160.0),)
        running, todo = walk(running, e.NoForeignWriter(100.5))
    assert todo == (i.AwaitLeaders(4, 160.0),)
    running, todo = walk(running, e.LeadersElected(101.0), e.IdleFenced(101.5))
    assert running.change.closing
    assert isinstance(todo[-1], i.ListTransactions)
    happened = (e.TransactionsListed(102.1, {"a": "Empty"}), e.WritersFenced(102.2, 1))
    running, todo = walk(running, *happened, e.BoundariesRead(102.3, ENDS), e.NothingGrew(102.4))
    assert todo == (i.CommitLayout(running.change, ENDS),)


def test_growth_after_the_fence_does_not_keep_order_from_being_switched_off() -> None:
    off = replace(SHRINK, kind="unorder", target=4)
    happened = (e.TransactionsListed(102.1, {}), e.WritersFenced(102.2, 0), e.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(off), *happened)
    assert walk(running, e.LogsGrew(102.4, {2: 5}))[1] == (i.CommitLayout(running.change, ENDS),)
    running, _ = walk(closing(replace(off, kind="order")), *happened)
    assert isinstance(walk(running, e.LogsGrew(102.4, {2: 5}))[1][0], i.RollBack)


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
    running, todo = walk(running, e.BoundariesRead(103.0, ENDS))
    assert todo[-1] == i.CommitLayout(running.change, ENDS)
    assert machine.finished(running.change, Ending("done"), 104.0).writer_pause_seconds == 0.0


def test_open_transactions_are_drained_until_the_drain_time_is_over() -> None:
    running = closing()
    running, todo = walk(running, e.TransactionsListed(102.5, {"a": "Ongoing", "b": "Empty"}))
    assert todo == (i.Pause(0.05), i.ListTransactions(132.0))
    running, todo = walk(running, e.TransactionsListed(103.98, {"a": "Ongoing", "b": "Empty"}))
    assert isinstance(todo[0], i.Pause)
    assert todo[0].seconds == pytest.approx(0.02)
    running, todo = walk(running, e.TransactionsListed(104.0, {"a": "Ongoing", "b": "Empty"}))
    assert isinstance(todo[-1], i.Fence)


def test_a_writer_that_begins_again_is_not_waited_for() -> None:
    running, _ = walk(closing(), e.TransactionsListed(102.1, {"a": "Ongoing", "b": "Empty"}))
    running, todo = walk(
        running, e.TransactionsListed(102.2, {"a": "CompleteCommit", "b": "Ongoing", "c": "Ongoing"})
    )
    assert todo[-1] == i.Fence(("a", "b", "c"), 132.0)


@pytest.mark.parametrize(
    "event",
    [e.TransactionsListed(132.0, {}), e.Failed(132.0, ErrorCode.REQUEST_TIMED_OUT, "broker 1 is away", True)],
)
def test_closing_that_takes_too_long_is_taken_back(event: e.Event) -> None:
    running, todo = walk(closing(), event)
    assert isinstance(todo[0], i.RollBack)
    assert todo[0].ending.outcome == "failed"
    assert todo[0].ending.code == ErrorCode.REQUEST_TIMED_OUT
    assert "step closing" in (todo[0].ending.message or "")
    assert "30 s" in (todo[0].ending.message or "")
    assert walk(running, e.RolledBack(133.0))[1] == (i.Finish("failed"),)


def test_the_error_says_what_was_not_reached() -> None:
    _, todo = walk(closing(), e.Failed(140.0, ErrorCode.REQUEST_TIMED_OUT, "broker 1 is away", True))
    assert "broker 1 is away" in str(todo[0])


@pytest.mark.parametrize("step", ["closing", "fencing", "boundaries", "committing"])
def test_a_retriable_failure_while_closed_starts_the_listing_again(step: str) -> None:
    happened: list[e.Event] = [
        e.TransactionsListed(102.1, {"a": "Empty"}),
        e.WritersFenced(102.2, 1),
        e.BoundariesRead(102.3, ENDS),
    ]
    running, _ = walk(closing(), *happened[: ["closing", "fencing", "boundaries", "committing"].index(step)])
    assert running.change.step == step
    running, todo = walk(running, e.Failed(103.0, ErrorCode.REQUEST_TIMED_OUT, "later", True))
    assert running.boundaries is None
    assert [type(one) for one in todo] == [i.Pause, i.Persist, i.ListTransactions]


def test_a_failure_for_good_is_taken_back_with_its_error() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    _, todo = walk(running, e.Failed(100.5, ErrorCode.INVALID_PARTITIONS, "no", False))
    assert todo == (i.RollBack(EXPAND, Ending("failed", ErrorCode.INVALID_PARTITIONS, "no")),)


def test_a_foreign_writer_is_looked_for_before_anything_is_created() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    _, todo = walk(running, e.ForeignWriterSeen(100.5, "offset 7 of partition 1"))
    (back,) = todo
    assert isinstance(back, i.RollBack)
    assert back.change == EXPAND
    assert back.ending.code == ErrorCode.ACTIVE_FOREIGN_PRODUCERS
    assert "offset 7 of partition 1; stop that producer, or use force" in (back.ending.message or "")
    # Nor by the next controller.
    assert machine.resume(replace(EXPAND, step="creating"), 100.0, TIMING)[1] == (i.LookForForeign(160.0),)
    for careless in (replace(EXPAND, force=True), replace(EXPAND, ordered=False)):
        assert isinstance(machine.resume(careless, 100.0, TIMING)[1][-1], i.CreatePartitions)


def test_retries_do_not_extend_the_time_for_creating() -> None:
    running, _ = machine.resume(EXPAND, 100.0, TIMING)
    running, todo = walk(running, e.Failed(130.0, ErrorCode.REQUEST_TIMED_OUT, "away", True))
    assert todo[-1] == i.LookForForeign(160.0)
    assert walk(running, e.NoForeignWriter(130.5))[1][-1] == i.CreatePartitions(4, 160.0)
    _, todo = walk(running, e.Failed(160.0, ErrorCode.REQUEST_TIMED_OUT, "away", True))
    assert isinstance(todo[0], i.RollBack)


def test_growth_after_the_fence_names_partitions_and_offsets() -> None:
    happened = (e.TransactionsListed(102.1, {}), e.WritersFenced(102.2, 0), e.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(), *happened)
    _, todo = walk(running, e.LogsGrew(102.4, {2: 5, 0: 8}))
    assert isinstance(todo[0], i.RollBack)
    assert todo[0].ending.code == ErrorCode.ACTIVE_FOREIGN_PRODUCERS
    assert "0 (7 -> 8), 2 (3 -> 5)" in (todo[0].ending.message or "")


def test_growth_is_accepted_with_force() -> None:
    happened = (e.TransactionsListed(102.1, {}), e.WritersFenced(102.2, 0), e.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(replace(EXPAND, force=True)), *happened)
    _, todo = walk(running, e.LogsGrew(102.4, {2: 5}))
    assert todo == (i.CommitLayout(running.change, ENDS),)


def test_a_failed_take_back_is_tried_again() -> None:
    running, _ = walk(closing(), e.CancelRequested(103.0))
    _, todo = walk(running, e.Failed(104.0, ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper is away", True))
    assert [type(one) for one in todo] == [i.Pause, i.RollBack]


@pytest.mark.parametrize("step", ["closing", "fencing", "boundaries", "committing"])
def test_resume_after_closing_lists_and_fences_afresh_in_a_fresh_window(step: str) -> None:
    change = replace(EXPAND, step=step, closing_at=102.0, fenced=3)  # type: ignore[arg-type]
    running, todo = machine.resume(change, 500.0, TIMING)
    closed = replace(change, step="closing", fenced=0)
    assert todo == (i.Persist(closed), i.ListTransactions(530.0))
    assert running.change.closing_at == 102.0


@pytest.mark.parametrize("step", ["planned", "creating", "closing", "fencing", "boundaries", "committing"])
def test_resume_of_a_cancelled_change_takes_it_back(step: str) -> None:
    change = replace(EXPAND, step=step, cancel_requested=True)  # type: ignore[arg-type]
    assert machine.resume(change, 500.0, TIMING)[1] == (i.RollBack(change, Ending("cancelled")),)


def test_an_event_without_a_row_tells_the_story() -> None:
    running = closing()
    with pytest.raises(TransitionError, match="c1") as raised:
        machine.advance(running, e.Committed(103.0), TIMING)
    for part in ("'t'", "Committed", "at step closing", "PartitionsCreated at creating"):
        assert part in str(raised.value)


def test_nothing_can_be_cancelled_once_boundaries_are_read() -> None:
    happened = (e.TransactionsListed(102.1, {}), e.WritersFenced(102.2, 0), e.BoundariesRead(102.3, ENDS))
    running, _ = walk(closing(), *happened)
    with pytest.raises(TransitionError):
        machine.advance(running, e.CancelRequested(103.0), TIMING)


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
