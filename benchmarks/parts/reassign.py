"""How long moving replicas takes, beside Kafka's own ``kafka-reassign-partitions``, and asking how far a large request is."""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

from confluent_kafka import Producer

from benchmarks.bench import Bench, connection_to
from benchmarks.figures import OURS, Measurement, Sample, alternate
from benchmarks.kafka_tools import kafka_tool
from benchmarks.requests import POLL, TIMEOUT, Replicas, await_done, await_end, settle, start
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.properties import client_properties
from spark_ordered_kafka.kafka.reassignments import Reassignments

_TOOL = "kafka-reassign-partitions"
_RATIO_GOAL = 1.1
_STATUS_GOAL_MS = 200.0
_CALLS = 20
_RECORD = 100_000


def reassign(bench: Bench) -> Iterator[Measurement]:
    """Moving partitions there and back between real brokers, beside Kafka's own tool; and the status of a large request."""
    connection = connection_to(bench.three_brokers)
    # What is to be measured is not the download.
    kafka_tool(_TOOL, "--version", progress=bench.say)
    admin = KafkaAdmin(connection.kafka, timeout=TIMEOUT)
    try:
        with ControllerClient.of(connection) as controller:
            for partitions, size in (
                (bench.scale.moved_partitions, bench.scale.moved_mb),
                (bench.scale.moved_at_once, 1),
            ):
                yield _moves(bench, connection, admin, controller, partitions, size)
            yield from _status(bench, admin, controller)
    finally:
        admin.close()


def _moves(
    bench: Bench,
    connection: Connection,
    admin: KafkaAdmin,
    controller: ControllerClient,
    partitions: int,
    size: int,
) -> Measurement:
    """``size`` in MB, or a record of 100 kB in each partition if that is more."""
    topic = f"bench-{uuid.uuid4().hex[:10]}"
    size = max(size, partitions * _RECORD // 1_000_000)
    first, second = (broker.id for broker in admin.brokers()[:2])
    home, away = ({p: [broker] for p in range(partitions)} for broker in (first, second))
    admin.create_topic(topic, home, {"compression.type": "uncompressed"})
    settle(admin, topic, home)
    bench.say(f"reassign: writing {size:,} MB into {partitions} partitions")
    _fill(connection, topic, partitions, 1_000_000 * size)
    tool = _Tool(connection, Reassignments(admin.requests, timeout=TIMEOUT))
    with_start = []

    def by_controller(replicas: Replicas) -> float:
        begun = time.monotonic()
        await_done(controller, start(controller, topic, replicas))
        return time.monotonic() - begun

    def by_tool(replicas: Replicas) -> float:
        moved, taken = tool.move(topic, replicas)
        with_start.append(taken)
        return moved

    def there_and_back(contender: str) -> Sample:
        seconds = 0.0
        for replicas in (away, home):
            seconds += (by_controller if contender == OURS else by_tool)(replicas)
            settle(admin, topic, replicas)
        bench.say(f"reassign: {contender}: there and back in {seconds:.2f} s")
        return Sample(seconds)

    samples = alternate([OURS, _TOOL], there_and_back, bench.scale.rounds)
    pairs = zip(with_start[::2], with_start[1::2], strict=True)
    samples[f"{_TOOL}, with its start"] = [Sample(there + back) for there, back in pairs][
        -bench.scale.rounds :
    ]
    title = f"moving {partitions} partitions with {size:,} MB there and back"
    note = "The tool's time begins when Kafka has its plan, ours with the request."
    return Measurement("reassign", title, "s", "less", samples, _RATIO_GOAL, note=note)


class _Tool:
    """Kafka's own tool.

    Args:
        connection: the cluster, with nothing else going on.
    """

    def __init__(self, connection: Connection, reassignments: Reassignments) -> None:
        self._connection = connection
        self._reassignments = reassignments

    def move(self, topic: str, replicas: Replicas) -> tuple[float, float]:
        """Have replicas moved; seconds from when Kafka has the plan, and from the tool's start, until no reassignment goes on.

        Raises OrderedKafkaError: the tool failed, or did not end within ten minutes.
        """
        rows = [{"topic": topic, "partition": p, "replicas": list(b)} for p, b in replicas.items()]
        with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(1) as threads:
            plan = Path(directory) / "plan.json"
            plan.write_text(json.dumps({"version": 1, "partitions": rows}))
            servers = self._connection.bootstrap_servers
            begun = time.monotonic()
            running = threads.submit(
                kafka_tool,
                _TOOL,
                *("--bootstrap-server", servers, "--reassignment-json-file", str(plan), "--execute"),
            )
            taken = self._await_begin(running, begun)
            while self._reassignments.all_ongoing():
                if time.monotonic() >= begun + TIMEOUT:
                    raise UnavailableError(f"Kafka did not end its reassignment within {TIMEOUT:g} s")
                time.sleep(POLL)  # Kafka has no call that waits for it
            ended = time.monotonic()
            done = running.result()
        if done.returncode != 0:
            raise OrderedKafkaError(f"{_TOOL} failed: {done.stdout}{done.stderr}")
        return ended - taken, ended - begun

    def _await_begin(self, running: Future[CompletedProcess[str]], begun: float) -> float:
        """When Kafka was seen to have the plan, at the latest when the tool has ended."""
        while not self._reassignments.all_ongoing() and not running.done():
            if time.monotonic() >= begun + TIMEOUT:
                raise UnavailableError(f"{_TOOL} did not end within {TIMEOUT:g} s")
            time.sleep(POLL)  # as above
        return time.monotonic()


def _fill(connection: Connection, topic: str, partitions: int, size: int) -> None:
    producer = Producer(client_properties({**connection.kafka, "linger.ms": "50"}))
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


def _status(bench: Bench, admin: KafkaAdmin, controller: ControllerClient) -> Iterator[Measurement]:
    """Have the partitions of a topic get two new replicas each, ask how far that is, cancel the rest, and ask again."""
    topic, replicas = f"bench-{uuid.uuid4().hex[:10]}", bench.scale.status_replicas
    brokers = [broker.id for broker in admin.brokers()]
    home = {p: [brokers[p % len(brokers)]] for p in range(replicas // 2)}
    admin.create_topic(topic, home, {})
    settle(admin, topic, home)
    bench.say(f"reassign: asking how far {replicas:,} replicas are")
    away = {p: [b for b in brokers if b not in home[p]][:2] for p in home}
    request_id = start(controller, topic, away)
    running = _timed(controller, request_id, replicas, complete=False)
    controller.cancel_reassignment(request_id)
    await_end(controller, request_id)
    ended = _timed(controller, request_id, replicas, complete=True)
    for state, samples in (("in progress", running), ("ended", ended)):
        title = f"status of a request of {replicas:,} replicas, {state}"
        yield Measurement("reassign", title, "ms", "less", {OURS: samples}, _STATUS_GOAL_MS, "value")


def _timed(controller: ControllerClient, request_id: int, replicas: int, *, complete: bool) -> list[Sample]:
    """Milliseconds of some calls, as long as the request goes on or, with ``complete``, after its end."""
    samples = []
    for _ in range(_CALLS):
        begun = time.perf_counter()
        view = controller.reassignment(request_id)
        taken = 1000 * (time.perf_counter() - begun)
        if len(view.replicas) != replicas:
            raise OrderedKafkaError(
                f"the status of reassignment {request_id} has {len(view.replicas)} replicas, not {replicas}"
            )
        if view.complete != complete:
            break
        samples.append(Sample(taken))
    if not samples:
        raise OrderedKafkaError(f"reassignment {request_id} ended before its status was asked")
    return samples
