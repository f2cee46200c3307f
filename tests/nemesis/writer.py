"""Writes numbered records until SIGTERM: ``python -m tests.nemesis.writer HISTORY NAME TOPIC KEYS CONF_AS_JSON``.

A record's key is ``NAME-i``, its value ``NAME-i:number``. NAME is another after each start, so that the numbers of a key
always begin with 0. What was acknowledged is in the history.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message

from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.errors import OrderedKafkaError
from tests.nemesis.journal import Journal

_PACE = 0.1
"""Seconds between two records of a key."""
_NOTED = 0.5
"""Seconds between two notes of what was acknowledged."""


def main(history: str, name: str, topic: str, keys: str, conf: str) -> int:
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
            journal.note("acknowledged", last=acknowledged)
            acknowledged.clear()

    number, noted = 0, time.monotonic()
    try:
        with OrderedProducer(json.loads(conf)) as producer:
            while not stop.wait(_PACE) and not failures:
                for key in (f"{name}-{each}" for each in range(int(keys))):
                    try:
                        producer.produce(topic, f"{key}:{number}", key, on_delivery=on_delivery)
                    except BufferError:
                        # Too much waits; the record is the next one again.
                        failures.append("the queue is full")
                        break
                number += 1
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
