"""Creations that are cut off, and controllers that lose their claim: what the next one finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from confluent_kafka import Producer
from kazoo.client import KazooState

from spark_ordered_kafka.controller.change.protocol import Instruction, ListTransactions
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.records import CreationRecord
from spark_ordered_kafka.controller.zk.election import ELECTION
from spark_ordered_kafka.controller.zk.session import CONTROLLER, CONTROLLER_EPOCH, DeposedError
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.values import LogEnd
from spark_ordered_kafka.local import LocalCluster
from tests.inside import connection_is, jobs_of, session_of, znodes_of
from tests.integration.controllers import Hold, InProcess, in_process
from tests.servers import TIMEOUT, await_true, create_topic, unique_name

CREATION = CreationRecord(partitions=2, replication_factor=1, hash="crc32", ordered_delivery=True, configs={})


def test_creation_cut_off_after_kafka_is_ended_by_the_same_request(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = unique_name("cut-off")
    znodes_of(controller.service).record_creation(topic, CREATION)
    create_topic(kafka_cluster.bootstrap_servers, topic, 2)
    other = {"topic": topic, "partitions": 2, "hash": "murmur3"}
    assert controller.http.post("/v1/topics", json=other).status_code == 409
    answer = controller.http.post("/v1/topics", json={**other, "hash": "crc32"})
    assert answer.status_code == 201, answer.text
    assert controller.topic(topic).hash == "crc32"
    assert znodes_of(controller.service).creation(topic) is None


def test_creation_cut_off_is_ended_by_the_next_controller(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("restart")
    made, never, written = unique_name("made"), unique_name("never"), unique_name("written")
    with in_process(kafka_cluster, chroot=chroot) as first:
        for topic in (made, never, written):
            znodes_of(first.service).record_creation(topic, CREATION)
        for topic in (made, written):
            create_topic(kafka_cluster.bootstrap_servers, topic, 2)
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
        producer.produce(written, b"value", partition=1)
        assert producer.flush(TIMEOUT) == 0
    with in_process(kafka_cluster, chroot=chroot) as second:
        # What holds records is never taken over; the intent stays, to be seen.
        creations = znodes_of(second.service).creations
        await_true(lambda: creations() == [written], "the end of interrupted creations")
        assert second.topic(made).undeleted_partition_count == 2
        assert second.http.get(f"/v1/topics/{never}").status_code == 404
        assert second.http.get(f"/v1/topics/{written}").status_code == 404


def test_controller_deposed_amid_a_creation_does_not_say_that_nothing_was_done(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deposed(*_: object) -> None:
        raise DeposedError

    body = {"topic": unique_name("deposed"), "partitions": 1}
    with monkeypatch.context() as patch:
        patch.setattr(znodes_of(controller.service), "create_topic", deposed)
        answer = controller.http.post("/v1/topics", json=body)
    assert (answer.status_code, answer.json()["error"]) == (504, "REQUEST_TIMED_OUT")
    assert "is created in Kafka but not yet under management" in answer.json()["error_message"]
    assert controller.http.post("/v1/topics", json=body).status_code == 201


def test_a_creation_waits_for_logs_that_brokers_make_after_they_show_the_leaders(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a thousand partitions on busy machines, whose last log was made seconds later than a read of log ends may take."""
    admin = controller.service.admin
    read, late = admin.log_ends, [3]

    def log_ends(topic: str, partitions: Sequence[int], **more: Any) -> dict[int, LogEnd]:
        if late[0] == 0:
            return read(topic, partitions, **more)
        late[0] -= 1
        raise UnavailableError("NOT_LEADER_FOR_PARTITION: partition 1")

    monkeypatch.setattr(admin, "log_ends", log_ends)
    topic = controller.create(2)
    assert late == [0]
    late[0] = 1_000_000
    monkeypatch.setattr("spark_ordered_kafka.controller.topics.creation._LEADERS_TIMEOUT", 0.0)
    body = {"topic": f"{topic}-late", "partitions": 2}
    answer = controller.http.post("/v1/topics", json=body)
    assert (answer.status_code, answer.json()["error"]) == (503, "REQUEST_TIMED_OUT")
    assert "is created in Kafka but not yet under management; send the same" in answer.json()["error_message"]
    late[0] = 0
    assert controller.http.post("/v1/topics", json=body).status_code == 201


def test_second_controller_waits_and_the_first_cannot_write_after_it(
    kafka_cluster: LocalCluster,
) -> None:
    chroot = unique_name("two")
    with in_process(kafka_cluster, chroot=chroot) as first:
        topic = first.create(1)
        with in_process(kafka_cluster, chroot=chroot, await_active=False) as second:
            assert second.http.get("/readyz").json()["role"] == "follower"
            assert second.layout(topic) == first.layout(topic)
            body = {"topic": unique_name("never"), "partitions": 1}
            refused = second.http.post("/v1/topics", json=body, follow_redirects=False)
            assert (refused.status_code, refused.json()["error"]) == (307, "NOT_CONTROLLER")
            # Else the first might claim again before the second is there.
            await_true(
                lambda: len(first.http.get("/v1/controllers").json()["controllers"]) == 2,
                "the second one is a candidate",
            )
            # The claim is taken from the first behind its back, as after a long pause of its process.
            znodes, session = znodes_of(first.service), session_of(first.service)
            old = session.transaction()
            session.client.delete(CONTROLLER)
            await_true(lambda: second.service.active, "the second one leads")
            assert second.alter(topic, 2).error == "NONE"
            with pytest.raises(DeposedError):
                session.commit(old, CONTROLLER)
            for refused_now in (
                session.verify,
                lambda: znodes.await_claim(threading.Event()),
                lambda: znodes.update_topic(topic, lambda record: record),
            ):
                with pytest.raises(DeposedError):
                    refused_now()
            # What it reads is as good as before.
            assert first.layout(topic) == second.layout(topic)
            deadline = time.monotonic() + TIMEOUT
            while first.http.get("/readyz").json()["epoch"] != 2:
                assert time.monotonic() < deadline, "the first controller does not hear of the second"
                time.sleep(0.02)
            assert first.http.get("/readyz").json()["role"] == "follower"
        # The second has gone, and the first claims again.
        deadline = time.monotonic() + TIMEOUT
        while not first.service.active:
            assert time.monotonic() < deadline, "the first controller did not come back"
            time.sleep(0.02)
        assert first.topic(topic).undeleted_partition_count == 2


def test_what_a_session_has_left_of_an_earlier_claim_does_not_stop_it(kafka_cluster: LocalCluster) -> None:
    """As when the answer to a claim, or to its end, got lost: its znodes last as long as the session."""
    with in_process(kafka_cluster) as controller:
        session = session_of(controller.service)
        left = f"{ELECTION}/0__lock__0000000000"  # before all others in the queue
        session.client.create(left, b'{"id": "x", "url": "http://x"}', ephemeral=True)
        session.client.set(CONTROLLER_EPOCH, b"7")  # a claim of which the process knows nothing
        with pytest.raises(DeposedError):
            session.verify()
        deadline = time.monotonic() + TIMEOUT
        while not controller.service.active:
            assert time.monotonic() < deadline, "it does not lead again"
            time.sleep(0.02)
        # It hears of its own claim as all others do.
        await_true(lambda: controller.http.get("/readyz").json()["epoch"] == 8, "its new epoch is known")
        assert session.client.exists(left) is None
        assert controller.create(1)


@pytest.mark.long
def test_nothing_begins_while_the_session_is_suspended(
    kafka_cluster: LocalCluster,
) -> None:
    begun: list[Instruction] = []
    timing = Timing(leader_wait=0.1)
    with in_process(kafka_cluster, timing=timing) as controller, Hold(ListTransactions) as hold:
        topic = controller.create(1)
        controller.before = hold
        controller.alter(topic, 2, wait=False)
        hold.await_reached()
        session = session_of(controller.service)
        connection_is(session, KazooState.SUSPENDED)
        controller.before = begun.append
        hold.release()
        refused = controller.http.post("/v1/topics", json={"topic": unique_name("never"), "partitions": 1})
        assert refused.status_code in (503, 504)
        assert controller.http.get(f"/v1/topics/{topic}").status_code == 504
        # Twice the time that the rest of the change takes.
        with pytest.raises(TimeoutError):
            jobs_of(controller.service)[topic][0].done.result(1.0)
        assert begun == []
        connection_is(session, KazooState.CONNECTED)
        assert controller.await_end(topic).outcome == "done"
        assert begun


@pytest.mark.long
def test_requests_that_outlast_a_controller_are_told_so(cluster: LocalCluster) -> None:
    """Its server gave them up some seconds after SIGTERM: the answer was 500, and the log had a traceback for each."""
    with ExitStack() as ends, ThreadPoolExecutor(2) as threads:
        cluster.pause("broker-1")
        ends.callback(cluster.start, "controller-1")
        ends.callback(cluster.resume, "broker-1")
        # It waits for the broker.
        url, topic = cluster.controller_url, {"topic": unique_name("late")}
        read = threads.submit(httpx2.get, f"{url}/v1/groups", timeout=2 * TIMEOUT)
        created = threads.submit(httpx2.post, f"{url}/v1/topics", json=topic, timeout=2 * TIMEOUT)
        for asked in (read, created):
            with pytest.raises(FutureTimeoutError):
                asked.result(1)
        cluster.stop("controller-1")
        answers = [asked.result(TIMEOUT) for asked in (read, created)]
    # Clients ask another controller for what was only read.
    assert [one.json()["error"] for one in answers] == ["NOT_CONTROLLER", "REQUEST_TIMED_OUT"]
    for answer in answers:
        assert (answer.status_code, "this controller stops" in answer.json()["error_message"]) == (503, True)
    assert "Traceback" not in cluster.log("controller-1").read_text()
