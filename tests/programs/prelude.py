"""What a program of plain clients needs beside the clients: topics, callbacks that say what happens, records with numbers.

A program that breaks a promise is printed with this text before it, so that it runs by itself.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from spark_ordered_kafka import (
    ControllerClient,
    OrderedConsumer,
    OrderedProducer,
    PartitionKeyRebalanceListener,
)
from spark_ordered_kafka.client.schemas import CreateTopicRequest, PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.errors import OrderedKafkaError, RebalancedError

NUMBER = "number"
"""The header of a record's number."""


class Use:
    """The clients of one program, by name, and what they tell: ``tell(client, what, about)``."""

    def __init__(
        self,
        servers: dict[str, str],
        tell: Callable[[str, str, Any], object] = print,
        run: str | None = None,
        prefix: str = "",
        restart: Callable[[str], object] = print,
    ) -> None:
        """``restart``: kills a server and starts it again; whoever runs a printed program does that."""
        self.restart = restart
        self.run = run or uuid.uuid4().hex[:8]
        self.tell = tell
        self.clients: dict[str, Any] = {}
        self.seen: dict[str, list[Message]] = {}
        self.servers = servers
        self._numbers = count()
        self._prefix = prefix
        self._controller = ControllerClient(servers["controller.url"])

    def topic(self, name: str, partitions: int = 2) -> str:
        """Create a topic; its whole name."""
        topic = f"{name}-{self.run}"
        request = CreateTopicRequest(topic=topic, partitions=partitions, replication_factor=1)
        self._controller.create_topic(request)
        return topic

    def change(self, topic: str, partitions: int, wait: float = 60.0, *, force: bool = False) -> None:
        """Change the partition count; ``wait`` 0: the change goes on while the program does."""
        deadline = time.monotonic() + 60
        while self._controller.change(topic).change is not None:
            assert time.monotonic() < deadline, f"a change of {topic} does not end"
            time.sleep(0.01)
        if self._controller.topic(topic).undeleted_partition_count == partitions:
            return
        request = PartitionCountsRequest(
            topics=[TopicPartitionCount(topic=topic, partition_count=partitions)], force=force
        )
        (answer,) = self._controller.alter_partition_counts(request, wait=wait or None).topics
        assert answer.error == "NONE", answer

    def delete_records(self, topic: str, before: dict[int, int]) -> None:
        """Delete what is below these offsets, by partition, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.servers["bootstrap.servers"]})
        places = [TopicPartition(topic, *one) for one in before.items()]
        for future in admin.delete_records(places).values():
            future.result(30)

    # -- another tool -------------------------------------------------------------------------------------------

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic that has fewer."""
        admin = AdminClient({"bootstrap.servers": self.servers["bootstrap.servers"]})
        if self._partitions(admin, topic) < partitions:
            with suppress(KafkaException):  # a change has made them meanwhile
                admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def write_as_another(self, topic: str, count: int, start: int, ends: str) -> None:
        """Write so many records into one partition after another, from ``start`` on.

        ``ends``: what becomes of a transaction around them, ``commit``, ``abort`` or ``leave``; empty without one.
        """
        conf: dict[str, Any] = {"bootstrap.servers": self.servers["bootstrap.servers"]}
        if ends:
            conf |= {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 3_000}
        admin, producer = AdminClient(conf), Producer(conf)
        partitions = self._partitions(admin, topic)
        if ends:
            producer.init_transactions(30)
            producer.begin_transaction()
        numbers = [f"f{next(self._numbers)}" for _ in range(count)]
        for at, number in enumerate(numbers, start):
            producer.produce(topic, number, f"f{at % 3}", at % partitions)
        assert producer.flush(30) == 0
        if ends == "commit":
            producer.commit_transaction(30)
        elif ends == "abort":
            producer.abort_transaction(30)
        if ends in ("", "commit"):
            self.tell("another", "wrote", numbers)

    def is_covered(self, topic: str) -> bool:
        """Whether the newest layout has all partitions of a topic."""
        (known,) = self._controller.kafka_topics([topic]).topics
        return len(self._controller.layout(topic).layouts[-1].starts) == len(known.partitions)

    def _partitions(self, admin: AdminClient, topic: str) -> int:
        return len(admin.list_topics(topic, timeout=30).topics[topic].partitions)

    # -- clients ------------------------------------------------------------------------------------------------

    def producer(self, name: str, **conf: Any) -> OrderedProducer:
        """A producer; an underscore stands for a dot."""
        self.clients[name] = OrderedProducer(self._conf(conf))
        return self.clients[name]  # type: ignore[no-any-return]

    def consumer(self, name: str, **conf: Any) -> OrderedConsumer:
        """A member of the program's group."""
        group = {"group_id": f"group-{self.run}", "auto_offset_reset": "earliest"}
        self.clients[name] = OrderedConsumer(self._conf({**group, "heartbeat_interval_ms": 100, **conf}))
        self.seen[name] = []
        return self.clients[name]  # type: ignore[no-any-return]

    def subscribe(
        self,
        name: str,
        topics: list[str],
        *,
        keeps_state: bool = False,
        commits_last: bool = False,
        pattern: bool = False,
    ) -> None:
        """Subscribe the consumer ``name``; ``commits_last``: it commits what is being taken from it.

        ``pattern``: by a pattern of the names.
        """

        def told(what: str) -> Callable[[Any, list[TopicPartition]], None]:
            def tell(consumer: OrderedConsumer, partitions: list[TopicPartition]) -> None:
                if commits_last and what == "revoked":
                    try:
                        consumer.commit()
                        self.tell(name, "committed", [])
                    except RebalancedError:
                        self.tell(name, "not committed", [])
                self.tell(name, what, _places(partitions))

            return tell

        self.clients[name].subscribe(
            [f"^({'|'.join(topics)})$"] if pattern else topics,
            told("assigned"),
            told("revoked"),
            told("lost"),
            partition_key_listener=Listener(name, self.tell) if keeps_state else None,
        )

    def _conf(self, conf: dict[str, Any]) -> dict[str, Any]:
        return {**self.servers, **{name.replace("_", "."): value for name, value in conf.items()}}

    def drop(self, *names: str) -> None:
        """Forget clients without closing them. Nothing else may refer to them."""
        for name in names:
            self.clients.pop(name, None)
            self.seen.pop(name, None)
        gc.collect()

    # -- records ------------------------------------------------------------------------------------------------

    def write(
        self, name: str, topic: str, keys: Iterable[str | None], *, headers: bool = False, empty: bool = False
    ) -> None:
        """Produce a record for each key; ``empty``: with a null value."""
        for key in keys:
            self.produce(name, topic, key, headers=headers, empty=empty)

    def produce(
        self, name: str, topic: str, key: Any, *, headers: bool = False, empty: bool = False, of: str = ""
    ) -> None:
        """Produce a record with the next number."""
        number = f"{self._prefix}{next(self._numbers)}{of}"
        more: dict[str, Any] = {}
        if headers or empty:
            more["headers"] = [(NUMBER, number)]
            more["on_delivery"] = lambda error, message: self.tell(
                name, "report", (number, str(error) if error else None, message.partition(), message.offset())
            )
        self.clients[name].produce(topic, None if empty else number, key, **more)
        self.tell(name, "produced", (topic, _text(key), number))

    def got(self, name: str, messages: list[Message]) -> list[Message]:
        """Say what was delivered to ``name``; without ends of partitions."""
        messages = [message for message in messages if message.error() is None]
        self.seen[name] += messages
        self.tell(name, "got", [(m.topic(), m.partition(), m.offset(), number_of(m)) for m in messages])
        return messages

    def got_one(self, name: str, message: Message | None) -> list[Message]:
        """As :meth:`got`, of ``poll()``."""
        # A message with a null value is false.
        return self.got(name, [] if message is None else [message])

    def copy(self, name: str, topic: str, messages: list[Message]) -> None:
        """Produce a copy of each record."""
        for message in messages:
            self.produce(name, topic, message.key(), of=f" of {number_of(message)}")

    def last(self, name: str, back: int = 1) -> TopicPartition:
        """Where the last record lies that was delivered to ``name``, or one before it."""
        message = self.seen[name][-min(back, len(self.seen[name]))]
        return TopicPartition(message.topic() or "", message.partition() or 0, message.offset() or 0)


class Listener(PartitionKeyRebalanceListener):
    """Says which keys come and go."""

    def __init__(self, name: str, tell: Callable[[str, str, Any], object]) -> None:
        self._name = name
        self._tell = tell

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        """Keys may be read elsewhere."""
        self._tell(self._name, "let go", _places(partitions))

    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        """Keys may have come."""
        self._tell(self._name, "opened", _places(partitions))


class Elsewhere:
    """A process of its own, which runs what it is given and can be killed. What clients tell there is told here."""

    def __init__(self, use: Use, name: str, **names: Any) -> None:
        forks = multiprocessing.get_context("forkserver")
        self._use = use
        self._pipe, theirs = forks.Pipe()
        arguments = (theirs, use.servers, use.run, name, names)
        self._process = forks.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def run(self, code: str) -> Any:
        """Run statements, or the value of an expression; raises what they raise."""
        self._pipe.send(code)
        while True:
            what, about = self._pipe.recv()
            if what == "told":
                self._use.tell(*about)
            elif what == "raised":
                raise about
            else:
                return about

    def kill(self, during: str = "") -> None:
        """``kill -9``, perhaps during a call."""
        if during:
            self._pipe.send(during)
        self._process.kill()
        self._process.join()
        self._pipe.close()


def serve(
    pipe: Connection[Any, Any], servers: dict[str, str], run: str, name: str, names: dict[str, Any]
) -> None:
    """What such a process does."""
    use = Use(servers, lambda *about: pipe.send(("told", about)), run, name)
    names |= {"use": use, "suppress": suppress, "time": time}
    while True:
        code = pipe.recv()
        try:
            try:
                compiled = compile(code, name, "eval")
            except SyntaxError:
                compiled = compile(code, name, "exec")
            value = eval(compiled, names)
        except Exception as error:  # noqa: BLE001 - raised by the caller
            pipe.send(("raised", error))
        else:
            # A TopicPartition, for example, cannot be sent.
            pipe.send(("done", value if _is_plain(value) else None))


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int)


def number_of(message: Message) -> str:
    """The number of a record, wherever it is."""
    value: Any = message.value()
    headers: Any = message.headers()
    found = value if value is not None else dict(headers or [])[NUMBER]
    return _text(found) or ""


def rest(use: Use, name: str, seconds: float = 5.0) -> None:
    """Read until nothing has come for so many seconds."""
    last = time.monotonic()
    while time.monotonic() < last + seconds:
        if use.got(name, use.clients[name].consume(1000, 0.2)):
            last = time.monotonic()


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _places(partitions: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    return [(one.topic, one.partition) for one in partitions]


def from_environment() -> Use:
    """On the servers of ``. .ordered-kafka/env.sh``."""
    return Use(
        {
            "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
            "controller.url": os.environ["ORDERED_KAFKA_CONTROLLER"],
        }
    )


@contextmanager
def refusals() -> Iterator[None]:
    """Around a step that was refused when the program was found."""
    try:
        yield
    except OrderedKafkaError as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201 - of a program that runs by itself
