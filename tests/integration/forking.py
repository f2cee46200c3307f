"""A program that forks while its clients are open: ``forking.py BOOTSTRAP CONTROLLER TOPIC``.

The child tries what it has inherited, then clients of its own, and ends as any program does; then the parent continues.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import ClosedError

FORKED = 2


def main(bootstrap: str, controller: str, topic: str) -> None:
    """Print what calls say."""
    servers = {"bootstrap.servers": bootstrap, "controller.url": controller}
    reading = servers | {"group.id": topic, "auto.offset.reset": "earliest"}
    with OrderedProducer(servers) as producer, OrderedConsumer(reading) as consumer:
        consumer.subscribe([topic])
        producer.produce(topic, "parent", "k")
        producer.flush()
        values = read(consumer, 1)
        # Not committed, and with more to send: the child must do nothing of it.
        producer.produce(topic, "open", "k")
        child = os.fork()
        if child == 0:
            calls: list[Callable[[], object]] = [
                lambda: producer.produce(topic, "lost", "k"),
                producer.flush,
                producer.abort,
                lambda: consumer.consume(1, 1.0),
                consumer.commit,
                consumer.close,
                producer.close,
            ]
            sys.stdout.write("\n".join(map(outcome, calls)) + "\n")
            with OrderedProducer(servers) as own:
                own.produce(topic, "child", "k")
            sys.exit(FORKED)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == FORKED, status
        producer.produce(topic, "parent again", "k")
        producer.flush()
        sys.stdout.write(f"{sorted(values + read(consumer, 3))}\n")


def outcome(call: Callable[[], object]) -> str:
    """What a call of the child says."""
    try:
        return repr(call())
    except ClosedError as error:
        return str(error).replace(str(os.getppid()), "PARENT")


def read(consumer: OrderedConsumer, count: int) -> list[bytes]:
    """The values of the next records."""
    found: list[bytes] = []
    while len(found) < count:
        found += [message.value() or b"" for message in consumer.consume(count, 0.5)]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
