"""Read, transform, write in long transactions: members come and go, transforms fail, transactions are aborted.

A random program of all that an application may do, judged by a model: every record's output once, in the order of its key.
Every run has a new seed; ``PROGRAM_SEED=123 pytest tests/integration/test_read_transform_write.py`` runs one again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
from confluent_kafka import Message

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.checker import Report
from spark_ordered_kafka.errors import RebalancedError, UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.queries import await_stable
from tests.seeds import fresh_seeds
from tests.servers import await_true
from tests.streams import NumberedWriter, change, create, judged, records_in_order

SEEDS = [int(seed) for seed in os.environ.get("PROGRAM_SEED", "").split()] or fresh_seeds(__name__, 1)
CONSUMES = 10
ACTIONS = (
    "transform",
    "idle",
    "fail",
    "abort",
    "rewind",
    "commit",
    "ask twice",
    "commit briefly",
    "flush",
    "leave",
    "subscribe",
    "change",
)
WEIGHTS = (60, 4, 5, 3, 2, 14, 2, 8, 2, 3, 2, 3)


@dataclass(frozen=True)
class Copy:
    """A topic and its copy."""

    cluster: LocalCluster
    source: str
    target: str

    def consumer(self) -> OrderedConsumer:
        """A new member of the group."""
        consumer = OrderedConsumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "controller.url": self.cluster.controller_url,
                "group.id": self.target,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
            }
        )
        consumer.subscribe([self.source])
        return consumer

    def producer(self) -> OrderedProducer:
        """One that commits on request."""
        return OrderedProducer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "controller.url": self.cluster.controller_url,
                "commit.interval.ms": 0,
            }
        )

    def copied(self) -> list[Message]:
        """What the copy holds, each key in the order of writing."""
        await_stable(self.cluster, self.target)
        return records_in_order(self.cluster, self.target)

    def verdict(self, written: int) -> Report:
        """Every record once, in the order of its key."""
        return judged(self.copied(), written)


@pytest.fixture
def copy(cluster: LocalCluster, topic_name: str) -> Copy:
    create(cluster, topic_name, 2)
    return Copy(cluster, topic_name, create(cluster, f"{topic_name}-copy", 2))


class TransformError(Exception):
    """The application's own."""


class Worker:
    """One member, with its producer: what an application does between two commits, in any order."""

    def __init__(self, copy: Copy, rng: random.Random) -> None:
        self.copy = copy
        self.rng = rng
        self.consumer = copy.consumer()
        self.producer = copy.producer()
        self.consumed = 0
        self.has_met = False

    def transform(self, most: int | None = None, count: int = 40) -> int:
        """Read some and produce what is made of them, ``most`` at most; commit when it is time."""
        messages = self.consumer.consume(self.rng.randint(1, count), 0.02)
        for message in messages[:most]:
            self.producer.produce(self.copy.target, message.value(), message.key())
        if most is not None:
            raise TransformError
        self.consumed += 1
        if self.consumed >= CONSUMES:
            self.commit()
        return len(messages)

    def idle(self) -> None:
        assert self.consumer.consume(0, 0) == []

    def fail(self) -> None:
        """A transform fails before, between or after the records it produces."""
        with suppress(TransformError):
            self.transform(self.rng.choice((0, 3, 1000)))
        self.give_up()

    def give_up(self) -> None:
        """Both, in either order: the producer may not have met the consumer yet."""
        steps: list[Callable[[], None]] = [self.producer.abort, self.consumer.rewind]
        self.rng.shuffle(steps)
        for step in steps:
            step()
        self.consumed = 0

    def abort(self) -> None:
        """What was asked for is not done."""
        self.has_met = True
        with suppress(RebalancedError):
            self.producer.send_offsets(self.consumer)
        self.producer.abort()
        self.consumed = 0

    def rewind(self) -> None:
        """With nothing to abort, or without a thought of the producer."""
        self.consumer.rewind()

    def commit(self) -> None:
        self.consumed, self.has_met = 0, True
        try:
            self.producer.send_offsets(self.consumer)
            self.producer.commit()
        except RebalancedError:
            if self.rng.random() < 0.5:
                self.producer.abort()

    def commit_briefly(self) -> None:
        """Without the patience to see the end of it: it may be committed behind all that follows, a rebalance included."""
        self.has_met = True
        with suppress(RebalancedError, UnavailableError):
            self.producer.send_offsets(self.consumer)
            self.producer.commit(self.rng.choice((0.0, 0.001, 0.01)))

    def flush(self) -> None:
        """As confluent's examples end; before offsets were asked for, that would commit records without them."""
        if self.has_met:
            with suppress(RebalancedError):
                self.producer.flush(self.rng.choice((0.0, 0.01, 5.0)))

    def ask_twice(self) -> None:
        self.has_met = True
        with suppress(RebalancedError):
            self.producer.send_offsets(self.consumer)
            self.transform()
        self.commit()

    def subscribe(self) -> None:
        """Join the group anew, in the middle of whatever goes on."""
        self.consumer.subscribe([self.copy.source])

    def close(self) -> None:
        """End in the middle of a transaction, in either order."""
        if not self.has_met:
            # Until then nobody knows what the records were made of.
            self.producer.abort()
        steps = [self.producer.close, self.consumer.close]
        self.rng.shuffle(steps)
        for step in steps:
            # Of a commit that had timed out: what it was made of comes again.
            with suppress(RebalancedError):
                step()


class Program:
    """A random program of up to three members."""

    def __init__(self, copy: Copy, seed: int) -> None:
        self.copy = copy
        self.rng = random.Random(seed)
        self.trace: list[str] = []
        self.workers = [Worker(copy, self.rng)]
        self.counts = {copy.source: 2, copy.target: 2}

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.consumer.close()
            worker.producer.abort()
            worker.producer.close()

    def step(self) -> None:
        (action,) = self.rng.choices(ACTIONS, WEIGHTS)
        worker = self.rng.choice(self.workers)
        self.trace.append(f"{self.workers.index(worker)} {action}")
        if action == "change":
            # Of the source readers wait for each other, of the target open transactions are fenced.
            topic = self.rng.choice(list(self.counts))
            self.counts[topic] = self.rng.choice([n for n in (2, 3, 5) if n != self.counts[topic]])
            change(self.copy.cluster, topic, self.counts[topic])
        elif action == "leave" and len(self.workers) > 1:
            self.workers.remove(worker)
            worker.close()
        elif action == "leave":
            self.workers += [Worker(self.copy, self.rng) for _ in range(self.rng.randint(1, 2))]
        else:
            getattr(worker, action.replace(" ", "_"))()
        # Whoever does not serve the group holds up its rebalances.
        for other in self.workers:
            other.transform()

    def finish(self, written: int) -> None:
        """Until the copy has as many records as were written, or more."""

        def done() -> bool:
            if sum(worker.transform(count=2_000) for worker in self.workers) > 0:
                return False
            for worker in self.workers:
                worker.commit()
            return len(self.copy.copied()) >= written

        await_true(done, f"{written} records copied", 180.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_transformed_once_whatever_an_application_does(copy: Copy, seed: int) -> None:
    writer = NumberedWriter(copy.cluster, copy.source, keys=12, step=5)
    with Program(copy, seed) as program:
        try:
            for _ in range(60):
                if program.rng.random() < 0.5:
                    writer.write()
                program.step()
            program.finish(writer.written)
            report = copy.verdict(writer.written)
            assert report.violations == 0, report
        except Exception as error:
            raise AssertionError(f"PROGRAM_SEED={seed}: {error}; {', '.join(program.trace)}") from error
