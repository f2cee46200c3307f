"""Rights are taken from clients that run, and given back: an error says so, and nothing is lost or written twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka.admin import AclBinding

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.integration.secured import credentials
from tests.servers import await_true, unique_name


@dataclass
class Rights:
    """A topic with those of alice, who writes, and of bob, who reads."""

    cluster: LocalCluster
    acls: Acls
    topic: str = field(default_factory=lambda: unique_name("taken"))

    def __post_init__(self) -> None:
        admin = credentials(self.cluster, "admin")
        with ControllerClient(self.cluster.controller_url, credentials=admin) as controller:
            controller.create_topic(CreateTopicRequest(topic=self.topic, partitions=2))
        ledger = f"ordered:{self.topic}:"
        self.all: dict[str, AclBinding] = {
            "write": acl("User:alice", "WRITE", "TOPIC", self.topic),
            "read what is written": acl("User:alice", "READ", "TOPIC", self.topic),
            "transactions": acl("User:alice", "WRITE", "TRANSACTIONAL_ID", ledger, prefixed=True),
            "ledger": acl("User:alice", "READ", "GROUP", ledger, prefixed=True),
            "read": acl("User:bob", "READ", "TOPIC", self.topic),
            "group": acl("User:bob", "READ", "GROUP", self.topic),
        }
        self.acls.add(*self.all.values())
        for user in ("alice", "bob"):
            await_true(lambda: self._knows(user), f"{user} may describe {self.topic}")  # noqa: B023 - at once

    def conf(self, user: str, **more: str) -> dict[str, str]:
        return {**self.cluster.kafka_properties(user), **self.cluster.controller_options(user), **more}

    def _knows(self, user: str) -> bool:
        own = credentials(self.cluster, user)
        with ControllerClient(self.cluster.controller_url, credentials=own) as controller:
            return any(row.topic == self.topic for row in controller.topics().topics)


@pytest.fixture
def rights(secure_cluster: LocalCluster, acls: Acls) -> Rights:
    return Rights(secure_cluster, acls)


@dataclass
class Writer:
    """Writes numbers one by one, and knows which were acknowledged and which have failed."""

    rights: Rights
    number: int = 0
    acknowledged: list[bytes] = field(default_factory=list)
    failed: list[bytes] = field(default_factory=list)

    def open(self) -> OrderedProducer:
        return OrderedProducer(self.rights.conf("alice"))

    def write(self, producer: OrderedProducer) -> None:
        producer.produce(
            self.rights.topic, str(self.number), f"k{self.number % 5}", on_delivery=self._delivered
        )
        self.number += 1
        producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        (self.acknowledged if error is None else self.failed).append(message.value() or b"")


def until_refused(step: Callable[[], object]) -> RequestError:
    """A broker goes by what was taken a moment later."""
    refusals: list[RequestError] = []

    def is_refused() -> bool:
        try:
            step()
        except RequestError as error:
            refusals.append(error)
        return bool(refusals)

    await_true(is_refused, "the right is missed")
    return refusals[0]


def until_accepted(step: Callable[[], object]) -> None:
    def is_accepted() -> bool:
        try:
            step()
        except RequestError:
            return False
        return True

    await_true(is_accepted, "the right is there again")


def read_all(consumer: OrderedConsumer, found: list[bytes], least: int) -> None:
    def is_there() -> bool:
        found.extend(one.value() or b"" for one in consumer.consume(100, 0.5))
        return len(set(found)) >= least

    await_true(is_there, f"{least} records")


@pytest.mark.long
@pytest.mark.parametrize("taken", ["write", "read what is written", "transactions", "ledger"])
def test_a_writer(rights: Rights, taken: str) -> None:
    writer = Writer(rights)
    with writer.open() as producer:
        writer.write(producer)
        rights.acls.remove(rights.all[taken])
        error = until_refused(lambda: writer.write(producer))
        assert "AUTHORIZATION_FAILED" in str(error)
        assert not error.retriable
        # So it stays: an application ends here, or begins with another producer.
        until_refused(lambda: writer.write(producer))

    def write_anew() -> None:
        with writer.open() as another:
            writer.write(another)

    until_refused(write_anew)
    rights.acls.add(rights.all[taken])
    until_accepted(write_anew)
    group = {"group.id": rights.topic, "auto.offset.reset": "earliest"}
    found: list[bytes] = []
    with OrderedConsumer(rights.conf("bob", **group)) as consumer:
        consumer.subscribe([rights.topic])
        read_all(consumer, found, len(writer.acknowledged))
        found += [one.value() or b"" for one in consumer.consume(100, 2.0)]
    assert sorted(found) == sorted(writer.acknowledged)


@pytest.mark.long
@pytest.mark.parametrize("taken", ["read", "group"])
def test_a_reader(rights: Rights, taken: str) -> None:
    writer = Writer(rights)
    # A member that has no right to leave its group is missed after so long.
    more = {"group.id": rights.topic, "auto.offset.reset": "earliest", "session.timeout.ms": "6000"}
    found: list[bytes] = []

    def read(least: int) -> None:
        with OrderedConsumer(rights.conf("bob", **more)) as consumer:
            consumer.subscribe([rights.topic])
            read_all(consumer, found, least)

    with writer.open() as producer:
        writer.write(producer)
        read(1)
        rights.acls.remove(rights.all[taken])
        writer.write(producer)
        error = until_refused(lambda: read(2))
        assert "AUTHORIZATION_FAILED" in str(error)
        assert not error.retriable
        rights.acls.add(rights.all[taken])
        until_accepted(lambda: read(2))
    assert set(found) == set(writer.acknowledged)
