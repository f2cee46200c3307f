"""Reads topics at the end of a run, by confluent-kafka's plain consumer with ``read_committed``."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.kafka.clients import STALE_METADATA
from tests.nemesis.deliveries import Log
from tests.nemesis.judge import Records

_PATIENCE = 60.0


@dataclass(frozen=True)
class _Part:
    """The records of a partition, in the order of offsets. A key is its place among the reader's."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    keys: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))


class TopicReader:
    """All committed records of a topic, read piece by piece as they come. Twenty-four bytes each.

    ``kafka``: properties of the connection. ``count``: of its partitions; those that a broker shows, if it is left out.
    """

    def __init__(self, kafka: Mapping[str, str], topic: str, count: int | None = None) -> None:
        self.topic = topic
        self._keys: dict[str, int] = {}
        self._consumer = Consumer(
            {
                **kafka,
                "group.id": "judge",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 2,
            }
        )
        shown = self._consumer.list_topics(topic, _PATIENCE).topics[topic].partitions
        partitions = list(shown) if count is None else list(range(count))
        self._logs = {one: _Part() for one in partitions}

    def __len__(self) -> int:
        """How many records have been read."""
        return sum(len(log.offsets) for log in self._logs.values())

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def read(self, records: int, seconds: float) -> bool:
        """Read until there are so many, and all that there is; False when that takes longer."""
        deadline = time.monotonic() + seconds
        ended: set[int] = set()
        # Anew, so that each end is said again.
        self._consumer.assign(
            [
                TopicPartition(self.topic, one, log.offsets[-1] + 1 if log.offsets else OFFSET_BEGINNING)
                for one, log in self._logs.items()
            ]
        )
        while time.monotonic() < deadline:
            for message in self._consumer.consume(10_000, 0.3):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    ended.discard(partition)
                    log = self._logs[partition]
                    key, _, number = (message.value() or b"").decode().partition(":")
                    log.offsets.append(message.offset() or 0)
                    log.keys.append(self._keys.setdefault(key, len(self._keys)))
                    log.numbers.append(int(number))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                elif not error.retriable() and error.code() not in STALE_METADATA:
                    raise KafkaException(error)
            if len(ended) == len(self._logs) and len(self) >= records:
                return True
        return False

    def in_order(self, controller: ControllerClient) -> Log:
        """What was read, records of a key in the order of layouts and offsets."""
        history = layout_history(controller.layout(self.topic))
        logs = self._logs.items()
        epochs = np.array([history.epoch_of(one, offset) for one, log in logs for offset in log.offsets])
        # Partitions stand one after another and each in the order of offsets, which a stable sort keeps.
        order = np.argsort(epochs, kind="stable")
        names = np.array(list(self._keys), dtype=np.str_)
        keys = np.concatenate([np.array(log.keys, dtype=np.int64) for _, log in logs])
        numbers = np.concatenate([np.array(log.numbers, dtype=np.int64) for _, log in logs])
        offsets = np.concatenate([np.array(log.offsets, dtype=np.int64) for _, log in logs])
        partitions = np.repeat([one for one, _ in logs], [len(log.offsets) for _, log in logs])
        return Log(Records(names[keys[order]], numbers[order]), partitions[order], offsets[order])


def open_transactions(admin: AdminClient, topic: str) -> dict[int, int]:
    """By partition the offsets behind the last stable one; empty when no transaction is open."""
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    asked = {TopicPartition(topic, one): OffsetSpec.latest() for one in partitions}

    def ends(level: IsolationLevel) -> dict[int, int]:
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=10)
        return {place.partition: future.result().offset for place, future in answers.items()}

    stable, high = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
    return {one: high[one] - stable[one] for one in high if high[one] > stable[one]}
