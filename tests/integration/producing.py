"""Plain producers of tests: what they write in a thread, their reports, and what is written then."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message

from spark_ordered_kafka import ControllerClient, OrderedProducer
from spark_ordered_kafka.checker import check
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.ordering import LayoutHistory
from tests.queries import await_stable
from tests.servers import TIMEOUT, await_true
from tests.streams import conf, misrouted, raw_records


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

    def await_round(self) -> None:
        """Wait until every key has been produced anew: the round that is under way may have begun before."""
        enough = self.produced + 2 * 20
        await_true(lambda: self._failure is not None or self.produced >= enough, "a round of all keys")


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


class ReportError(Exception):
    """What an application's callback raises."""


def failing_reports(producer: OrderedProducer, topic: str) -> list[int]:
    """Leave two reports, 1 and 2, waiting that raise ReportError when they are served; the numbers of those served."""
    served: list[int] = []

    def report(number: int) -> None:
        served.append(number)
        raise ReportError(number)

    for number in range(3):
        producer.produce(topic, "aborted", "k", on_delivery=lambda *_, number=number: report(number))
    with pytest.raises(ReportError, match="0"):
        producer.abort()
    return served


def instances_in_memory() -> list[TransactionalProducer]:
    """All producer instances of this process that are not freed.

    ``isinstance`` would ask each object for its class, which a weak proxy of something that is gone refuses.
    """
    return [one for one in gc.get_objects() if type(one) is TransactionalProducer]
