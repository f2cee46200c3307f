"""What applications do to a consumer between two batches, drawn by a machine."""

from __future__ import annotations

import random
from collections.abc import Sequence

from confluent_kafka import Message, TopicPartition

from spark_ordered_kafka.client.consumer import OrderedConsumer


def pause_some(consumer: OrderedConsumer, rng: random.Random) -> None:
    """Any of its partitions, or none."""
    assigned = consumer.assignment()
    consumer.pause(rng.sample(assigned, rng.randint(0, len(assigned))))


def resume_all(consumer: OrderedConsumer) -> None:
    """Whatever is paused."""
    consumer.resume(consumer.assignment())


def seek_back(consumer: OrderedConsumer, rng: random.Random, messages: Sequence[Message]) -> None:
    """To one of these, if it has the partition of any."""
    assigned = {(one.topic, one.partition) for one in consumer.assignment()}
    own = [one for one in messages if (one.topic(), one.partition()) in assigned]
    if own:
        one = rng.choice(own)
        consumer.seek(TopicPartition(one.topic() or "", one.partition() or 0, one.offset() or 0))
