"""What a program of operators needs: two operators, another tool, and writers, on topics of its own.

Every call returns what was answered, once per try: the name of an error, ``NONE`` without one, for each topic.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, Message
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import OrderedKafkaError, RebalancedError, UnavailableError
from tests.programs.operator_tries import TIMEOUT, Tries, await_, first_error, tries

_AGAIN = "UnavailableError"
_NO_ANSWER = {
    "_TIMED_OUT",
    "_TRANSPORT",
    "_DESTROY_BROKER",
    "REQUEST_TIMED_OUT",
    "NOT_CONTROLLER",
    "BROKER_NOT_AVAILABLE",
}
KEYS, RECORDS = 6, 3
"""Of a batch; ``RECORDS`` of each key."""

Row = tuple[str, int, int]


@dataclass
class Delivery:
    """What a member read, and whether that was committed; unsure: perhaps, by a call that got no answer."""

    rows: list[Row] = field(default_factory=list)
    committed: bool = False
    is_unsure: bool = False


class Operators:
    """Two operators, each with a client of its own; ``urls``: of the controllers."""

    def __init__(
        self,
        servers: str,
        urls: Sequence[str],
        run: str | None = None,
        restart: Callable[[str], object] = print,
    ) -> None:
        """``restart``: kills a server and starts it again; whoever runs a printed program does that."""
        self.restart = restart
        self.run = run or uuid.uuid4().hex[:8]
        self._servers = servers
        self._urls = urls
        # Each asks another controller first.
        self.clients = [ControllerClient([*urls[who:], *urls[:who]]) for who in range(2)]
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._producers: dict[int, OrderedProducer] = {}
        self._consumers: dict[tuple[int, str], OrderedConsumer] = {}
        self.deliveries: dict[str, list[Delivery]] = defaultdict(list)
        self.limited: set[int] = set()
        """Brokers with a limit."""

    def close(self) -> None:
        """Close all clients."""
        self.close_consumers()
        for broker in sorted(self.limited):
            self.limit(0, broker, None)
        for producer in self._producers.values():
            producer.close()
        for client in self.clients:
            client.close()

    def close_consumers(self) -> None:
        """Let all groups be without members."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def topic(self, name: str) -> str:
        """The whole name of a topic that the program may create."""
        return f"{name}-{self.run}"

    # -- operators ----------------------------------------------------------------------------------------------

    def create(self, who: int, topics: list[str], count: int, *, dry: bool = False) -> Tries:
        """Create topics; ``dry``: only check."""
        new = [schemas.NewTopic(topic=one, partitions=count, replication_factor=1) for one in topics]
        request = schemas.CreateTopicsRequest(topics=new, validate_only=dry)
        return tries(lambda: self.clients[who].create_topics(request).topics)

    def alter(
        self,
        who: int,
        topics: list[str],
        count: int,
        *,
        wait: float = TIMEOUT,
        dry: bool = False,
        force: bool = False,
    ) -> Tries:
        """Change partition counts; ``wait`` 0: the changes go on while the program does."""
        counts = [schemas.TopicPartitionCount(topic=one, partition_count=count) for one in topics]
        request = schemas.PartitionCountsRequest(topics=counts, validate_only=dry, force=force)
        return tries(lambda: self.clients[who].alter_partition_counts(request, wait=wait or None).topics)

    def delete(self, who: int, topics: list[str], *, dry: bool = False) -> Tries:
        """Delete topics."""
        request = schemas.DeleteTopicsRequest(topics=topics, validate_only=dry)
        return tries(lambda: self.clients[who].delete_topics(request).topics)

    def cancel(self, who: int, topics: list[str]) -> Tries:
        """Cancel the change of a topic."""
        return tries(lambda: [self.clients[who].cancel_change(topics[0])])

    def release(self, who: int, topics: list[str], *, dry: bool = False, force: bool = False) -> Tries:
        """Release a topic from management."""
        request = schemas.ReleaseTopicRequest(validate_only=dry, force=force)
        return tries(lambda: [self.clients[who].release_topic(topics[0], request)])

    def adopt(self, who: int, topics: list[str], *, dry: bool = False, force: bool = False) -> Tries:
        """Take a topic under management."""
        request = schemas.AdoptTopicRequest(hash="murmur3", validate_only=dry, force=force)
        return tries(lambda: [self.clients[who].adopt_topic(topics[0], request)])

    def configure(
        self, who: int, topics: list[str], *, ordered: bool, wait: float = TIMEOUT, dry: bool = False
    ) -> Tries:
        """Switch the ordered delivery of a topic."""
        request = schemas.AlterTopicRequest(ordered_delivery=ordered, validate_only=dry)
        return tries(lambda: [self.clients[who].alter_topic(topics[0], request, wait=wait or None)])

    def trim(self, who: int, topics: list[str], *, dry: bool = False, force: bool = False) -> Tries:
        """Delete what lies in the removed partitions of a topic."""
        request = schemas.DeleteRecordsRequest(validate_only=dry, force=force)
        return tries(lambda: first_error(self.clients[who].delete_records(topics[0], request).partitions))

    def move(
        self,
        who: int,
        topics: list[str],
        brokers: list[int],
        *,
        wait: float = TIMEOUT,
        dry: bool = False,
        force: bool = False,
    ) -> Tries:
        """Have all partitions of a topic on these brokers; ``force``: though others are being moved.

        With ``wait`` the last answer is how it has ended.
        """
        count = max(1, self._partitions(topics[0]))
        rows = [
            schemas.PartitionReassignment(topic=topics[0], partition=partition, replicas=brokers)
            for partition in range(count)
        ]
        request = schemas.ReassignmentRequest(
            partitions=rows, additional=force, allow_replication_factor_change=True, validate_only=dry
        )
        begun: list[int] = []

        def ask() -> Sequence[schemas.Result]:
            found = self.clients[who].reassign(request)
            begun[:] = [] if found.request_id is None else [found.request_id]
            return first_error(found.partitions)

        said = tries(ask)
        return [*said, [self._moved(who, begun[0], topics[0], count, brokers)]] if wait and begun else said

    def _moved(self, who: int, request: int, topic: str, count: int, brokers: list[int]) -> str:
        """How a reassignment has ended; by what Kafka says, if it is done."""
        states = [""]

        def has_ended() -> bool:
            with suppress(UnavailableError):
                states.append(self.clients[who].reassignment(request).state)
            return states[-1] not in ("", "running", "cancelling")

        def is_as_asked() -> bool:
            found = self._admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions
            return all(found[one].replicas == brokers for one in range(count))

        await_(has_ended, TIMEOUT)
        if states[-1] == "done" and not await_(is_as_asked):
            return "elsewhere"
        return states[-1]

    def abandon(self, who: int, topics: list[str]) -> Tries:
        """Cancel the latest reassignment."""
        return tries(lambda: first_error(self.clients[who].cancel_reassignment("latest").partitions))

    def factor(
        self, who: int, topics: list[str], count: int, *, wait: float = TIMEOUT, dry: bool = False
    ) -> Tries:
        """Give partitions more or fewer replicas; ``wait`` 0: they are moved while the program goes on."""
        factors = [schemas.TopicReplicationFactor(topic=one, replication_factor=count) for one in topics]
        request = schemas.ReplicationFactorsRequest(topics=factors, validate_only=dry)
        return tries(lambda: self.clients[who].alter_replication_factors(request, wait=wait or None).topics)

    def limit(self, who: int, broker: int, more: int | None) -> Tries:
        """Let a broker take so many replicas more than it has; None: as many as it can."""

        def ask() -> Sequence[schemas.Result]:
            hosted = {one.id: one.hosted for one in self.clients[who].brokers().brokers}
            limit = None if more is None else hosted.get(broker, 0) + more
            self.limited.add(broker)
            self.clients[who].set_guard_rails(broker, schemas.GuardRailsRequest(max_partitions=limit))
            return [schemas.Result()]

        return tries(ask)

    # -- another tool -------------------------------------------------------------------------------------------

    def make(self, topics: list[str], count: int) -> Tries:
        """Create a topic as Kafka's own tool does, and wait until the broker has it."""
        new = NewTopic(topics[0], count, 1)
        said = self._asked(lambda: self._admin.create_topics([new])[topics[0]])
        await_(lambda: self._partitions(topics[0]) > 0)
        return said

    def grow(self, topics: list[str], count: int) -> Tries:
        """Add partitions with Kafka's own tool, and wait until the broker has them."""
        more = NewPartitions(topics[0], count)
        said = self._asked(lambda: self._admin.create_partitions([more])[topics[0]])
        if said[-1] == ["NONE"]:
            await_(lambda: self._partitions(topics[0]) >= count)
        return said

    def erase(self, topics: list[str]) -> Tries:
        """Delete a topic with Kafka's own tool, and wait until the broker has it no longer."""
        said = self._asked(
            lambda: self._admin.delete_topics(topics[:1], operation_timeout=TIMEOUT)[topics[0]]
        )
        if said[-1] == ["NONE"]:
            await_(lambda: self._partitions(topics[0]) == 0)
        return said

    def _asked(self, ask: Callable[[], Any]) -> Tries:
        deadline = time.monotonic() + 2 * TIMEOUT
        said: Tries = []
        while True:
            try:
                ask().result(TIMEOUT)
            except KafkaException as error:
                known = {"UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION"}
                name = error.args[0].name()
                said.append([_AGAIN if name in _NO_ANSWER else known.get(name, name)])
            else:
                said.append(["NONE"])
            if said[-1] != [_AGAIN] or time.monotonic() > deadline:
                return said

    def _partitions(self, topic: str) -> int:
        # Without its name: a broker may be one that creates what it is asked for.
        found = self._admin.list_topics(timeout=TIMEOUT).topics.get(topic)
        return 0 if found is None else len(found.partitions)

    # -- writers ------------------------------------------------------------------------------------------------

    def write(self, who: int, topics: list[str], batch: int) -> Tries:
        """Write a batch, whose number is new, in one transaction, with a producer that lives until it is fenced."""
        said = []
        for _ in range(2):
            if who not in self._producers:
                conf = {"bootstrap.servers": self._servers, "controller.url": ",".join(self._urls)}
                self._producers[who] = OrderedProducer(conf)
            try:
                for number in range(RECORDS):
                    for key in range(KEYS):
                        value = f"{batch}:{number}"
                        self._producers[who].produce(topics[0], value.encode(), f"w{who}k{key}".encode())
                self._producers[who].commit()
            except OrderedKafkaError as error:
                said.append([f"{type(error).__name__}: {error}"])
                with suppress(OrderedKafkaError):
                    self._producers[who].close()
                del self._producers[who]
            else:
                return [*said, ["NONE"]]
        return said

    # -- readers ------------------------------------------------------------------------------------------------

    def read(self, who: int, topics: list[str], seconds: float = 3.0) -> Tries:
        """Read what comes within so many seconds, or up to a rest, with a member of the topic's group, and commit it."""
        topic = topics[0]
        said: Tries = []
        deadline = time.monotonic() + 2 * TIMEOUT
        delivery = self._begun(topic)
        while True:
            try:
                consumer = self._member(who, topic)
                self._consume(consumer, delivery, seconds)
                if delivery.rows:
                    consumer.commit()
                    delivery.committed, delivery.is_unsure = True, False
                return [*said, ["NONE"]]
            except RebalancedError:
                consumer.rewind()
                return [*said, ["NONE"]]
            except OrderedKafkaError as error:
                if error.retriable:
                    said.append([_AGAIN])
                    delivery.is_unsure = True
                else:
                    said.append([f"{type(error).__name__}: {error}"])
                    self._consumers.pop((who, topic)).close()
                    delivery = self._begun(topic)
            refused = sum(one != [_AGAIN] for one in said)
            if refused > 1 or time.monotonic() > deadline:
                return said

    def _begun(self, topic: str) -> Delivery:
        self.deliveries[topic].append(Delivery())
        return self.deliveries[topic][-1]

    def _member(self, who: int, topic: str) -> OrderedConsumer:
        if (who, topic) not in self._consumers:
            conf = {"bootstrap.servers": self._servers, "controller.url": ",".join(self._urls)}
            group = {
                "group.id": f"group-{topic}",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 100,
            }
            self._consumers[who, topic] = OrderedConsumer({**conf, **group, "enable.auto.commit": False})
            self._consumers[who, topic].subscribe([topic])
        return self._consumers[who, topic]

    def _consume(self, consumer: OrderedConsumer, delivery: Delivery, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = [one for one in consumer.consume(500, 0.3) if one.error() is None]
            delivery.rows += [row_of(one) for one in found]
            if delivery.rows and not found:
                return


def row_of(message: Message) -> Row:
    """The key, batch and number of a record."""
    batch, number = (message.value() or b"").decode().split(":")
    return (message.key() or b"").decode(), int(batch), int(number)


def from_environment() -> Operators:
    """On the servers of ``. .ordered-kafka/env.sh``."""
    return Operators(os.environ["BOOTSTRAP_SERVERS"], os.environ["ORDERED_KAFKA_CONTROLLER"].split(","))
