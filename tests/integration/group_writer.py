"""Writes numbered records until SIGTERM: ``python -m tests.integration.group_writer PORT NAME TOPIC KEYS CONF_AS_JSON``.

Its keys are its own. What was acknowledged is reported to the judge.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from confluent_kafka import KafkaError, Message

from spark_ordered_kafka.client.producer import OrderedProducer
from tests.integration.group_judge import Reports

PACE = 0.04
"""Seconds between two records of a key."""


def main(port: str, name: str, topic: str, keys: str, conf: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    reports = Reports(int(port), name)
    acknowledged: list[tuple[str, int]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, _, number = (message.value() or b"").decode().partition(":")
        acknowledged.append((key, int(number)))

    number = 0
    with OrderedProducer(json.loads(conf)) as producer:
        while not stop.wait(PACE):
            for key in (f"{name}-{each}" for each in range(int(keys))):
                producer.produce(topic, f"{key}:{number}", key, on_delivery=on_delivery)
            number += 1
            producer.poll(0)
            if acknowledged:
                reports.tell("acknowledged", acknowledged)
                acknowledged.clear()
        producer.flush()
    reports.tell("acknowledged", acknowledged)
    reports.goodbye()


if __name__ == "__main__":
    main(*sys.argv[1:])
