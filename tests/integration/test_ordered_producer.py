"""The plain producer on real servers, through changes: order, exactly once, several topics, threads and producers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client.layout_answers import WriterLayoutView
from spark_ordered_kafka.client.layouts import LayoutCalls
from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.errors import ClosedError, UnavailableError
from spark_ordered_kafka.kafka import shared_answers
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import Hold, free_port, in_process, served
from tests.integration.producing import Load, Reports, check_numbered, manual, produce, values, written
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import change, conf, create, raw_records

PRODUCERS = 20


def test_changes_under_load(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    producer = OrderedProducer(conf(cluster, commit_interval_ms=20, queue_buffering_max_messages=5_000))
    with producer, Load(producer, topic_name, pause=0.001) as load:
        for count in (5, 3, 4):
            change(cluster, topic_name, count)
            load.await_round()
    assert {message.partition() for message in written(cluster, topic_name)} > {0, 1, 2}
    check_numbered(cluster, topic_name, load.produced)


@pytest.mark.long
def test_full_speed_through_a_change(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 3)
    producer = OrderedProducer(conf(cluster, commit_interval_ms=50))
    with producer, Load(producer, topic_name) as load:
        change(cluster, topic_name, 4)
        change(cluster, topic_name, 3)
    check_numbered(cluster, topic_name, load.produced)


def test_one_of_two_topics_changes(cluster: LocalCluster, topic_name: str) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 2) for number in range(2)]
    producer = OrderedProducer(conf(cluster, commit_interval_ms=20))
    with producer, Load(producer, *topics, pause=0.001) as load:
        change(cluster, topics[0], 4)
    for topic in topics:
        check_numbered(cluster, topic, load.produced)


def test_threads_share_a_producer(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    producer = OrderedProducer(conf(cluster, commit_interval_ms=20))
    with producer:
        loads = [Load(producer, topic_name, keys=name, pause=0.001) for name in "abc"]
        with loads[0], loads[1], loads[2]:
            change(cluster, topic_name, 3)
    check_numbered(cluster, topic_name, sum(load.produced for load in loads))


@pytest.mark.long
def test_many_producers_through_a_change(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    producers = [OrderedProducer(conf(cluster, commit_interval_ms=20)) for _ in range(10)]
    loads = [Load(one, topic_name, keys=f"{number}-", pause=0.02) for number, one in enumerate(producers)]
    for load in loads:
        load.__enter__()
    change(cluster, topic_name, 3)
    for load in loads:
        load.__exit__()
    for producer in producers:
        producer.close()
    check_numbered(cluster, topic_name, sum(load.produced for load in loads))


def test_producers_of_a_process_share_the_answers_about_the_layout(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change fences all of them at once, and each asks: of 500, most of the processor went into that."""
    create(cluster, topic_name, 2)
    sent: list[str] = []
    came: list[str] = []
    send, wait_for_layout = Transport.send, LayoutCalls.wait_for_layout

    def waiting(self: LayoutCalls, topic: str, timeout: float) -> WriterLayoutView:
        came.append(topic)
        return wait_for_layout(self, topic, timeout)

    def sending(self: Transport, parse: Any, method: str, path: str, **more: Any) -> Any:
        if path.endswith("/layout"):
            sent.append(path)
            await_true(lambda: len(came) >= PRODUCERS, "all producers ask")
        return send(self, parse, method, path, **more)

    # The first question ends when all have come, however busy the machine is.
    monkeypatch.setattr(shared_answers, "_PATIENCE", TIMEOUT)
    # Before there are producers, which keep the method.
    monkeypatch.setattr(LayoutCalls, "wait_for_layout", waiting)
    with ExitStack() as stack:
        producers = [stack.enter_context(manual(cluster)) for _ in range(PRODUCERS)]
        for number, producer in enumerate(producers):
            producer.produce(topic_name, "0", f"k-{number}")
            producer.flush(TIMEOUT)
        change(cluster, topic_name, 5)
        came.clear()
        monkeypatch.setattr(Transport, "send", sending)
        for number, producer in enumerate(producers):
            producer.produce(topic_name, "1", f"k-{number}")
        with ThreadPoolExecutor(PRODUCERS) as pool:
            assert sum(pool.map(lambda one: one.flush(TIMEOUT), producers)) == 0
    # Each asks once or twice; all that came while the first one asked share one answer.
    assert len(sent) < PRODUCERS
    check_numbered(cluster, topic_name, 2 * PRODUCERS)


@pytest.mark.long
def test_what_was_accepted_while_another_thread_closes_is_committed(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    accepted = [0, 0, 0]
    producer = OrderedProducer(conf(cluster, commit_interval_ms=20))
    producer.produce(topic_name, "first")

    def work(me: int) -> None:
        with suppress(ClosedError):
            while True:
                produce(producer, topic_name, b"v", b"k")
                accepted[me] += 1

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 4 * TIMEOUT
    while sum(accepted) < 20_000:
        assert time.monotonic() < deadline, f"only {accepted} were accepted"
        time.sleep(0.01)
    producer.close()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    assert len(values(cluster, topic_name)) == 1 + sum(accepted)


def test_compacted_topics_get_tombstones_once(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1, **{"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"})
    keys = [f"k{number}" for number in range(20)]
    with manual(cluster) as producer:
        for count in (None, 2):
            if count is not None:
                change(cluster, topic_name, count)
            for _ in range(3):
                for key in keys:
                    producer.produce(topic_name, "v", key)
                producer.commit()
    records = written(cluster, topic_name)
    moved = {message.key() for message in records if message.partition() == 1}
    tombstones = Counter(message.key() for message in records if message.value() is None)
    assert moved
    # Two ids take turns, and each instance sends its own.
    assert set(tombstones) == moved
    assert set(tombstones.values()) <= {1, 2}


@pytest.mark.long
def test_a_topic_in_the_middle_of_a_change_holds_no_other(kafka_cluster: LocalCluster) -> None:
    port = free_port()
    servers = {
        "bootstrap.servers": kafka_cluster.bootstrap_servers,
        "controller.url": f"http://127.0.0.1:{port}",
        "commit.interval.ms": 20,
    }
    held_reports, other_reports = Reports(), Reports()
    with (
        in_process(kafka_cluster) as controller,
        served(controller, port),
        OrderedProducer(servers) as producer,
    ):
        held, other = controller.create(2, unique_name("held")), controller.create(2, unique_name("other"))
        for topic in (held, other):
            producer.produce(topic, "0", "k")
        producer.flush()
        with Hold(protocol.CommitLayout) as hold:
            controller.before = hold
            controller.alter(held, 3, wait=False)
            hold.await_reached()
            producer.produce(held, "1", "k", on_delivery=held_reports)
            for number in range(1, 6):
                producer.produce(other, str(number), "k", on_delivery=other_reports)
                deadline = time.monotonic() + TIMEOUT
                while len(other_reports.errors) < number:
                    assert time.monotonic() < deadline, f"record {number} is not committed"
                    producer.poll(0.1)
            assert held_reports.errors == []
            assert len(producer) == 1
        assert producer.flush() == 0
        assert held_reports.errors == [None]
        assert other_reports.errors == [None] * 5
        for topic, partitions, count in ((held, 3, 2), (other, 2, 6)):
            await_stable(kafka_cluster, topic)
            found = [message.value() or b"" for message in raw_records(kafka_cluster, topic, partitions)]
            assert sorted(found) == [b"%d" % number for number in range(count)]


@pytest.mark.long
def test_a_controller_that_is_away(kafka_cluster: LocalCluster) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with in_process(kafka_cluster) as controller:
        topic = controller.create(2, unique_name("away"))
        servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "controller.url": url}
        with OrderedProducer(servers) as producer:
            with pytest.raises(UnavailableError, match="no controller answered"):
                producer.produce(topic, "0", "k")
            assert len(producer) == 0
            with served(controller, port):
                producer.produce(topic, "0", "k")
                assert producer.flush() == 0
            producer.produce(topic, "1", "k")
            assert producer.flush() == 0, "the layout holds until a fence"
            controller.alter(topic, 3)
            producer.produce(topic, "2", "k")
            assert producer.flush(0.3) == 1
            with pytest.raises(UnavailableError, match=r"1 records were not committed within 0\.1 s"):
                producer.commit(0.1)
            with served(controller, port):
                assert producer.flush() == 0
        reports = Reports()
        # Long enough to begin on a busy machine.
        impatient = OrderedProducer(servers | {"message.timeout.ms": 10_000})
        with served(controller, port):
            impatient.produce(topic, "3", "k")
            impatient.flush()
        controller.alter(topic, 2)
        impatient.produce(topic, "given up", "k", on_delivery=reports)
        with pytest.raises(UnavailableError, match=r"gave up writing 1 records.*10 s.*message\.timeout\.ms"):
            impatient.flush()
        impatient.close()
        assert [error.code() for error in reports.errors if error is not None] == [KafkaError._MSG_TIMED_OUT]
        await_stable(kafka_cluster, topic)
        found = [message.value() for message in raw_records(kafka_cluster, topic, 3)]
        assert sorted(value or b"" for value in found) == [b"0", b"1", b"2", b"3"]
