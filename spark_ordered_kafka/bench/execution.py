"""How long moving replicas takes, beside Kafka's own ``kafka-reassign-partitions``."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from spark_ordered_kafka.bench.figures import Spread
from spark_ordered_kafka.bench.requests import POLL, TIMEOUT, Replicas, await_done, settle, start
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.clients import client_properties
from spark_ordered_kafka.kafka.reassignments import Reassignments

RATIO_GOAL = 1.1

_RECORD = 100_000

KafkaTool = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs a tool of Kafka by its name and arguments."""


@dataclass(frozen=True)
class Execution:
    """Seconds from asking for a plan until all of it is done; ``bytes`` are in ``partitions`` partitions.

    ``ordered``: from sending the request until the controller says that it is complete. ``kafka``: from the moment
    when Kafka's controller has the plan, which leaves out what Java and the tool take to start, until no reassignment
    goes on; ``kafka_with_start``: from starting the tool. ``ratio``: ordered to kafka, of each repeat.
    """

    partitions: int
    bytes: int
    ordered: Spread
    kafka: Spread
    kafka_with_start: Spread
    ratio: Spread
    goal: float = RATIO_GOAL


@dataclass(frozen=True)
class _Turn:
    """Seconds of one plan and its reverse, by each of the two; as :class:`Execution`."""

    ordered: float
    kafka: float
    kafka_with_start: float


class ExecutionBench:
    """Moves one topic between the first two brokers, by turns with the controller and with Kafka's tool.

    Args:
        connection: the cluster, with nothing else going on, and its controller.
        tool: runs Kafka's tools.
    """

    def __init__(self, connection: Connection, admin: KafkaAdmin, tool: KafkaTool) -> None:
        self._connection = connection
        self._admin = admin
        self._tool = tool
        self._reassignments = Reassignments(admin.requests, timeout=TIMEOUT)

    def measure(
        self, topic: str, partitions: int, size: int, repeats: int, say: Callable[[str], None]
    ) -> Execution:
        """Make the topic and move it ``repeats`` times in each direction by each of the two.

        :param size: bytes of the whole topic.
        :raises OrderedKafkaError: one of the two failed, or did not end within ten minutes.
        """
        first, second = (broker.id for broker in self._admin.brokers()[:2])
        home, away = ({p: [broker] for p in range(partitions)} for broker in (first, second))
        self._admin.create_topic(topic, home, {"compression.type": "uncompressed"})
        settle(self._admin, topic, home)
        say(f"writing {size / 1e6:,.0f} MB into {partitions} partitions")
        self._fill(topic, partitions, size)
        turns = []
        with ControllerClient.of(self._connection) as controller:
            # Brokers that have just started take their time until their code is compiled.
            self._by_kafka(topic, away)
            self._by_controller(controller, topic, home)
            for repeat in range(repeats):
                # The order makes both meet the same drift of the machine.
                there = self._by_kafka(topic, away)
                back = self._by_controller(controller, topic, home)
                there_again = self._by_controller(controller, topic, away)
                back_again = self._by_kafka(topic, home)
                kafka, with_start = (a + b for a, b in zip(there, back_again, strict=True))
                turns.append(_Turn(back + there_again, kafka, with_start))
                say(
                    f"move there and back {repeat + 1} of {repeats}: kafka {kafka:.2f} s "
                    f"({with_start:.2f} s with the tool's start), ordered {turns[-1].ordered:.2f} s"
                )
        return Execution(
            partitions,
            size,
            Spread.of([turn.ordered for turn in turns]),
            Spread.of([turn.kafka for turn in turns]),
            Spread.of([turn.kafka_with_start for turn in turns]),
            Spread.of([turn.ordered / turn.kafka for turn in turns]),
        )

    def _fill(self, topic: str, partitions: int, size: int) -> None:
        producer = Producer(client_properties({**self._connection.kafka, "linger.ms": "50"}))
        record = os.urandom(_RECORD)
        failures: list[object] = []
        for number in range(max(partitions, size // _RECORD)):
            while True:
                try:
                    producer.produce(
                        topic,
                        record,
                        partition=number % partitions,
                        on_delivery=lambda error, _: failures.append(error) if error else None,
                    )
                    break
                except BufferError:
                    producer.poll(1.0)
            producer.poll(0)
        if producer.flush(TIMEOUT) or failures:
            raise UnavailableError(f"topic {topic!r} could not be written: {failures[:1]}")

    def _by_controller(self, controller: ControllerClient, topic: str, replicas: Replicas) -> float:
        begun = time.monotonic()
        await_done(controller, start(controller, topic, replicas))
        taken = time.monotonic() - begun
        settle(self._admin, topic, replicas)
        return taken

    def _by_kafka(self, topic: str, replicas: Replicas) -> tuple[float, float]:
        """Seconds without and with the tool's start."""
        rows = [{"topic": topic, "partition": p, "replicas": list(b)} for p, b in replicas.items()]
        with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(1) as threads:
            plan = Path(directory) / "plan.json"
            plan.write_text(json.dumps({"version": 1, "partitions": rows}))
            servers = self._connection.bootstrap_servers
            begun = time.monotonic()
            running = threads.submit(
                self._tool,
                "kafka-reassign-partitions",
                *("--bootstrap-server", servers, "--reassignment-json-file", str(plan), "--execute"),
            )
            taken = self._await_begin(running, begun)
            while self._reassignments.all_ongoing():
                if time.monotonic() >= begun + TIMEOUT:
                    raise UnavailableError(f"Kafka did not end its reassignment within {TIMEOUT:g} s")
                time.sleep(POLL)
            ended = time.monotonic()
            done = running.result()
        if done.returncode != 0:
            raise OrderedKafkaError(f"kafka-reassign-partitions failed: {done.stdout}{done.stderr}")
        settle(self._admin, topic, replicas)
        return ended - taken, ended - begun

    def _await_begin(self, running: Future[subprocess.CompletedProcess[str]], begun: float) -> float:
        """When Kafka was seen to have the plan, at the latest when the tool has ended."""
        while not self._reassignments.all_ongoing() and not running.done():
            if time.monotonic() >= begun + TIMEOUT:
                raise UnavailableError(f"kafka-reassign-partitions did not end within {TIMEOUT:g} s")
            time.sleep(POLL)
        return time.monotonic()
