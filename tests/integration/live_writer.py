"""An ordered writer for tests: transactional, obeys the writer rule, and notes the epoch it wrote each record under."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import LayoutHistoryView
from spark_ordered_kafka.ordering import Layout, LayoutHistory, bucket, key_hash
from tests.servers import TIMEOUT

KEYS = [f"key-{number}".encode() for number in range(40)]
_READY_TIMEOUT = 60.0
# Seconds for what may include a take-over, or the death of a broker that leads.
_LONG = 4 * TIMEOUT


class LiveWriter(threading.Thread):
    """Writes transactions of a few records until stopped. A transaction that was fenced is written again."""

    def __init__(self, bootstrap_servers: str, controller_url: str, topic: str, name: str) -> None:
        super().__init__(name=f"writer-{name}", daemon=True)
        self.committed = 0
        self.fenced = 0
        self.failure: BaseException | None = None
        self._servers = bootstrap_servers
        self._url = controller_url
        self._topic = topic
        self._id = f"ordered:{topic}:{name}:0"
        self._stopping = threading.Event()
        self._sequence = 0

    def run(self) -> None:
        try:
            with ControllerClient(self._url) as client:
                while not self._stopping.is_set():
                    self._live(client)
        except BaseException as error:
            self.failure = error
            raise

    def finish(self) -> None:
        self._stopping.set()
        # One that was fenced serves its reports and begins anew before it looks.
        self.join(_LONG + _READY_TIMEOUT)
        assert not self.is_alive(), f"{self.name} does not end"
        assert self.failure is None, self.failure

    def await_commits(self, more: int) -> None:
        """Wait until this writer has committed ``more`` further transactions."""
        goal, deadline = self.committed + more, time.monotonic() + _LONG
        while self.committed < goal:
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, f"{self.name} commits nothing"
            time.sleep(0.01)

    def _live(self, client: ControllerClient) -> None:
        """One producer's life: init, then check, then write, until something fences it."""
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self._id,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        try:
            producer.init_transactions(TIMEOUT)
            layout = client.wait_for_layout(self._topic, _READY_TIMEOUT)
            initial, count = layout.initial_partition_count, layout.undeleted_partition_count
            while not self._stopping.is_set():
                self._transaction(producer, layout.layout_epoch, initial, count)
        except KafkaException as raised:
            error = raised.args[0]
            # _FATAL: produce() of an instance that has heard of its fencing already.
            fenced = error.fatal() or error.code() == KafkaError._FATAL
            if not (fenced or error.txn_requires_abort() or error.retriable()):
                raise
            self.fenced += 1
            _serve_reports(producer)

    def _transaction(self, producer: Producer, epoch: int, initial: int, count: int) -> None:
        producer.begin_transaction()
        for key in KEYS:
            partition = bucket(key_hash("murmur3", key), initial, count)
            value = json.dumps([self.name, self._sequence, epoch])
            producer.produce(self._topic, value.encode(), key, partition=partition)
            self._sequence += 1
        producer.commit_transaction(TIMEOUT)
        self.committed += 1


def _serve_reports(producer: Producer) -> None:
    """librdkafka 2.16 corrupts its heap when a fenced producer is destroyed with delivery reports unserved."""
    deadline = time.monotonic() + TIMEOUT
    producer.purge()
    while len(producer) > 0:
        assert time.monotonic() < deadline, f"{len(producer)} delivery reports are missing"
        # The first call raises the fatal error once more.
        with suppress(KafkaException):
            producer.poll(0.05)


@contextmanager
def live_writers(
    bootstrap_servers: str, url: str, topic: str, count: int = 2
) -> Iterator[Sequence[LiveWriter]]:
    """``count`` writers that write until the block ends."""
    writers = [LiveWriter(bootstrap_servers, url, topic, f"w{number}") for number in range(count)]
    for writer in writers:
        writer.start()
    try:
        for writer in writers:
            writer.await_commits(1)
        yield writers
    finally:
        for writer in writers:
            writer.finish()


def check_epochs(bootstrap_servers: str, history: LayoutHistoryView) -> int:
    """Every committed record lies in the segment of the epoch its writer placed it under, in its key's partition, and
    (epoch, offset) is the order of writing. Returns how many records there are."""
    layouts = [Layout(one.epoch, one.undeleted_partition_count, one.starts) for one in history.layouts]
    epochs = LayoutHistory(history.initial_partition_count, layouts)
    written: dict[tuple[bytes, str], list[tuple[int, int, int]]] = {}
    records = 0
    for partition, offset, key, value in read_all(bootstrap_servers, history):
        writer, sequence, epoch = json.loads(value)
        assert epochs.epoch_of(partition, offset) == epoch, (partition, offset, epoch, epochs.bounds)
        count = history.layouts[epoch].undeleted_partition_count
        assert bucket(key_hash(history.hash, key), history.initial_partition_count, count) == partition
        written.setdefault((key, writer), []).append((epoch, offset, sequence))
        records += 1
    for positions in written.values():
        sequences = [sequence for _, _, sequence in sorted(positions)]
        assert sequences == sorted(sequences)
    return records


def read_all(bootstrap_servers: str, history: LayoutHistoryView) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Every committed record of the topic: partition, offset, key, value."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "checker",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    left = set(range(len(history.layouts[-1].starts)))
    consumer.assign([TopicPartition(history.topic, partition, 0) for partition in left])
    try:
        deadline = time.monotonic() + _LONG
        while left:
            assert time.monotonic() < deadline, f"partitions {left} are not read to their end"
            messages = consumer.consume(1000, timeout=1.0)
            if messages:
                # What writers that never pause have written takes as long as it takes.
                deadline = time.monotonic() + TIMEOUT
            for message in messages:
                if message.error() is not None:
                    left.discard(message.partition())
                else:
                    partition, offset = message.partition(), message.offset()
                    key, value = message.key(), message.value()
                    assert partition is not None
                    assert offset is not None
                    assert key is not None
                    assert value is not None
                    yield partition, offset, key, value
    finally:
        consumer.close()
