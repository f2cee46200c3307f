"""The demo of automatic partition counts: a load rises and falls on real servers, the topic follows, and order is checked."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from spark_ordered_kafka.checker import Report, check
from spark_ordered_kafka.client.consumer import OrderedConsumer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.client.schemas import AutoscaleTopic, CreateTopicRequest
from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.local import LocalCluster, processes, readiness
from spark_ordered_kafka.local.launcher import START_TIMEOUT
from spark_ordered_kafka.local.ports import free_ports

TOPIC = "demo-load"
_KEYS = 200
_TICK = 0.05
_STOP_TIMEOUT = 15.0
_SHRINK_TIMEOUT = 30.0
# Seconds from the start, and records per second from then on.
_LOAD = ((0.0, 40), (5.0, 400), (15.0, 1200), (30.0, 200), (42.0, 40))
_CONFIG = """host = "127.0.0.1"
port = {port}
kafka.bootstrap.servers = "{kafka}"
zookeeper.connect = "{zookeeper}"
log.level = "WARNING"

[autoscale]
mode = "act"
interval.ms = 1000
target.bytes.per.second = 0
target.records.per.second = 300
grow.after.ms = 2000
shrink.after.ms = 6000
cooldown.ms = 3000
changes.per.day = 100
max.partitions = 8
"""

Show = Callable[[float, int, int, AutoscaleTopic], None]
"""Called about once a second: seconds since the start, records written and read so far, and the topic."""


def run(directory: Path, kafka_version: str, show: Show) -> tuple[Report, int]:
    """Run the demo in ``directory``; what the check found, and how many changes were made.

    Raises ConfigError where it has run before, LocalClusterError when a server does not start, and the error of a client that
    fails.
    """
    if _config(directory).exists():
        raise ConfigError("--dir", str(directory), "a demo has run there; name another directory")
    with (
        processes.ended_by_sigterm(),
        LocalCluster(directory / "servers", controllers=0, kafka_version=kafka_version) as cluster,
        _controller(directory, cluster) as client,
    ):
        client.create_topic(CreateTopicRequest(topic=TOPIC, partitions=1, replication_factor=1))
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "controller.url": client.urls[0]}
        writer, reader = _Writer(servers), _Reader(servers)
        with writer, reader:
            return _drive(client, writer, reader, show)


def _drive(client: ControllerClient, writer: _Writer, reader: _Reader, show: Show) -> tuple[Report, int]:
    began, end = time.monotonic(), _LOAD[-1][0] + _SHRINK_TIMEOUT
    changes = 0
    while True:
        elapsed = time.monotonic() - began
        writer.rate = next(rate for since, rate in reversed(_LOAD) if elapsed >= since)
        writer.check()
        reader.check()
        topic = next(row for row in client.autoscale().topics if row.topic == TOPIC)
        changes = max(changes, len(topic.changes))
        show(elapsed, writer.written, len(reader.values), topic)
        if elapsed > _LOAD[-1][0] and (topic.count == 1 or elapsed > end):
            break
        reader.failed.wait(1.0)
    writer.stop()
    deadline = time.monotonic() + _STOP_TIMEOUT
    while len(reader.values) < writer.written and time.monotonic() < deadline and not reader.failed.wait(0.1):
        pass
    reader.stop()
    rows = [value.split(":") for value in reader.values]
    report = check(
        np.array([key for key, _ in rows]), np.array([int(number) for _, number in rows]), writer.written
    )
    return report, changes


def _config(directory: Path) -> Path:
    return directory / "controller.toml"


@contextmanager
def _controller(directory: Path, cluster: LocalCluster) -> Iterator[ControllerClient]:
    """A controller process that changes partition counts by itself."""
    port = next(free_ports((), random.Random()))
    config, log = _config(directory), directory / "controller.log"
    zookeeper = cluster.zookeeper
    config.write_text(_CONFIG.format(port=port, kafka=cluster.bootstrap_servers, zookeeper=zookeeper))
    command = [sys.executable, "-m", "spark_ordered_kafka.cli", "controller", "run", "--config", str(config)]
    controller = processes.spawn(command, directory=directory, log=log, env={})
    url = f"http://127.0.0.1:{port}"

    def check() -> None:
        if processes.find(controller) is None:
            raise LocalClusterError(f"the controller has ended: {log.read_text()}")

    def overdue() -> str:
        return f"the controller is not ready after {START_TIMEOUT:g} s: {log.read_text()}"

    try:
        with readiness.http_ready(f"{url}/readyz", None) as ready:
            readiness.wait_until(ready, timeout=START_TIMEOUT, otherwise=overdue, check=check)
        with ControllerClient(url) as client:
            yield client
    finally:
        processes.stop(processes.running([controller]), grace=_STOP_TIMEOUT)


class _Client:
    """A thread, whose error :meth:`check` raises."""

    def __init__(self) -> None:
        self.failed = threading.Event()
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=type(self).__name__, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and wait for that."""
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT)

    def check(self) -> None:
        """Raises what has ended it."""
        if self._error is not None:
            raise self._error

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - raised by check()
            self._error = error
            self.failed.set()

    def _run(self) -> None:
        raise NotImplementedError


class _Writer(_Client):
    """Writes numbered records, ``rate`` per second."""

    def __init__(self, servers: dict[str, str]) -> None:
        super().__init__()
        self.rate = 0
        self.written = 0
        self._servers = servers

    def _run(self) -> None:
        with OrderedProducer(self._servers) as producer:
            while not self._stop.wait(_TICK):
                for _ in range(max(1, round(self.rate * _TICK))):
                    key = f"user-{self.written % _KEYS}"
                    producer.produce(TOPIC, key=key.encode(), value=f"{key}:{self.written // _KEYS}".encode())
                    self.written += 1
                producer.poll(0)


class _Reader(_Client):
    """Reads all records, in the order of delivery."""

    def __init__(self, servers: dict[str, str]) -> None:
        super().__init__()
        self.values: list[str] = []
        self._conf = servers | {"group.id": "demo", "auto.offset.reset": "earliest"}

    def _run(self) -> None:
        with OrderedConsumer(self._conf) as consumer:
            consumer.subscribe([TOPIC])
            while not self._stop.is_set():
                for message in consumer.consume(1000, timeout=0.2):
                    self.values.append((message.value() or b"").decode())
