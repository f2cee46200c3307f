"""Reads topics at the end of a run, by confluent-kafka's plain consumer with ``read_committed``."""

from __future__ import annotations

import time
from typing import NamedTuple

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
from spark_ordered_kafka.client.topics import layout_history
from tests.nemesis.judge import Numbered

_PATIENCE = 60.0


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


class TopicReader:
    """All committed records of a topic, read piece by piece as they come."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.found: dict[Place, Numbered] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "judge",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 2,
            }
        )
        partitions = self._consumer.list_topics(topic, _PATIENCE).topics[topic].partitions
        self._partitions = set(partitions)
        self._consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def read(self, records: int, seconds: float) -> bool:
        """Read until there are so many, and all that there is; False when that takes longer."""
        deadline = time.monotonic() + seconds
        ended: set[int] = set()
        while time.monotonic() < deadline:
            for message in self._consumer.consume(10_000, 0.3):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    ended.discard(partition)
                    key, _, number = (message.value() or b"").decode().partition(":")
                    self.found[Place(partition, message.offset() or 0)] = (key, int(number))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                elif not error.retriable():
                    raise KafkaException(error)
            if ended == self._partitions and len(self.found) >= records:
                return True
        return False

    def in_order(self, controller: ControllerClient) -> list[Numbered]:
        """What was read, records of a key in the order of layouts and offsets."""
        history = layout_history(controller.layout(self.topic))
        places = sorted(self.found, key=lambda place: (history.epoch_of(*place), place.offset))
        return [self.found[place] for place in places]


def open_transactions(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """By partition the offsets behind the last stable one; empty when no transaction is open."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    asked = {TopicPartition(topic, one): OffsetSpec.latest() for one in partitions}

    def ends(level: IsolationLevel) -> dict[int, int]:
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=10)
        return {place.partition: future.result().offset for place, future in answers.items()}

    stable, high = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
    return {one: high[one] - stable[one] for one in high if high[one] > stable[one]}
