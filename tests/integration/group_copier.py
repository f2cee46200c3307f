"""Copies a topic exactly once: ``python -m tests.integration.group_copier PORT NAME SOURCE TARGET CONSUMER PRODUCER``.

CONSUMER and PRODUCER are configurations as JSON. One of a group; may be killed at any time.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.errors import RebalancedError
from tests.integration.group_judge import Reports


def main(port: str, name: str, source: str, target: str, reads: str, writes: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    reports = Reports(int(port), name)
    with OrderedProducer(json.loads(writes)) as producer, OrderedConsumer(json.loads(reads)) as consumer:
        consumer.subscribe([source])
        while not stop.is_set():
            messages = consumer.consume(100, 0.1)
            if not messages:
                continue
            for message in messages:
                producer.produce(target, message.value(), message.key())
            try:
                producer.send_offsets(consumer)
                producer.commit()
            except RebalancedError:
                # Whoever has the partitions now gets the records again.
                producer.abort()
    reports.goodbye()


if __name__ == "__main__":
    main(*sys.argv[1:])
