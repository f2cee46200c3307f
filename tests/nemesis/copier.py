"""Copies a topic exactly once, one of a group: ``python -m tests.nemesis.copier HISTORY NAME SOURCE TARGET READS WRITES``.

READS and WRITES are configurations as JSON. Which keys it has, from their first record on until it gives them up, is in the
history.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from confluent_kafka import KafkaException, Message, TopicPartition

from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.errors import OrderedKafkaError, RebalancedError
from tests.nemesis.journal import Journal


class Holder(PartitionKeyRebalanceListener):
    """Notes which keys come and go."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._held: set[tuple[str, int]] = set()

    def read(self, messages: list[Message]) -> None:
        """Records came."""
        places = {((one.key() or b"").decode(), one.partition() or 0) for one in messages} - self._held
        if places:
            self._held |= places
            self._journal.note("hold", places=sorted(places))

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        self._release("give up", partitions)

    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        return

    def on_assign(self, _: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        self._journal.note("assigned", partitions=[one.partition for one in partitions])

    def on_revoke(self, _: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        self._release("give up", partitions)

    def on_lost(self, _: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        self._release("lost", partitions)

    def _release(self, what: str, partitions: list[TopicPartition]) -> None:
        numbers = {one.partition for one in partitions}
        self._held = {place for place in self._held if place[1] not in numbers}
        self._journal.note(what, partitions=sorted(numbers))


def main(history: str, name: str, source: str, target: str, reads: str, writes: str) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal = Journal(Path(history), name)
    holder = Holder(journal)
    try:
        with OrderedConsumer(json.loads(reads)) as consumer, OrderedProducer(json.loads(writes)) as producer:
            consumer.subscribe(
                [source], holder.on_assign, holder.on_revoke, holder.on_lost, partition_key_listener=holder
            )
            while not stop.is_set():
                messages = consumer.consume(1000, 0.3)
                if not messages:
                    continue
                holder.read(messages)
                try:
                    for message in messages:
                        producer.produce(target, message.value(), message.key())
                    producer.send_offsets(consumer)
                    producer.commit()
                except RebalancedError:
                    # Others have the partitions and get the records again; nothing was committed.
                    continue
    except (OrderedKafkaError, KafkaException) as error:
        journal.note("failed", error=f"{type(error).__name__}: {error}")
        return 1
    journal.note("goodbye")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
