"""Looks at a run from a host that nothing is done to: znodes, replicas of brokers, memory and the like of processes."""

from __future__ import annotations

import gzip
import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from spark_ordered_kafka.errors import OrderedKafkaError
from tests.nemesis.cluster import Cluster
from tests.nemesis.journal import Journal
from tests.nemesis.nodes import Node

_ROOT = "/ordered-kafka"
_EVERY = 0.5
"""Seconds between two looks at znodes; at processes it is looked every tenth time."""
_GZIP = b"\x1f\x8b"
_quiet = logging.getLogger(f"{__name__}.quiet")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Watch:
    """Notes in the journal what it sees. ``quiet``: nothing is being done to processes, so they are measured.

    Of Spark's ``workers`` their executors are, in which tasks run.
    """

    def __init__(
        self, cluster: Cluster, clients: Mapping[str, Node], workers: Mapping[str, Node], journal: Journal
    ) -> None:
        self.quiet = threading.Event()
        self._cluster = cluster
        self._journal = journal
        own = {name: cluster.nodes[name] for name in cluster.names("controller")}
        self._measured = {**own, **clients}
        self._workers = workers
        self._zookeeper = KazooClient(
            **cluster.zookeeper, logger=_quiet, connection_retry={"max_tries": -1, "max_delay": 1.0}
        )
        self._zookeeper.start(30)
        self._admin = cluster.admin()
        self._seen: dict[object, object] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._thread.join(60)
        self._zookeeper.stop()
        self._zookeeper.close()

    def _run(self) -> None:
        number = 0
        while not self._closing.wait(_EVERY):
            number += 1
            # Servers may be away: then there is nothing to see.
            with suppress(KazooException, KazooTimeoutError):
                self._look_at_topics()
                self._look_at_numbers()
            if number % 4 == 0:
                with suppress(KazooException, KazooTimeoutError, KafkaException, OrderedKafkaError):
                    self._look_at_brokers()
            if number % 10 == 0 and self.quiet.is_set():
                self._measure()

    def _read(self, path: str) -> tuple[Any, int]:
        """The content of a znode, and ZooKeeper's number of the transaction that wrote it."""
        data, stat = self._zookeeper.get(path)
        return json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data), stat.mzxid

    def _children(self, path: str) -> list[str]:
        return list(self._zookeeper.get_children(path)) if self._zookeeper.exists(path) else []

    def _note(self, action: str, *place: object, **outcome: Any) -> None:
        """Note what differs from the last time."""
        if self._seen.get((action, *place)) != outcome:
            self._seen[(action, *place)] = outcome
            self._journal.note(action, **outcome)

    def _look_at_topics(self) -> None:
        for topic in self._children(f"{_ROOT}/topics"):
            # Another topic of the name may come in between: its id is read before and after.
            before, _ = self._read(f"{_ROOT}/topics/{topic}")
            layouts = {
                int(epoch): json.dumps(
                    self._read(f"{_ROOT}/topics/{topic}/layouts/{epoch}")[0], sort_keys=True
                )
                for epoch in self._children(f"{_ROOT}/topics/{topic}/layouts")
            }
            after, _ = self._read(f"{_ROOT}/topics/{topic}")
            if before["topic_id"] == after["topic_id"]:
                for epoch, content in layouts.items():
                    place = {"topic": topic, "topic_id": before["topic_id"], "epoch": epoch}
                    self._note("layout", *place.values(), **place, content=content)

    def _look_at_numbers(self) -> None:
        path = f"{_ROOT}/admin/reassign_partitions"
        if self._zookeeper.exists(path):
            self._note("number", "request", what="request id", value=self._zookeeper.get(path)[1].version)
        if self._zookeeper.exists(f"{_ROOT}/controller_epoch"):
            epoch = int(self._zookeeper.get(f"{_ROOT}/controller_epoch")[0])
            self._note("number", "epoch", what="controller epoch", value=epoch)

    def _limits(self) -> dict[int, tuple[int, int]]:
        """By broker its limit, and when that was set."""
        limits = {}
        for broker in self._children(f"{_ROOT}/brokers/ids"):
            record, written = self._read(f"{_ROOT}/brokers/ids/{broker}")
            limits[int(broker)] = record["guard_rails"]["max_partitions"], written
        return limits

    def _look_at_brokers(self) -> None:
        before = self._limits()
        with self._cluster.controller(timeout=3.0, retry_for=0.0) as client:
            planned = {one.id: one.hosted for one in client.brokers().brokers}
        metadata = self._admin.list_topics(timeout=3)
        hosted = Counter(
            replica
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
            for replica in partition.replicas
        )
        for broker, (limit, written) in self._limits().items():
            if before.get(broker) == (limit, written):
                self._note(
                    "hosted",
                    broker,
                    broker=broker,
                    limit=limit,
                    written=written,
                    hosted=hosted[broker],
                    planned=planned.get(broker, 0),
                )

    def _measure(self) -> None:
        for name, node in (*self._measured.items(), *self._workers.items()):
            if node.running and node.process is not None:
                with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                    is_worker = name in self._workers
                    role = "executor" if is_worker else name.rpartition("-")[0]
                    for process in node.process.children() if is_worker else [node.process]:
                        self._journal.note("usage", role=role, node=name, **usage(process))


def usage(process: psutil.Process) -> dict[str, float]:
    """What a process and its children have. Not the memory of Spark's, which is for the JVM to decide."""
    family = [process, *process.children(recursive=True)]
    found: dict[str, float] = {
        "age": time.time() - process.create_time(),
        "threads": sum(one.num_threads() for one in family),
        "files": sum(one.num_fds() for one in family),
        "connections": sum(_connections(one.pid) for one in family),
    }
    if not any(one.name() == "java" for one in family):
        found["rss"] = process.memory_info().rss
    return found


def _connections(pid: int) -> int:
    """TCP sockets of a process. psutil looks for them on the host on which it runs itself, and these have their own."""
    process = Path("/proc", str(pid))
    tables = [(process / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    known = {f"socket:[{row.split()[9]}]" for table in tables for row in table}
    found = 0
    for file in (process / "fd").iterdir():
        # One that is closed meanwhile.
        with suppress(FileNotFoundError):
            found += os.readlink(file) in known
    return found


def throttles(cluster: Cluster, topics: list[str]) -> list[tuple[str, str, str]]:
    """Throttles that brokers and topics have: resource, name, value."""
    admin = cluster.admin()
    brokers = [str(number) for number in admin.list_topics(timeout=10).brokers]
    asked = [ConfigResource(ResourceType.BROKER, one) for one in brokers]
    asked += [ConfigResource(ResourceType.TOPIC, one) for one in topics]
    # A call may have one broker only.
    described = [admin.describe_configs([one], request_timeout=30)[one].result() for one in asked]
    return [
        (f"{resource.restype.name} {resource.name}", entry.name, entry.value)
        for resource, entries in zip(asked, described, strict=True)
        for entry in entries.values()
        if "throttled" in entry.name and not entry.is_default and entry.value
    ]


def await_quietly(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition came to hold in time; an error of a server that is away counts as no."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OrderedKafkaError, KafkaException):
            if condition():
                return True
        time.sleep(0.25)
    return False
