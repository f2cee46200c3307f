"""Rights are taken from clients that run, and given back: an error says so, and nothing is lost or written twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, Message

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls
from tests.integration.granted import READER, WRITER, Granted
from tests.servers import await_true


@pytest.fixture
def granted(secure_cluster: LocalCluster, acls: Acls) -> Granted:
    return Granted(secure_cluster, acls, "taken")


@dataclass
class Writer:
    """Writes numbers one by one, and knows which were acknowledged."""

    granted: Granted
    number: int = 0
    acknowledged: list[bytes] = field(default_factory=list)

    def open(self) -> OrderedProducer:
        return OrderedProducer(self.granted.conf(WRITER))

    def write(self, producer: OrderedProducer) -> None:
        producer.produce(
            self.granted.topic, str(self.number), f"k{self.number % 5}", on_delivery=self._delivered
        )
        self.number += 1
        producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value() or b"")


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
def test_a_writer(granted: Granted, acls: Acls, taken: str) -> None:
    writer = Writer(granted)
    with writer.open() as producer:
        writer.write(producer)
        acls.remove(granted.rights[taken])
        error = until_refused(lambda: writer.write(producer))
        assert "AUTHORIZATION_FAILED" in str(error)
        assert not error.retriable
        # So it stays: an application ends here, or begins with another producer.
        until_refused(lambda: writer.write(producer))

    def write_anew() -> None:
        with writer.open() as another:
            writer.write(another)

    until_refused(write_anew)
    acls.add(granted.rights[taken])
    until_accepted(write_anew)
    conf = granted.conf(READER, group_id=granted.group, auto_offset_reset="earliest")
    found: list[bytes] = []
    with OrderedConsumer(conf) as consumer:
        consumer.subscribe([granted.topic])
        read_all(consumer, found, len(writer.acknowledged))
        found += [one.value() or b"" for one in consumer.consume(100, 2.0)]
    assert sorted(found) == sorted(writer.acknowledged)


@pytest.mark.long
@pytest.mark.parametrize("taken", ["read", "group"])
def test_a_reader(granted: Granted, acls: Acls, taken: str) -> None:
    writer = Writer(granted)
    # A member that has no right to leave its group is missed after so long.
    conf = granted.conf(
        READER, group_id=granted.group, auto_offset_reset="earliest", session_timeout_ms="6000"
    )
    found: list[bytes] = []

    def read(least: int) -> None:
        with OrderedConsumer(conf) as consumer:
            consumer.subscribe([granted.topic])
            read_all(consumer, found, least)

    with writer.open() as producer:
        writer.write(producer)
        read(1)
        acls.remove(granted.rights[taken])
        writer.write(producer)
        error = until_refused(lambda: read(2))
        assert "AUTHORIZATION_FAILED" in str(error)
        assert not error.retriable
        acls.add(granted.rights[taken])
        until_accepted(lambda: read(2))
    assert set(found) == set(writer.acknowledged)
