"""Processes that write and read a topic as a group, and the judge they report to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.local import LocalCluster
from tests.integration.group_judge import Judge, JudgeServer
from tests.queries import await_stable
from tests.servers import TIMEOUT, unique_name
from tests.streams import raw_records

_AWAY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
ROOT = Path(__file__).parents[2]
DEADLINE = 90.0
"""Seconds for a group to go on after whatever was done to it."""


class Crew:
    """Starts and ends processes, by name; all end with the block.

    Args:
        cluster: the servers.
        topic: what is written and read.
        directory: for the processes' logs.
    """

    def __init__(self, cluster: LocalCluster, topic: str, directory: Path) -> None:
        self.topic = topic
        self.group = unique_name("group")
        self.judge = Judge()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cluster = cluster
        self._directory = directory
        self._servers = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "controller.url": cluster.controller_url,
        }
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
        self.server = JudgeServer(self.judge, self._committed)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(TIMEOUT)
        self.server.close()

    # -- processes ----------------------------------------------------------------------------------------------

    def member(self, name: str, fault: str = "none", **more: str) -> str:
        """Start a consumer."""
        conf = self._member_conf() | more
        self.start("tests.integration.group_member", name, self.topic, fault, json.dumps(conf))
        return name

    def _member_conf(self) -> dict[str, str]:
        """A member whose death is noticed soon, and that is not taken for dead while the machine stands still for a moment."""
        return self._servers | {
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": "300",
            "session.timeout.ms": "15000",
            "heartbeat.interval.ms": "500",
        }

    def writer(self, name: str, keys: int = 10) -> str:
        """Start a producer."""
        conf = json.dumps(self._writer_conf("50"))
        self.start("tests.integration.group_writer", name, self.topic, str(keys), conf)
        return name

    def _writer_conf(self, commit_interval: str) -> dict[str, str]:
        """A writer that leaves nothing open for long when it is killed: readers stand still at it."""
        return self._servers | {"commit.interval.ms": commit_interval, "transaction.timeout.ms": "10000"}

    def copier(self, name: str, target: str, **more: str) -> str:
        """Start a member that copies the topic to another."""
        reads, writes = self._member_conf() | {"enable.auto.commit": "false"} | more, self._writer_conf("0")
        arguments = (self.topic, target, json.dumps(reads), json.dumps(writes))
        self.start("tests.integration.group_copier", name, *arguments)
        return name

    def start(self, module: str, name: str, *arguments: str) -> None:
        """Start a process that reports to the judge as ``name``."""
        with self._log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, str(self.server.port), name, *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """``kill -9``."""
        process = self.processes.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(TIMEOUT)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """It stands still within the block, and has to end with an error after it."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            try:
                code = process.wait(TIMEOUT)
            finally:
                process.kill()
        assert code == 1, self.tail(name)

    def stop(self, name: str) -> None:
        """Let it end by itself."""
        # From then on it heeds signals.
        self.wait_for(lambda: name in self.server.names, f"{name} running")
        process = self.processes.pop(name)
        process.terminate()
        try:
            code = process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{name} does not end within {DEADLINE:g} s\n{self.tail(name)}") from None
        assert code == 0, self.tail(name)

    def tail(self, name: str) -> str:
        """The end of its log."""
        return f"{name}: {self._log(name).read_text(errors='replace')[-3000:]}"

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    # -- waiting ------------------------------------------------------------------------------------------------

    def wait_for(self, done: Callable[[], bool], what: str) -> None:
        """Wait; fails when it takes too long or a process ends by itself."""
        deadline = time.monotonic() + DEADLINE
        while True:
            with self.server.lock:
                if done():
                    return
            for name, process in self.processes.items():
                assert process.poll() is None, (
                    f"{name} ended by itself with {process.poll()}\n{self.tail(name)}"
                )
            assert not self.server.failures, self.server.failures
            assert time.monotonic() < deadline, f"{what}: not within {DEADLINE:g} s\n{self._state()}"
            # How often it is looked; nothing waits for this to pass.
            time.sleep(0.02)

    def await_progress(self, records: int) -> None:
        """Wait until so many further records are processed."""
        goal = len(self.judge.processed) + records
        self.wait_for(lambda: len(self.judge.processed) >= goal, f"{records} more records processed")

    def await_all_processed(self) -> None:
        """Wait until everything that is in the topic is processed, also behind what a killed writer has left open."""
        await_stable(self._cluster, self.topic)
        written = len(self.written())
        self.wait_for(lambda: len(self.judge.processed) >= written, f"{written} records processed")

    def await_holding(self, members: int) -> None:
        """Wait until so many members hold keys."""
        self.wait_for(lambda: len(self.judge.holding()) >= members, f"{members} members that hold keys")

    def await_committed(self, more: int) -> None:
        """Wait until the group's offsets have grown by so much."""
        goal = sum(self._committed().values()) + more
        self.wait_for(lambda: sum(self._committed().values()) >= goal, f"{more} more offsets committed")

    def _state(self) -> str:
        """What is known of a group that does not go on."""
        with ControllerClient(self._cluster.controller_url) as controller:
            positions = controller.group_positions(self.group, self.topic)
        rows = [f"{row!r}" for topic in positions.topics for row in topic.partitions]
        return "\n".join([f"group {positions.state}", *rows, *map(self.tail, self.processes)])

    # -- the topic ----------------------------------------------------------------------------------------------

    def begin_change(self, topic: str, count: int) -> None:
        """Ask for another partition count; the change goes on meanwhile."""
        with ControllerClient(self._cluster.controller_url) as controller:
            request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=count)])
            (result,) = controller.alter_partition_counts(request).topics
        assert result.error == "NONE", result

    def await_change(self, topic: str) -> None:
        """Wait until no change is under way; the last must have succeeded."""
        with ControllerClient(self._cluster.controller_url) as controller:
            deadline = time.monotonic() + DEADLINE
            while (answer := controller.change(topic)).change is not None:
                assert time.monotonic() < deadline, f"{answer} did not end within {DEADLINE:g} s"
                time.sleep(0.02)
        assert answer.last_change is None or answer.last_change.outcome == "done", answer

    def written(self, topic: str | None = None) -> dict[tuple[int, int], tuple[str, int]]:
        """What is in the topic, or another one, read from the logs themselves: place -> key and number.

        In the order of writing, as far as records of one key are concerned.
        """
        name = self.topic if topic is None else topic
        with ControllerClient(self._cluster.controller_url) as controller:
            layout = controller.layout(name)
        history = layout_history(layout)
        found = {}
        for message in raw_records(self._cluster, name, history.partition_count):
            key, _, number = (message.value() or b"").decode().partition(":")
            found[message.partition() or 0, message.offset() or 0] = (key, int(number))
        return dict(sorted(found.items(), key=lambda one: (history.epoch_of(*one[0]), one[0])))

    # The coordinator of a cluster's first group is still loading.
    @retry(
        retry=retry_if_exception(lambda e: isinstance(e, KafkaException) and e.args[0].code() in _AWAY),
        stop=stop_after_delay(TIMEOUT),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    def _committed(self) -> Mapping[int, int]:
        asked = [ConsumerGroupTopicPartitions(self.group)]
        (future,) = self._admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT).values()
        return {one.partition: one.offset for one in future.result().topic_partitions if one.offset >= 0}
