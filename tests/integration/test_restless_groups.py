"""Groups that a machine plays with while controllers come and go and leaders change: in the end everything comes, in order.

Those of programs/ are closed before they are judged, and a partition that one of them would never have read on is no fault there.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest
from confluent_kafka import OFFSET_STORED, KafkaException, Message, TopicPartition

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.gateway import gateway_to
from tests.integration.members import Member, Recorder, Room, exact
from tests.seeds import examples, fresh_seeds, is_thorough
from tests.servers import TIMEOUT, await_true
from tests.steering import pause_some, resume_all, seek_back
from tests.streams import NumberedWriter, create

_STEPS = 80
_MOST_MEMBERS = 3
_SETTINGS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({}, {"enable_partition_eof": True}),
    ({"enable_auto_commit": False}, {"auto_commit_interval_ms": 1}, {"auto_commit_interval_ms": 500}),
    ({}, {}, {"fetch_message_max_bytes": 200, "queued_min_messages": 1}),
    ({}, {"fetch_wait_max_ms": 10}, {"fetch_wait_max_ms": 5000}),
)
"""One of each row is a member's."""
_SESSION = 6000
"""Milliseconds that a static member which closes keeps its partitions: less than a test waits."""


class Restless:
    """A group of up to three members that read two topics, and what may happen to it."""

    def __init__(
        self, cluster: LocalCluster, admin: KafkaAdmin, rng: random.Random, stack: ExitStack
    ) -> None:
        self._cluster, self._admin, self._rng = cluster, admin, rng
        self._gateway = stack.enter_context(gateway_to(cluster))
        self._gateway.left = sys.maxsize
        self._room = Room(cluster, stack)
        self._topics = [f"{self._room.group}-{name}" for name in "ab"]
        for topic in self._topics:
            create(cluster, topic, rng.randint(1, 4))
        self._writers = {topic: NumberedWriter(cluster, topic, keys=8, step=3) for topic in self._topics}
        self._members: list[Member] = []
        self._instances: dict[Member, str] = {}
        """What static members are called; who opens later has the name of one that closed, or another."""
        self._delivered: dict[tuple[str, int, int], Message] = {}
        self.told: list[str] = []

    def play(self, steps: int) -> None:
        """Let as much happen, and read in between."""
        self._open()
        kinds: list[tuple[int, Callable[[], object]]] = [
            (4, self._write),
            (3, self._take_controller_away_or_back),
            (int(is_thorough()), self._let_controller_hang),
            (int(is_thorough()), self._restart_broker),
            (2, self._move),
            (1, self._change),
            (1, lambda: pause_some(self._some(), self._rng)),
            (2, lambda: resume_all(self._some())),
            (2, self._seek),
            (1, lambda: self._some().rewind()),
            (1, lambda: self._some().commit()),
            (1, self._open),
            (1, self._close),
        ]
        weights, calls = zip(*kinds, strict=True)
        for call in self._rng.choices(calls, weights, k=steps):
            self._try(call)
            for _ in range(self._rng.randint(1, 6)):
                self._read()

    def end(self) -> None:
        """Controllers answer and nothing is paused: all that was written comes."""
        self._gateway.left = sys.maxsize
        self._open()
        for writer in self._writers.values():
            writer.write()

        def all_has_come() -> bool:
            for member in self._members:
                self._try(partial(resume_all, member.consumer))
                # A gate opens once what lies before it is committed.
                self._try(member.consumer.commit)
            self._read()
            return len(self._delivered) == sum(writer.written for writer in self._writers.values())

        await_true(all_has_come, f"everything has come; {'; '.join(self.told)}", 4 * TIMEOUT)
        for topic, writer in self._writers.items():
            exact([one for one in self._delivered.values() if one.topic() == topic], writer.written)

    # -- what happens -------------------------------------------------------------------------------------------

    def _write(self) -> None:
        self._writers[self._rng.choice(self._topics)].write(self._rng.randint(1, 3))

    def _take_controller_away_or_back(self) -> None:
        self._gateway.left = 0 if self._gateway.left > 0 else sys.maxsize

    def _let_controller_hang(self) -> None:
        """A call that needs it takes ten seconds."""
        self._gateway.answers.clear()
        member = self._rng.choice(self._members)
        self._try(lambda: self._deliver(member))
        self._gateway.answers.set()

    def _restart_broker(self) -> None:
        broker = f"broker-{self._rng.randint(1, 3)}"
        self._rng.choice((self._cluster.stop, self._cluster.kill))(broker)
        self._read()
        self._cluster.start(broker)

    def _move(self) -> None:
        """A partition moves to another broker."""
        topic = self._rng.choice(self._topics)
        partition = self._rng.choice(self._admin.describe_topics([topic])[topic].partitions).partition
        target = [self._rng.randint(1, 3)]
        Reassignments(self._admin.requests, timeout=TIMEOUT).alter({(topic, partition): target})

    def _change(self) -> None:
        count = TopicPartitionCount(
            topic=self._rng.choice(self._topics), partition_count=self._rng.randint(1, 6)
        )
        with ControllerClient(self._cluster.controller_url) as controller:
            controller.alter_partition_counts(PartitionCountsRequest(topics=[count]))

    def _seek(self) -> None:
        """Back to one of the last records."""
        member = self._rng.choice(self._members)
        seek_back(member.consumer, self._rng, member.messages[-30:])

    def _open(self) -> None:
        if len(self._members) == _MOST_MEMBERS:
            return
        settings = self._settings()
        listener = Recorder([]) if self._rng.random() < 0.4 else None
        instance = self._rng.choice([*"abcd", *[None] * 4])
        if instance is not None and instance not in self._instances.values():
            settings |= {"group_instance_id": instance, "session_timeout_ms": _SESSION}
        member = self._room.member(**settings)
        topics = self._topics if self._rng.random() < 0.8 else [f"^{self._room.group}-.$"]
        try:
            member.consumer.subscribe(topics, partition_key_listener=listener)
        except UnavailableError:
            # No controller answers.
            member.consumer.close()
            return
        self._members.append(member)
        if "group_instance_id" in settings:
            self._instances[member] = settings["group_instance_id"]
        self.told.append(f"a member {settings}{'' if listener is None else ' that keeps state'}")

    def _close(self) -> None:
        if len(self._members) > 1:
            member = self._members.pop(self._rng.randrange(len(self._members)))
            member.consumer.close()
            self._instances.pop(member, None)

    # -- members ------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"controller_url": self._gateway.url, "heartbeat_interval_ms": 100}
        for ways in _SETTINGS:
            settings |= self._rng.choice(ways)
        return settings

    def _read(self) -> None:
        for member in self._members:
            self._try(partial(self._deliver, member))

    def _deliver(self, member: Member) -> None:
        read = member.poll if self._rng.random() < 0.3 else member.read
        try:
            read(self._rng.choice((0.0, 0.02, 0.1)), self._rng.choice((1, 10, 500)))
        except ConfigError:
            # A seek from before the assignment was known is refused, and stays so until the partition is sought elsewhere.
            for tp in member.consumer.assignment():
                member.consumer.seek(TopicPartition(tp.topic, tp.partition, OFFSET_STORED))
            raise
        member.messages[:] = [one for one in member.messages if one.error() is None]
        for one in member.messages:
            record = one.topic() or "", one.partition() or 0, one.offset() or 0
            self._delivered.setdefault(record, one)
        del member.messages[:-30]

    def _some(self) -> OrderedConsumer:
        return self._rng.choice(self._members).consumer

    def _try(self, call: Callable[[], object]) -> None:
        """What is refused, as a commit amid a rebalance, is left out."""
        try:
            call()
        except (OrderedKafkaError, KafkaException) as error:
            self.told.append(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("seed", fresh_seeds(__name__, examples(6)))
def test_everything_comes_in_the_end(three_brokers: LocalCluster, seed: int) -> None:
    with (
        ExitStack() as stack,
        closing(KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)) as admin,
    ):
        group = Restless(three_brokers, admin, random.Random(seed), stack)
        group.play(_STEPS)
        group.end()
