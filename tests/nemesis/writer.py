"""Writes numbered records until SIGTERM: ``python -m tests.nemesis.writer HISTORY NAME TOPIC KEYS AT_ONCE CONF_AS_JSON``.

A record's key is ``NAME-i``, its value ``NAME-i:number``. NAME is another after each start, so that the numbers of a key
always begin with 0. AT_ONCE records of each key are written ten times a second. What was acknowledged is in the history.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from itertools import product
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message

from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.errors import OrderedKafkaError
from tests.nemesis.journal import Journal

PACE = 0.1
"""Seconds between two rounds through all keys."""
_NOTED = 0.5
"""Seconds between two notes of what was acknowledged."""


def main(history: str, name: str, topic: str, keys: str, at_once: str, conf: str) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal = Journal(Path(history), name)
    acknowledged: dict[str, int] = {}
    failures: list[str] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(str(error))
            return
        key, _, number = (message.value() or b"").decode().partition(":")
        acknowledged[key] = int(number)

    def note() -> None:
        if acknowledged:
            journal.note("acknowledged", topic=topic, last=acknowledged)
            acknowledged.clear()

    names = [f"{name}-{each}" for each in range(int(keys))]
    begun, noted = 0, time.monotonic()
    try:
        with OrderedProducer(json.loads(conf)) as producer:
            while not stop.wait(PACE) and not failures:
                for number, key in product(range(begun, begun + int(at_once)), names):
                    try:
                        producer.produce(topic, f"{key}:{number}", key, on_delivery=on_delivery)
                    except BufferError:
                        # Too much waits; the next start has keys of its own.
                        failures.append("the queue is full")
                        break
                begun += int(at_once)
                producer.poll(0)
                if time.monotonic() - noted >= _NOTED:
                    note()
                    noted = time.monotonic()
            producer.flush()
    except (OrderedKafkaError, KafkaException) as error:
        failures.append(f"{type(error).__name__}: {error}")
    note()
    if failures:
        journal.note("failed", error=failures[0], errors=len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
