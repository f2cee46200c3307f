"""Reassignments carried out on three brokers with two log directories each, bytes in motion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from spark_ordered_kafka.checker import check
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionReassignment, ReassignmentRequest
from spark_ordered_kafka.controller.settings import ReassignSettings
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.integration.driven import await_more
from tests.integration.reassigning import PACE, SIZE, Judge, Mover, Row, cleaned, outcomes
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import NumberedWriter, create, raw_records


@pytest.fixture(scope="module")
def mover(three_brokers: LocalCluster) -> Iterator[Mover]:
    with in_process(three_brokers) as controller, cleaned(Mover(controller)) as mover:
        yield mover


def test_partitions_move_and_their_preferred_leaders_lead(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], [2, 1], size=500_000)
    request = mover.submit(Row(topic, 0, [3, 2]), Row(topic, 1, [2, 3]))
    view = mover.ended(request)
    assert (view.state, view.done, view.waiting, view.moving) == ("done", 2, 0, 0)
    assert outcomes(view) == {(0, 3): "NONE", (1, 3): "NONE"}
    for row in view.replicas:
        assert row.numerator == row.denominator >= 500_000
    assert (view.numerator, view.eta_seconds) == (view.denominator, 0.0)
    judge.await_replicas(topic, [(3, 2), (2, 3)])
    await_true(lambda: judge.in_sync(topic) == [{2, 3}, {2, 3}], "all replicas are in sync")
    await_true(lambda: judge.leaders(topic) == [3, 2], "preferred leaders")


@pytest.mark.long
def test_progress_of_what_is_on_its_way_has_bytes_rate_and_time(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], [1], size=SIZE)
    request = mover.submit(Row(topic, 0, [2]), Row(topic, 1, [3]), throttle=PACE)
    view = mover.moving(request)
    assert {row.error for row in view.replicas} == {"REASSIGNMENT_IN_PROGRESS"}
    assert all(row.denominator >= SIZE for row in view.replicas)
    assert view.denominator == sum(row.denominator for row in view.replicas)
    assert (view.state, view.complete, view.moving) == ("running", False, 2)
    mover.until(request, lambda v: v.rate > 0 and (v.eta_seconds or 0) > 1, "a rate, and a time")
    (listed,) = [row for row in mover.controller.service.reassigner.summaries() if row.request_id == request]
    assert listed.moving == 2
    mover.throttle(request, throttle=None)
    assert mover.ended(request).state == "done"
    judge.await_replicas(topic, [(2,), (3,)])


def test_the_replication_factor_goes_up_and_down(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], size=500_000)
    more = {"allow_replication_factor_change": True}
    view = mover.ended(mover.submit(Row(topic, 0, [2, 1, 3]), **more))
    assert outcomes(view) == {(0, 2): "NONE", (0, 3): "NONE"}
    judge.await_replicas(topic, [(2, 1, 3)])
    view = mover.ended(mover.submit(Row(topic, 0, [3]), **more))
    assert [(row.broker, row.numerator, row.denominator) for row in view.replicas] == [(3, 1, 1)]
    judge.await_replicas(topic, [(3,)])
    await_true(lambda: judge.leaders(topic) == [3], "the leader that is left")


def test_another_order_alone_copies_nothing_and_moves_the_leader(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], size=50_000)
    view = mover.ended(mover.submit(Row(topic, 0, [2, 1])))
    assert [(row.broker, row.numerator, row.denominator) for row in view.replicas] == [(2, 1, 1)]
    judge.await_replicas(topic, [(2, 1)])
    await_true(lambda: judge.leaders(topic) == [2], "the new preferred leader")


def test_leaders_stay_where_nobody_asked_for_an_election(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], size=50_000)
    mover.ended(mover.submit(Row(topic, 0, [2, 1]), elect_leaders=False))
    judge.await_replicas(topic, [(2, 1)])
    assert judge.leaders(topic) == [1]


def test_a_new_replica_is_made_in_its_log_directory(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1], [1], size=500_000)
    first, second = judge.paths(2)
    rows = [Row(topic, 0, [2], [first]), Row(topic, 1, [2], [second])]
    view = mover.ended(mover.submit(*rows))
    assert {(row.partition, row.log_dir): row.error for row in view.replicas} == {
        (0, first): "NONE",
        (1, second): "NONE",
    }
    assert judge.where(topic, 0, 2) == (first, None)
    assert judge.where(topic, 1, 2) == (second, None)


def test_replicas_move_between_log_directories_alone(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], size=SIZE)
    targets = {broker: judge.other(topic, 0, broker) for broker in (1, 2)}
    row = Row(topic, 0, [1, 2], [targets[1], targets[2]])
    request = mover.submit(row, replica_alter_log_dirs_throttle=PACE)
    view = mover.moving(request)
    assert outcomes(view) == dict.fromkeys([(0, 1), (0, 2)], "REASSIGNMENT_IN_PROGRESS")
    mover.throttle(request, replica_alter_log_dirs_throttle=None)
    view = mover.ended(request)
    assert (view.state, outcomes(view)) == ("done", {(0, 1): "NONE", (0, 2): "NONE"})
    assert all(row.numerator == row.denominator >= SIZE for row in view.replicas)
    assert {broker: judge.where(topic, 0, broker) for broker in (1, 2)} == {
        broker: (path, None) for broker, path in targets.items()
    }


def test_a_move_with_a_log_directory_of_a_replica_that_stays(mover: Mover, judge: Judge) -> None:
    topic = judge.create([1, 2], size=500_000)
    staying, arriving = judge.other(topic, 0, 1), judge.paths(3)[1]
    view = mover.ended(mover.submit(Row(topic, 0, [1, 3], [staying, arriving])))
    assert outcomes(view) == {(0, 1): "NONE", (0, 3): "NONE"}
    judge.await_replicas(topic, [(1, 3)])
    assert judge.where(topic, 0, 1) == (staying, None)
    assert judge.where(topic, 0, 3) == (arriving, None)


@pytest.mark.long
def test_more_partitions_than_may_move_at_once_follow_each_other(
    three_brokers: LocalCluster, judge: Judge
) -> None:
    few = ReassignSettings(max_moves_per_broker=2, max_moves=3)
    topic = judge.create(*[[1]] * 5, size=SIZE)
    with in_process(three_brokers, reassign=few) as controller:
        mover = Mover(controller)
        request = mover.submit(*[Row(topic, p, [2 + p % 2]) for p in range(5)], throttle=PACE)
        view = mover.moving(request)
        assert view.waiting >= 2
        assert view.moving <= 2, "of one source"
        assert len(judge.ongoing(topic)) <= 2
        mover.throttle(request, throttle=None)
        view = mover.ended(request)
        assert view.done == 5
    judge.await_replicas(topic, [(2 + p % 2,) for p in range(5)])


def test_a_request_that_has_ended_is_forgotten_after_its_retention(
    three_brokers: LocalCluster, judge: Judge
) -> None:
    topic, chroot = judge.create([1, 2]), unique_name("forgetting")
    with in_process(three_brokers, chroot=chroot) as controller:
        request = Mover(controller).submit(Row(topic, 0, [2, 1]))
        assert Mover(controller).ended(request).state == "done"
    with in_process(
        three_brokers, chroot=chroot, reassign=ReassignSettings(status_retention=1.0)
    ) as controller:

        def gone() -> bool:
            answer = controller.http.get(f"/v1/reassignments/{request}")
            return (answer.status_code, answer.json().get("error")) == (400, "INVALID_REQUEST")

        await_true(gone, "the end of the retention", TIMEOUT)
        # Who knows the id of the first one must not see another under it.
        assert Mover(controller).submit(Row(topic, 0, [1, 2])) > request


def test_the_end_is_audited_and_counted(mover: Mover, judge: Judge, caplog: pytest.LogCaptureFixture) -> None:
    topic = judge.create([1], size=100_000)
    controller: InProcess = mover.controller
    with caplog.at_level("INFO", logger="spark_ordered_kafka.audit"):
        request = mover.submit(Row(topic, 0, [2]))

        def audited() -> list[dict[str, Any]]:
            messages = [one.getMessage() for one in caplog.records if one.name == "spark_ordered_kafka.audit"]
            lines = [line for line in map(json.loads, messages) if line["event"] == "ended"]
            return [line for line in lines if line["reassignment"] == request]

        # A request has ended a moment before it is audited.
        await_true(lambda: bool(audited()), "the end is audited")
        (line,) = audited()
    assert (line["outcome"], line["done"], line["failed"], line["cancelled"]) == ("done", 1, 0, 0)
    assert line["bytes"] >= 100_000
    figures = controller.http.get("/metrics").text
    assert 'ordered_kafka_reassignment_moves_total{outcome="done"}' in figures
    assert 'ordered_kafka_reassignment_duration_seconds_count{outcome="done"}' in figures


def test_records_that_are_written_meanwhile_come_once_and_in_order(
    three_brokers: LocalCluster, judge: Judge
) -> None:
    topic = create(three_brokers, unique_name("written"), 4)
    homes = judge.first_replicas(topic, 4)
    writer = NumberedWriter(three_brokers, topic)
    with ControllerClient(three_brokers.controller_url) as controller, writer.under_load():
        for turn in (1, 2):
            await_more(writer)
            rows = [
                PartitionReassignment(topic=topic, partition=p, replicas=[(home - 1 + turn) % 3 + 1, home])
                for p, home in enumerate(homes)
            ]
            result = controller.reassign(
                ReassignmentRequest(partitions=rows, additional=True, allow_replication_factor_change=True)
            )
            assert result.request_id is not None, result
            ended = partial(_has_ended, controller, result.request_id)
            await_true(ended, f"the end of request {result.request_id}", 4 * TIMEOUT)
            assert controller.reassignment(result.request_id).state == "done"
            await_more(writer)
    judge.await_replicas(topic, [((home + 1) % 3 + 1, home) for home in homes])
    await_stable(three_brokers, topic)
    values = [message.value() or b"" for message in raw_records(three_brokers, topic, 4)]
    records = [value.decode().split(":") for value in values]
    report = check(
        np.array([key for key, _ in records]),
        np.array([int(number) for _, number in records]),
        writer.written,
    )
    assert (report.violations, report.records) == (0, writer.written), report


def _has_ended(controller: ControllerClient, request_id: int) -> bool:
    return controller.reassignment(request_id).complete
