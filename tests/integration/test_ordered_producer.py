"""The plain producer on real servers: order, exactly once, reports, limits, offsets, through changes and failures."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from spark_ordered_kafka import ControllerClient, OrderedProducer
from spark_ordered_kafka.checker import check
from spark_ordered_kafka.client.topics import layout_history
from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.errors import (
    ClosedError,
    ConfigError,
    ErrorCode,
    FencedError,
    RebalancedError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering import LayoutHistory
from tests.integration.controllers import Hold, free_port, in_process, served
from tests.queries import await_stable
from tests.servers import TIMEOUT, unique_name
from tests.streams import change, conf, create, misrouted, raw_records


def manual(cluster: LocalCluster, **more: Any) -> OrderedProducer:
    return OrderedProducer(conf(cluster, commit_interval_ms=0, **more))


def history_of(cluster: LocalCluster, topic: str) -> LayoutHistory:
    with ControllerClient(cluster.controller_url) as controller:
        answer = controller.layout(topic)
    return layout_history(answer)


def written(cluster: LocalCluster, topic: str) -> list[Message]:
    """All records in an order that is, for each key, that of the guarantee: by epoch and offset."""
    await_stable(cluster, topic)
    history = history_of(cluster, topic)

    def place(message: Message) -> tuple[int, int, int]:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        return history.epoch_of(partition, offset), partition, offset

    return sorted(raw_records(cluster, topic, history.partition_count), key=place)


def values(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in written(cluster, topic)]


def check_numbered(cluster: LocalCluster, topic: str, expected: int) -> None:
    """Every key's numbers are there, once and in order, where they belong."""
    records = written(cluster, topic)
    keys = np.array([message.key() for message in records])
    numbers = np.array([int(message.value() or b"") for message in records])
    report = check(keys, numbers, expected)
    assert report.violations == 0, report
    assert misrouted(cluster, topic) == []


class Background:
    """Does something in a thread until the block ends; what it raises is raised there."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def work(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            self._failure = error

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure


class Load(Background):
    """Produces numbered records of 20 keys to topics, in a thread, until the block ends."""

    def __init__(self, producer: OrderedProducer, *topics: str, keys: str = "k", pause: float = 0.0) -> None:
        super().__init__()
        self.produced = 0
        self._producer = producer
        self._topics = topics
        self._keys = keys
        self._pause = pause

    def work(self) -> None:
        for number in itertools.count():
            if self._stop.wait(self._pause):
                return
            for topic, key in itertools.product(self._topics, range(20)):
                produce(self._producer, topic, str(number), f"{self._keys}{key}")
            self.produced += 20


def produce(producer: OrderedProducer, *arguments: Any, **named: Any) -> None:
    """As applications do: wait for room where there is none."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            producer.produce(*arguments, **named)
            return
        except BufferError:
            assert time.monotonic() < deadline, "there is no room"
            producer.poll(0.1)


class Reports:
    """Takes delivery reports."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.errors: list[KafkaError | None] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.errors.append(error)
        self.messages.append(message)


def test_changes_under_load(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    producer = OrderedProducer(conf(cluster, commit_interval_ms=20, queue_buffering_max_messages=5_000))
    with producer, Load(producer, topic_name, pause=0.001) as load:
        for count in (5, 3, 4):
            change(cluster, topic_name, count)
    assert load.produced > 0
    assert {message.partition() for message in written(cluster, topic_name)} > {0, 1, 2}
    check_numbered(cluster, topic_name, load.produced)


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
    deadline = time.monotonic() + TIMEOUT
    while sum(accepted) < 20_000:
        assert time.monotonic() < deadline, f"only {accepted} were accepted"
        time.sleep(0.01)
    producer.close()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    assert len(values(cluster, topic_name)) == 1 + sum(accepted)


def test_reports_come_after_the_commit_with_exact_offsets(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 3)
    reports = Reports()
    with manual(cluster) as producer:
        for number in range(6_000):
            producer.produce(topic_name, str(number), f"k{number % 50}", on_delivery=reports)
        assert producer.poll(0.3) == 0
        assert len(producer) == 6_000
        change(cluster, topic_name, 2 + 3)
        assert producer.flush() == 0
        assert len(reports.messages) == 6_000
        producer.produce(topic_name, "6000", "k0", callback=reports)
        producer.commit()
    assert set(reports.errors) == {None}
    records = {message.value(): message for message in written(cluster, topic_name)}
    assert len(records) == 6_001
    last = Counter[int | None]()
    for report in reports.messages:
        record = records[report.value()]
        assert (report.topic(), report.partition(), report.offset()) == (
            topic_name,
            record.partition(),
            record.offset(),
        )
        assert report.key() == record.key()
        offset = report.offset()
        assert offset is not None
        assert offset >= last[report.partition()]
        last[report.partition()] = offset
    check_numbered_values = [int(message.value() or b"") for message in reports.messages]
    assert sorted(check_numbered_values) == list(range(6_001))


def test_all_parts_of_a_record(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster)) as producer:
        producer.produce(topic_name, b"plain", b"k")
        producer.produce(topic_name, "значение", "ключ", headers={"a": b"x", "b": None})
        producer.produce(topic_name, key="", timestamp=1_000, headers=[("a", "1"), ("a", b"2")])
        producer.produce(topic_name, b"", timestamp=2_000)
        producer.produce(topic_name, b"last", b"k", -1, None, 0, None)
    found = [
        (message.key(), message.value(), message.headers(), message.timestamp()[1])
        for message in written(cluster, topic_name)
    ]
    assert [one[:3] for one in found] == [
        (b"k", b"plain", None),
        ("ключ".encode(), "значение".encode(), [("a", b"x"), ("b", None)]),
        (b"", None, [("a", b"1"), ("a", b"2")]),
        (None, b"", None),
        (b"k", b"last", None),
    ]
    assert [one[3] for one in found[2:4]] == [1_000, 2_000]
    assert abs(found[0][3] / 1000 - time.time()) < 3600


def test_a_timestamp_without_headers(cluster: LocalCluster, topic_name: str) -> None:
    """No record of the transaction has headers."""
    create(cluster, topic_name, 1)
    with OrderedProducer(conf(cluster)) as producer:
        producer.produce(topic_name, b"now", b"k")
        producer.produce(topic_name, b"then", b"k", timestamp=2_000)
    now, then = written(cluster, topic_name)
    assert (now.headers(), then.headers(), then.timestamp()[1]) == (None, None, 2_000)
    assert abs(now.timestamp()[1] / 1000 - time.time()) < 3600


def test_null_keys_take_turns(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 4)
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(100):
            producer.produce(topic_name, str(number))
    assert Counter(message.partition() for message in written(cluster, topic_name)) == dict.fromkeys(
        range(4), 25
    )


def test_refused_at_once(cluster: LocalCluster, topic_name: str, make_topic: Callable[..., str]) -> None:
    create(cluster, topic_name, 2)
    with OrderedProducer(conf(cluster, message_max_bytes=2_000)) as producer:
        for arguments, hint in (
            ({"partition": 1}, "partition has the value 1: the topic's layout decides"),
            ({"partition": 0}, "partition has the value 0: the topic's layout decides"),
            ({"key": 5}, "key has the value 5: bytes, str or None, not int"),
            ({"value": b"x" * 1_990, "key": b"k" * 11}, "2001 bytes.*at most 2000 bytes"),
            ({"headers": {"h": b"x" * 2_000}}, "2001 bytes.*at most 2000 bytes"),
        ):
            with pytest.raises(ConfigError, match=hint):
                producer.produce(topic_name, **arguments)
        unmanaged = make_topic()
        for topic, hint in ((unmanaged, "adopt it"), (f"{topic_name}-none", "does not exist")):
            with pytest.raises(RequestError, match=rf"'{topic}'.*{hint}") as refused:
                producer.produce(topic, b"v")
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(producer) == 0
    assert values(cluster, topic_name) == []


def test_a_full_queue(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    with manual(cluster, queue_buffering_max_messages=10) as producer:
        for number in range(10):
            producer.produce(topic_name, str(number), "k")
        with pytest.raises(BufferError, match=r"10 records.*queue\.buffering\.max\.messages 10.*call commit"):
            producer.produce(topic_name, "10", "k")
        producer.commit()
        producer.produce(topic_name, "10", "k")
        assert len(producer) == 1
    with manual(cluster, queue_buffering_max_kbytes=1) as producer:
        producer.produce(topic_name, b"11", b"k", headers={"h": b"x" * 2_000})
        with pytest.raises(BufferError, match=r"queue\.buffering\.max\.kbytes 1"):
            producer.produce(topic_name, b"12", b"k")
    # Callers who wait for room do not wait for the interval.
    hurried = OrderedProducer(conf(cluster, commit_interval_ms=3_600_000, queue_buffering_max_messages=10))
    with hurried as producer:
        for number in range(12, 100):
            produce(producer, topic_name, str(number), "k")
    check_numbered(cluster, topic_name, 100)


def test_abort_drops_what_is_not_committed(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    reports = Reports()
    with manual(cluster) as producer:
        producer.abort()
        producer.produce(topic_name, "kept", "k")
        producer.commit()
        for number in range(7_000):
            producer.produce(topic_name, str(number), "k", on_delivery=reports)
        producer.abort()
        assert len(producer) == 0
        assert {error.code() for error in reports.errors if error is not None} == {KafkaError._PURGE_QUEUE}
        assert [int(message.value() or b"") for message in reports.messages] == list(range(7_000))
        producer.produce(topic_name, "kept, too", "k")
    assert values(cluster, topic_name) == [b"kept", b"kept, too"]


def test_an_exception_in_the_block_drops_what_is_not_committed(
    cluster: LocalCluster, topic_name: str
) -> None:
    create(cluster, topic_name, 1)
    reports = Reports()

    def work() -> None:
        with manual(cluster) as producer:
            producer.produce(topic_name, "kept")
            producer.flush()
            producer.produce(topic_name, "dropped", on_delivery=reports)
            raise LookupError("of the application")

    with pytest.raises(LookupError, match="of the application"):
        work()
    assert len(reports.errors) == 1
    assert values(cluster, topic_name) == [b"kept"]


def test_errors_of_callbacks_are_the_callers(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    reports = Reports()

    def fail(error: KafkaError | None, message: Message) -> None:
        raise LookupError(str(message.value()))

    with OrderedProducer(conf(cluster)) as producer:
        for number in range(4):
            producer.produce(topic_name, str(number), on_delivery=fail if number == 1 else reports)
        with pytest.raises(LookupError, match="b'1'"):
            producer.flush()
        assert producer.flush() == 0
    assert [message.value() for message in reports.messages] == [b"0", b"2", b"3"]


def test_a_record_that_the_topic_refuses(cluster: LocalCluster, topic_name: str) -> None:
    bad = create(cluster, f"{topic_name}-bad", 1, **{"max.message.bytes": "2000"})
    good = create(cluster, f"{topic_name}-good", 1)
    reports = Reports()
    producer = manual(cluster, compression_type="none")
    producer.produce(good, "good", on_delivery=reports)
    producer.produce(bad, "small", on_delivery=reports)
    producer.produce(bad, b"x" * 10_000, on_delivery=reports)
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        producer.commit()
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        producer.produce(bad, "later")
    producer.produce(good, "later")
    with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
        producer.flush()
    producer.close()
    outcome = {
        message.value(): None if error is None else error.code()
        for error, message in zip(reports.errors, reports.messages, strict=True)
    }
    assert outcome == {
        b"good": None,
        b"small": KafkaError.MSG_SIZE_TOO_LARGE,
        b"x" * 10_000: KafkaError.MSG_SIZE_TOO_LARGE,
    }
    assert values(cluster, good) == [b"good", b"later"]
    assert values(cluster, bad) == []


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_a_commit_in_doubt_is_settled_by_the_ledger(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    create(cluster, topic_name, 2)
    commit, doubts = TransactionalProducer.commit, iter([True])

    def lossy(self: TransactionalProducer, *arguments: Any) -> None:
        if not next(doubts, False):
            commit(self, *arguments)
            return
        if committed:
            commit(self, *arguments)
        self.in_doubt = True
        raise FencedError("the answer was lost")

    monkeypatch.setattr(TransactionalProducer, "commit", lossy)
    reports = Reports()
    with manual(cluster) as producer:
        for number in range(100):
            producer.produce(topic_name, str(number), "k", on_delivery=reports)
        producer.commit()
        producer.produce(topic_name, "100", "k", on_delivery=reports)
    assert reports.errors == [None] * 101
    check_numbered(cluster, topic_name, 101)


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


# -- consume, transform, produce ------------------------------------------------------------------------------------


def reader(cluster: LocalCluster, group: str, *topics: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
        }
    )
    if topics:
        consumer.subscribe(list(topics))
    return consumer


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records"
        found += [one for one in consumer.consume(count - len(found), 0.1) if one.error() is None]
    return found


def committed(cluster: LocalCluster, group: str, topic: str) -> int:
    consumer = reader(cluster, group)
    try:
        numbers = consumer.list_topics(topic, TIMEOUT).topics[topic].partitions
        partitions = [TopicPartition(topic, number) for number in numbers]
        return sum(max(one.offset, 0) for one in consumer.committed(partitions, TIMEOUT))
    finally:
        consumer.close()


def test_offsets_are_committed_with_the_records(cluster: LocalCluster, topic_name: str) -> None:
    source, target = (create(cluster, f"{topic_name}-{name}", 1) for name in ("in", "out"))
    other = create(cluster, f"{topic_name}-other", 1)
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(30):
            producer.produce(source, str(number), "k")
    consumer = reader(cluster, topic_name, source)
    try:
        with manual(cluster) as producer:
            read(consumer, 1)
            producer.send_offsets(consumer)
            producer.commit()  # nothing was produced yet
            assert committed(cluster, topic_name, source) == 1
            for message in read(consumer, 9):
                producer.produce(target, message.value(), message.key())
            producer.send_offsets(consumer)
            assert committed(cluster, topic_name, source) == 1
            change(cluster, target, 2)  # fences the transaction: records and offsets are sent again
            producer.commit()
            assert committed(cluster, topic_name, source) > 9
            done = committed(cluster, topic_name, source)
            read(consumer, 5)
            producer.send_offsets(consumer)
            producer.commit()  # with a topic, without records
            assert committed(cluster, topic_name, source) == done + 5
            for topic in (target, other):
                producer.produce(topic, "x")
            with pytest.raises(RequestError, match="an atomic transaction spans one topic"):
                producer.send_offsets(consumer)
            producer.abort()
            producer.produce(target, "dropped")
            read(consumer, 5)
            producer.send_offsets(consumer)
            producer.abort()
        assert committed(cluster, topic_name, source) == done + 5
    finally:
        consumer.close()
    assert [int(value or b"") for value in values(cluster, target)] == list(range(1, 10))


def test_a_rebalance_drops_records_and_offsets(cluster: LocalCluster, topic_name: str) -> None:
    source, target = (create(cluster, f"{topic_name}-{name}", 2) for name in ("in", "out"))
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(20):
            producer.produce(source, str(number), f"k{number}")
    reports = Reports()
    first, second = reader(cluster, topic_name, source), None
    try:
        with manual(cluster) as producer:
            for message in read(first, 10):
                producer.produce(target, message.value(), message.key(), on_delivery=reports)
            producer.send_offsets(first)
            second = reader(cluster, topic_name, source)
            deadline = time.monotonic() + TIMEOUT
            while not second.assignment():
                assert time.monotonic() < deadline, "the second consumer gets no partition"
                second.poll(0.05)
                first.poll(0.05)
            with pytest.raises(RebalancedError):
                producer.commit()
            assert len(producer) == 0
            assert len(reports.errors) == 10
            assert all(error is not None for error in reports.errors)
            assert committed(cluster, topic_name, source) == 0
            producer.produce(target, "after", "k")
            producer.send_offsets(first)
            producer.commit()
    finally:
        first.close()
        if second is not None:
            second.close()
    assert values(cluster, target) == [b"after"]


# -- the controller is away -----------------------------------------------------------------------------------------


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
        impatient = OrderedProducer(servers | {"message.timeout.ms": 2_000})
        with served(controller, port):
            impatient.produce(topic, "3", "k")
            impatient.flush()
        controller.alter(topic, 2)
        impatient.produce(topic, "given up", "k", on_delivery=reports)
        with pytest.raises(UnavailableError, match=r"gave up writing 1 records.*2 s.*message\.timeout\.ms"):
            impatient.flush()
        impatient.close()
        assert [error.code() for error in reports.errors if error is not None] == [KafkaError._MSG_TIMED_OUT]
        await_stable(kafka_cluster, topic)
        found = [message.value() for message in raw_records(kafka_cluster, topic, 3)]
        assert sorted(value or b"" for value in found) == [b"0", b"1", b"2", b"3"]
