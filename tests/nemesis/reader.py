"""Reads a topic as one of a group, restlessly: ``python -m tests.nemesis.reader HISTORY NAME TOPIC READS SEED``.

READS is a configuration as JSON; how it reads is drawn by the SEED and its NAME, another after each start. Each batch that it was
given is in the history before it asks for the next one, which is when ``enable.auto.commit`` takes records for processed.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message

from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.errors import OrderedKafkaError
from tests.nemesis.journal import Journal
from tests.steering import pause_some, resume_all, seek_back

_SLOW = {"max.poll.interval.ms": "6000"}
_WORK = 7.0
"""Seconds for which a slow reader works on a batch now and then: for longer than its group waits for it."""
_WAYS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({}, {"enable.partition.eof": "true"}),
    ({"enable.auto.commit": "false"}, {"auto.commit.interval.ms": "1"}, {"auto.commit.interval.ms": "1000"}),
    ({}, {}, {"fetch.message.max.bytes": "300", "queued.min.messages": "1"}),
    ({}, {"fetch.wait.max.ms": "10"}, {"fetch.wait.max.ms": "2000"}),
    ({}, {}, {}, {}, _SLOW),
)
"""One of each row is a reader's."""
_OPEN = 60
"""How often a reader asks for records before it closes, and opens again in another way."""


class Reader:
    """What one consumer does between being opened and closed."""

    def __init__(
        self,
        consumer: OrderedConsumer,
        journal: Journal,
        rng: random.Random,
        way: Mapping[str, Any],
        wait: Callable[[float], object],
    ) -> None:
        self._consumer, self._journal, self._rng, self._wait = consumer, journal, rng, wait
        self._commits = way.get("enable.auto.commit") == "false"
        self._is_slow = way.items() >= _SLOW.items()
        self._one_by_one = rng.random() < 0.3
        self._last: list[Message] = []

    def read(self) -> None:
        """Ask for records, and note those that come."""
        timeout = self._rng.choice((0.0, 0.1, 0.5))
        asked = [self._consumer.poll(timeout)] if self._one_by_one else self._consumer.consume(500, timeout)
        found = [one for one in asked if one is not None and one.error() is None]
        if found:
            self._last = found
            self._journal.note(
                "delivered", runs=runs((one.partition() or 0, one.offset() or 0) for one in found)
            )

    def act(self) -> None:
        """What an application does between two batches; mostly nothing."""
        consumer, rng = self._consumer, self._rng
        acts: list[Callable[[], object]] = [
            lambda: pause_some(consumer, rng),
            lambda: resume_all(consumer),
            lambda: resume_all(consumer),
            lambda: seek_back(consumer, rng, self._last),
            consumer.rewind,
        ]
        if self._is_slow:
            acts.append(lambda: self._wait(_WORK))
        if rng.random() < 0.1:
            rng.choice(acts)()
        if self._commits and rng.random() < 0.3:
            consumer.commit()


def runs(places: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Partitions and offsets of records as they came; those from one offset to the next are one: partition, first, last."""
    found: list[list[int]] = []
    for partition, offset in places:
        if found and found[-1][0] == partition and found[-1][2] + 1 == offset:
            found[-1][2] = offset
        else:
            found.append([partition, offset, offset])
    return found


def drawn(rng: random.Random, instance: str) -> dict[str, Any]:
    """How a consumer reads. ``instance``: its name in the group, if it is a static member."""
    conf: dict[str, Any] = {} if rng.random() < 0.5 else {"group.instance.id": instance}
    for row in _WAYS:
        conf |= rng.choice(row)
    return conf


def main(history: str, name: str, topic: str, reads: str, seed: str) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    journal, rng = Journal(Path(history), name), random.Random(f"{seed} {name}")
    while not stop.is_set():
        way = drawn(rng, name.partition(".")[0])
        try:
            with OrderedConsumer(json.loads(reads) | way) as consumer:
                consumer.subscribe([topic])
                reader = Reader(consumer, journal, rng, way, stop.wait)
                for _ in range(_OPEN):
                    if not stop.is_set():
                        reader.read()
                        reader.act()
        except (OrderedKafkaError, KafkaException) as error:
            journal.note("failed", error=f"{type(error).__name__}: {error}", way=way)
            stop.wait(0.5)
    journal.note("goodbye")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
