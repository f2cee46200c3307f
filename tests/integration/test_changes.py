"""Partition changes on real servers: with live writers, cancelled, refused, taken back, and through crashes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import Hold, InProcess, in_process
from tests.integration.live_writer import check_epochs, live_writers
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import create


def test_growing_and_shrinking_record_every_layout(controller: InProcess) -> None:
    topic = controller.create(2)
    for count in (5, 3, 4, 2, 7):
        assert controller.alter(topic, count).error == "NONE"
    view = controller.topic(topic)
    assert (view.undeleted_partition_count, view.layout_epoch, view.change) == (7, 5, None)
    assert [p.status for p in view.partitions] == ["live"] * 7
    layouts = controller.layout(topic).layouts
    assert [one.undeleted_partition_count for one in layouts] == [2, 5, 3, 4, 2, 7]
    assert [len(one.starts) for one in layouts] == [2, 5, 5, 5, 5, 7]
    newer = controller.http.get(f"/v1/topics/{topic}/layout", params={"from_epoch": 4}).json()["layouts"]
    assert [one["epoch"] for one in newer] == [4, 5]
    assert controller.http.get(f"/v1/topics/{topic}/layout", params={"from_epoch": 6}).json()["layouts"] == []


def test_a_change_of_a_layout_that_is_gone_is_refused(controller: InProcess) -> None:
    """What was to be growth from 2 to 3 would be a shrink meanwhile; the same request sent again is no second one."""
    topic = controller.create(2)

    def asked(count: int, epoch: int, *, key: str = "", validate_only: bool = False) -> dict[str, str | None]:
        row = {"topic": topic, "partition_count": count, "layout_epoch": epoch}
        headers = {"Idempotency-Key": key} if key else {}
        answer = controller.http.post(
            "/v1/partition-counts",
            json={"topics": [row], "validate_only": validate_only},
            headers=headers,
            params={} if validate_only else {"wait": TIMEOUT},
        )
        assert answer.status_code == 200, answer.text
        (found,) = answer.json()["topics"]
        return dict(found)

    key = unique_name("key")
    first = asked(4, 0, key=key)
    assert first["error"] == "NONE"
    assert asked(4, 0, key=key)["change_id"] == first["change_id"]
    for validate_only in (True, False):
        found = asked(3, 0, validate_only=validate_only)
        assert (found["error"], found["change_id"]) == ("INVALID_REQUEST", None)
        assert "was changed meanwhile: it has layout epoch 1 and 4 partitions now" in str(
            found["error_message"]
        )
    assert controller.topic(topic).undeleted_partition_count == 4
    assert asked(3, 1)["error"] == "NONE"
    assert controller.topic(topic).undeleted_partition_count == 3


def test_removed_partitions_are_marked_and_taken_up_again(kafka_cluster: LocalCluster) -> None:
    # Empty ones are deleted as soon as the controller looks.
    with in_process(kafka_cluster, retire_interval=600.0) as controller:
        topic = controller.create(1)
        statuses = []
        for count in (4, 2, 3):
            assert controller.alter(topic, count).error == "NONE"
            statuses.append([p.status for p in controller.topic(topic).partitions])
    assert statuses == [["live"] * 4, ["live"] * 2 + ["marked"] * 2, ["live"] * 3 + ["marked"]]


def test_boundaries_are_the_log_ends(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    for partition, records in ((0, 5), (1, 2)):
        for _ in range(records):
            producer.produce(topic, b"v", partition=partition)
    assert producer.flush(TIMEOUT) == 0
    assert controller.alter(topic, 3).error == "NONE"
    assert controller.layout(topic).layouts[1].starts == [5, 2, 0]


def test_live_writers_through_changes(cluster: LocalCluster) -> None:
    topic = unique_name("live")
    with ControllerClient(cluster.controller_url) as client:
        create(cluster, topic, 2)
        with live_writers(cluster.bootstrap_servers, cluster.controller_url, topic) as writers:
            for count in (4, 8, 3, 6, 2):
                request = PartitionCountsRequest(
                    topics=[TopicPartitionCount(topic=topic, partition_count=count)]
                )
                began = time.monotonic()
                (result,) = client.alter_partition_counts(request, wait=TIMEOUT).topics
                assert result.error == "NONE", result
                took = time.monotonic() - began
                for writer in writers:
                    writer.await_commits(3)
            last = client.change(topic).last_change
        assert last is not None
        assert last.fenced == 2
        assert 0 < last.writer_pause_seconds <= took
        assert all(writer.fenced >= 5 for writer in writers)
        assert check_epochs(cluster.bootstrap_servers, client.layout(topic)) > 0


def test_writers_wait_only_while_a_change_is_closing(controller: InProcess) -> None:
    topic = controller.create(2)
    layout = f"/v1/topics/{topic}/layout"
    with Hold(p.AwaitLeaders) as creating, Hold(p.ListTransactions) as closing:
        controller.before = _both(creating, closing)
        controller.alter(topic, 3, wait=False)
        creating.await_reached()
        assert controller.http.get(layout, params={"writer": "true"}).status_code == 200
        assert controller.http.get(layout).json()["changing"] is False
        creating.release()
        closing.await_reached()
        answer = controller.http.get(layout, params={"writer": "true"})
        assert answer.status_code == 503, answer.text
        assert answer.json()["error_code"] == 1001
        assert answer.headers["retry-after"] == "1"
        assert controller.http.get(layout).json()["changing"] is True
        change = controller.change(topic).change
        assert change is not None
        assert (change.step, change.source, change.target, change.kind) == ("closing", 2, 3, "expand")
        closing.release()
        assert controller.await_end(topic).outcome == "done"
    assert controller.http.get(layout, params={"writer": "true"}).json()["layout_epoch"] == 1


def _both(first: Hold, second: Hold) -> Callable[[p.Instruction], None]:
    def before(instruction: p.Instruction) -> None:
        first(instruction)
        second(instruction)

    return before


def test_second_change_is_refused_while_one_runs(controller: InProcess) -> None:
    topic = controller.create(2)
    with Hold(p.ListTransactions) as hold:
        controller.before = hold
        first = controller.alter(topic, 3, wait=False)
        hold.await_reached()
        second = controller.alter(topic, 4)
        assert (second.error, second.error_code) == ("PARTITION_CHANGE_IN_PROGRESS", 1002)
        assert str(first.change_id) in str(second.error_message)
    assert controller.await_end(topic).outcome == "done"


def test_what_was_checked_for_another_layout_is_not_done(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ask at once, for 3 and for 4 of 2 partitions: what was growth when it was checked is no shrink afterwards."""
    topic = controller.create(2)
    producers = controller.service.changes._producers
    check = producers.refuse_foreign

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(producers, "refuse_foreign", check)
        assert controller.alter(topic, 4).error == "NONE"
        check(*arguments)

    monkeypatch.setattr(producers, "refuse_foreign", late)
    result = controller.alter(topic, 3)
    assert result.error == "REQUEST_TIMED_OUT"
    assert "was changed, replaced or deleted meanwhile; send the request again" in str(result.error_message)
    assert controller.topic(topic).undeleted_partition_count == 4


def test_topics_change_side_by_side_with_a_result_each(controller: InProcess) -> None:
    one, other = controller.create(1), controller.create(2)
    items = [(one, 3), (other, 1), ("no-such-topic", 2)]
    body = {"topics": [{"topic": topic, "partition_count": count} for topic, count in items]}
    answer = controller.http.post("/v1/partition-counts", json=body, params={"wait": TIMEOUT})
    assert [item["error"] for item in answer.json()["topics"]] == [
        "NONE",
        "INVALID_PARTITIONS",
        "INVALID_TOPIC_EXCEPTION",
    ]
    assert controller.topic(one).undeleted_partition_count == 3


def test_wrong_counts_are_refused(controller: InProcess) -> None:
    topic = controller.create(2)
    for count, words in ((1, "initial partition count 2"), (2, "nothing is to be changed"), (0, "value 0")):
        result = controller.alter(topic, count)
        assert (result.error, result.change_id) == ("INVALID_PARTITIONS", None)
        assert words in str(result.error_message)
    twice = {"topics": [{"topic": topic, "partition_count": 3}] * 2}
    answer = controller.http.post("/v1/partition-counts", json=twice)
    for item in answer.json()["topics"]:
        assert (item["topic"], item["error"]) == (topic, "INVALID_REQUEST")
        assert "2 times" in item["error_message"]
    assert controller.change(topic).last_change is None


def test_validate_only_changes_nothing(controller: InProcess) -> None:
    topic = controller.create(2)
    assert controller.alter(topic, 4, validate_only=True).error == "NONE"
    assert controller.alter(topic, 1, validate_only=True).error == "INVALID_PARTITIONS"
    assert len(controller.topic(topic).partitions) == 2
    assert controller.change(topic).last_change is None


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(p.AwaitLeaders, marks=pytest.mark.long),
        p.ListTransactions,
        p.Fence,
        pytest.param(p.ReadBoundaries, marks=pytest.mark.long),
    ],
)
def test_cancel_takes_the_change_back(controller: InProcess, kind: type) -> None:
    topic = controller.create(2)
    with Hold(kind) as hold:
        controller.before = hold
        started = controller.alter(topic, 3, wait=False)
        hold.await_reached()
        answer = controller.http.delete(f"/v1/topics/{topic}/change")
        assert (answer.status_code, answer.json()["change_id"]) == (200, started.change_id)
    assert controller.await_end(topic).outcome == "cancelled"
    # Perhaps one layout newer: a created partition may already be covered, by the check of all topics.
    assert controller.topic(topic).undeleted_partition_count == 2
    assert controller.http.get(f"/v1/topics/{topic}/layout?writer=true").status_code == 200
    assert controller.alter(topic, 3).error == "NONE"


def test_cancel_comes_too_late_once_boundaries_are_read(controller: InProcess) -> None:
    topic = controller.create(2)
    missing = controller.http.delete(f"/v1/topics/{topic}/change")
    assert (missing.status_code, missing.json()["error"]) == (400, "INVALID_REQUEST")
    with Hold(p.CommitLayout) as hold:
        controller.before = hold
        controller.alter(topic, 3, wait=False)
        hold.await_reached()
        answer = controller.http.delete(f"/v1/topics/{topic}/change")
        assert (answer.status_code, answer.json()["error"]) == (409, "PARTITION_CHANGE_IN_PROGRESS")
    assert controller.await_end(topic).outcome == "done"


@pytest.mark.parametrize("force", [False, True])
def test_a_log_that_grows_after_the_fence_betrays_a_foreign_writer(
    controller: InProcess, kafka_cluster: LocalCluster, force: bool
) -> None:
    topic = controller.create(2)

    def write(instruction: p.Instruction) -> None:
        if isinstance(instruction, p.CheckLogEnds):
            producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
            producer.produce(topic, b"v", partition=1)
            assert producer.flush(TIMEOUT) == 0

    controller.before = write
    result = controller.alter(topic, 3, force=force)
    if force:
        assert result.error == "NONE"
        assert controller.layout(topic).layouts[1].starts == [0, 0, 0]
    else:
        assert (result.error, result.error_code) == ("ACTIVE_FOREIGN_PRODUCERS", 1003)
        assert "partition 1 (0 -> 1)" in str(result.error_message)
        assert controller.topic(topic).undeleted_partition_count == 2
        last = controller.change(topic).last_change
        assert last is not None
        assert (last.outcome, last.error and last.error.error) == ("failed", "ACTIVE_FOREIGN_PRODUCERS")


def in_transaction(cluster: LocalCluster, topic: str) -> Producer:
    """A writer of the topic with a record in a transaction that is open."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"ordered:{topic}:w:0"}
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(TIMEOUT) == 0
    return producer


def test_open_transaction_is_drained_then_fenced(kafka_cluster: LocalCluster) -> None:
    # It waits for as long as the test holds it.
    with in_process(kafka_cluster, timing=Timing(drain=TIMEOUT, closing=2 * TIMEOUT)) as controller:
        topic = controller.create(2)
        producer = in_transaction(kafka_cluster, topic)
        with Hold(p.Pause) as hold, ThreadPoolExecutor() as pool:
            controller.before = hold
            change = pool.submit(controller.alter, topic, 3)
            hold.await_reached()
            # A fenced producer's commit raises.
            producer.commit_transaction(TIMEOUT)
            hold.release()
            assert change.result().error == "NONE"
        first = controller.change(topic).last_change
        assert first is not None
        assert first.outcome == "done"
        # One record and its commit marker.
        assert controller.layout(topic).layouts[1].starts == [2, 0, 0]


def test_transaction_left_open_is_aborted_after_the_drain_time(kafka_cluster: LocalCluster) -> None:
    with in_process(kafka_cluster, timing=Timing(drain=0.5)) as controller:
        topic = controller.create(1)
        _writer = in_transaction(kafka_cluster, topic)  # open as long as it lives
        began = time.monotonic()
        assert controller.alter(topic, 2).error == "NONE"
        took = time.monotonic() - began
        last = controller.change(topic).last_change
        assert last is not None
        assert last.fenced == 1
        assert 0.5 <= last.writer_pause_seconds <= took
        assert controller.layout(topic).layouts[1].starts == [2, 0]


def test_closing_that_cannot_end_is_taken_back(kafka_cluster: LocalCluster) -> None:
    with in_process(kafka_cluster, timing=Timing(closing=1.5)) as controller:
        topic = controller.create(2)
        with Hold(p.ListTransactions) as hold:
            controller.before = hold
            controller.alter(topic, 3, wait=False)
            hold.await_reached()
            kafka_cluster.pause("broker-1")
        try:
            last = controller.await_end(topic)
        finally:
            kafka_cluster.resume("broker-1")
        assert (last.outcome, last.error and last.error.error) == ("failed", "REQUEST_TIMED_OUT")
        assert "did not end within 1.5 s" in str(last.error)
        assert controller.topic(topic).undeleted_partition_count == 2
        # The time is as short for this one, and the broker may be fenced for a moment.
        await_true(lambda: controller.alter(topic, 3).error == "NONE", "the change succeeds")


def test_partitions_added_outside_are_covered_by_the_next_layout(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = controller.create(1)
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT)
    assert controller.alter(topic, 2).error == "NONE"
    assert len(controller.layout(topic).layouts[1].starts) == 3
    assert [p.status for p in controller.topic(topic).partitions] == ["live", "live", "deleted"]


@pytest.mark.long
def test_many_partitions_are_marked_and_revived(controller: InProcess) -> None:
    """More marks than one ZooKeeper transaction takes here."""
    topic = controller.create(1)
    record, _ = controller.service.topics.record(topic)
    assert record.undeleted_partition_count == 1
    for count in (1500, 2, 1400, 1):
        assert controller.alter(topic, count, wait=False).error == "NONE"
        await_true(lambda: controller.change(topic).change is None, "the change ends", 4 * TIMEOUT)
        last = controller.change(topic).last_change
        assert last is not None
        assert (last.outcome, last.target) == ("done", count), last
        live = [p.status == "live" for p in controller.topic(topic).partitions]
        assert live == [True] * count + [False] * (1500 - count)


def test_unordered_topic_changes_without_a_pause(controller: InProcess) -> None:
    topic = controller.create(2, ordered_delivery=False)
    with Hold(p.ReadBoundaries) as hold:
        controller.before = hold
        controller.alter(topic, 3, wait=False)
        hold.await_reached()
        assert controller.http.get(f"/v1/topics/{topic}/layout?writer=true").status_code == 200
    last = controller.await_end(topic)
    assert (last.outcome, last.writer_pause_seconds) == ("done", 0.0)
    assert controller.layout(topic).layouts[1].undeleted_partition_count == 3


@pytest.mark.long
def test_change_goes_on_after_an_orderly_stop(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("stop")
    with in_process(kafka_cluster, chroot=chroot) as first:
        topic = first.create(2)
        with Hold(p.Fence) as hold:
            first.before = hold
            first.alter(topic, 3, wait=False)
            hold.await_reached()
            stopper = threading.Thread(target=first.service.stop)
            stopper.start()
            await_true(lambda: first.service.stopping, "the controller stops")
            time.sleep(0.5)  # until the stop has reached the change that is held
        stopper.join(TIMEOUT)
    with in_process(kafka_cluster, chroot=chroot) as second:
        assert second.await_end(topic).outcome == "done"
        assert second.topic(topic).layout_epoch == 1
