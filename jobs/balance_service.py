"""Keep a running balance per account in SQLite: a group of services that read an ordered topic.

Start as many as you like with the same group and database; stop or kill any, and change the topic's partition count, at
any time::

    python jobs/balance_service.py --bootstrap-servers HOST:PORT --controller URL \\
        --topic payments --group balances --database balances.db

Record key: the account. Record value: the amount to add, a whole number as text. The result is the table ``balances``.

A balance is kept in memory by the one service that reads the account's records. It is exact whatever happens, because

* balances are stored together with the offsets they were made of: a record that is delivered again, since a service died
  before it could commit to Kafka, lies below the stored offset and is skipped;
* what is in memory is stored and forgotten before another service can read the account's next record: when the group
  gives the partition to it, and when a change of the partition count moves the account;
* whoever takes over a partition signs for it in the database: a service that was taken for dead and wakes up cannot
  store what it has in memory. It ends, and may be started again;
* the database knows the topic's id: offsets of a topic that was deleted say nothing of one that was created in its place.
"""

import logging
import signal
import sqlite3
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast

import typer
from confluent_kafka import Message, TopicPartition
from tenacity import Retrying, stop_after_delay, wait_fixed

from spark_ordered_kafka import (
    ControllerClient,
    OrderedConsumer,
    OrderedKafkaError,
    PartitionKeyRebalanceListener,
)
from spark_ordered_kafka.client.options import consumer_options
from spark_ordered_kafka.errors import DataLossError, RebalancedError, UnavailableError

LOG = logging.getLogger("balance_service")

TABLES = """
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, balance INTEGER, records INTEGER);
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, part INTEGER, next INTEGER, owner TEXT, PRIMARY KEY (topic, part));
CREATE TABLE IF NOT EXISTS topics (topic TEXT PRIMARY KEY, id TEXT);
"""
FIRST_ID = "INSERT INTO topics VALUES (?, ?) ON CONFLICT DO UPDATE SET id = id RETURNING id"
TAKE_OVER = """INSERT INTO offsets VALUES (?, ?, 0, ?)
    ON CONFLICT DO UPDATE SET owner = excluded.owner RETURNING next"""
ADVANCE = "UPDATE offsets SET next = ? WHERE topic = ? AND part = ? AND owner = ?"
STORE = "INSERT OR REPLACE INTO balances VALUES (?, ?, ?)"
LOAD = "SELECT balance, records FROM balances WHERE account = ?"


class TakenOverError(Exception):
    """Another service reads a partition that this one thought its own. Start again: everything is read again."""


@dataclass
class Part:
    """What a service has in memory of one partition; the database has all records below the offset ``stored``."""

    stored: int
    read: int
    balances: dict[str, tuple[int, int]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)


class Balances(PartitionKeyRebalanceListener):
    """The balances of the accounts that this service reads at present, and the database that has all."""

    def __init__(self, database: Path) -> None:
        self._path = database
        self._name = uuid.uuid4().hex
        self._parts: dict[tuple[str, int], Part] = {}
        # Seconds to wait for the other services' transactions; IMMEDIATE: nobody else writes during one.
        self._database = sqlite3.connect(database, timeout=60, isolation_level="IMMEDIATE")
        # Several that start on a new file at once are told "locked" without a wait, whatever the timeout.
        patiently = Retrying(stop=stop_after_delay(10), wait=wait_fixed(0.1), reraise=True)
        patiently(self._database.execute, "PRAGMA journal_mode = WAL")
        self._database.executescript(TABLES)

    def check(self, topic: str, topic_id: str) -> None:
        """Raises DataLossError when the stored offsets are of a topic that had the name before: records would be skipped."""
        with self._database:
            (known,) = self._database.execute(FIRST_ID, (topic, topic_id)).fetchone()
        if known != topic_id:
            raise DataLossError(
                f"topic {topic!r} was deleted and created again: the offsets in {self._path} are those of the topic with id"
                f" {known}, now it is {topic_id}; begin with another database"
            )

    def add(self, message: Message) -> None:
        """Add a record's amount to its account's balance, unless the database has it already."""
        tp = cast(tuple[str, int], (message.topic(), message.partition()))
        offset = cast(int, message.offset())
        part = self._parts.get(tp) or self._take_over(tp, offset)
        if offset >= part.stored:
            account, amount = parsed(message)
            known = part.balances.get(account) or self._database.execute(LOAD, (account,)).fetchone()
            balance, records = known or (0, 0)
            part.balances[account] = (balance + amount, records + 1)
            part.changed.add(account)
        part.read = offset + 1

    def store(self) -> list[TopicPartition]:
        """Store what has changed; everything below the offsets that are returned is in the database.

        Raises TakenOverError, and nothing is stored, when this service was taken for dead.
        """
        changed = [tp for tp, part in self._parts.items() if part.read > part.stored]
        if changed:
            with self._database:
                for tp in changed:
                    self._store(tp, self._parts[tp])
            for tp in changed:
                self._parts[tp].stored = self._parts[tp].read
                self._parts[tp].changed.clear()
        return [TopicPartition(*tp, part.read) for tp, part in self._parts.items()]

    def forget(self) -> None:
        """Drop what is in memory."""
        self._parts.clear()

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        """Accounts may move from these partitions to others: their balances are in the database from here on."""
        self.store()
        for one in partitions:
            if (one.topic, one.partition) in self._parts:
                self._parts[one.topic, one.partition].balances.clear()

    # on_partition_key_assigned() has nothing to do. A balance is loaded when the account's first record comes; if it was
    # in memory before the account went elsewhere, it was dropped then.

    def _take_over(self, tp: tuple[str, int], offset: int) -> Part:
        with self._database:
            (stored,) = self._database.execute(TAKE_OVER, (*tp, self._name)).fetchone()
        return self._parts.setdefault(tp, Part(stored, offset))

    def _store(self, tp: tuple[str, int], part: Part) -> None:
        if self._database.execute(ADVANCE, (part.read, *tp, self._name)).rowcount == 0:
            self.forget()
            raise TakenOverError("{}-{} was taken over by another service".format(*tp))
        self._database.executemany(STORE, [(name, *part.balances[name]) for name in part.changed])


def parsed(message: Message) -> tuple[str, int]:
    """Account and amount; raises ValueError when a record has none."""
    key, value = message.key(), message.value()
    try:
        if key is None or value is None:
            raise ValueError("key and value are needed")
        return key.decode(), int(value)
    except ValueError as error:
        origin = f"{message.topic()}-{message.partition()}, offset {message.offset()}"
        raise ValueError(f"{origin}, is not an amount: {error}") from error


def commit(consumer: OrderedConsumer, balances: Balances) -> None:
    """Store what was read, then let Kafka and the other services know."""
    try:
        consumer.commit(offsets=balances.store())
    except (RebalancedError, UnavailableError) as error:
        LOG.warning("%s; records that are delivered again will be skipped", error)


def id_of(topic: str, conf: dict[str, str]) -> str:
    """Kafka's id of the topic."""
    with ControllerClient.of(consumer_options(conf).connection) as controller:
        return controller.layout(topic).topic_id


def serve(consumer: OrderedConsumer, balances: Balances, topic: str, interval: float) -> None:
    """Read until SIGTERM or ctrl-C; store and commit every ``interval`` seconds."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def on_revoke(*_: object) -> None:
        commit(consumer, balances)
        balances.forget()

    def on_lost(*_: object) -> None:
        balances.forget()  # others read these records again already

    consumer.subscribe([topic], on_revoke=on_revoke, on_lost=on_lost, partition_key_listener=balances)
    due = time.monotonic() + interval
    while not stop.is_set():
        for message in consumer.consume(1000, timeout=min(interval, 0.5)):
            balances.add(message)
        if time.monotonic() >= due:
            commit(consumer, balances)
            due = time.monotonic() + interval


def main(
    bootstrap_servers: Annotated[str, typer.Option(help="Kafka brokers.")],
    controller: Annotated[str, typer.Option(envvar="ORDERED_KAFKA_CONTROLLER", help="Controller's URL.")],
    topic: Annotated[str, typer.Option(help="Topic under management, with accounts and amounts.")],
    group: Annotated[str, typer.Option(help="Consumer group: the services that share the work.")],
    database: Annotated[Path, typer.Option(help="SQLite file that the group's services share.")],
    interval: Annotated[float, typer.Option(min=0.01, help="Seconds between two commits.")] = 1.0,
    option: Annotated[list[str] | None, typer.Option(help="Further NAME=VALUE of librdkafka.")] = None,
) -> None:
    """Keep a running balance per account in SQLite."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    conf = {"bootstrap.servers": bootstrap_servers, "controller.url": controller, "group.id": group}
    conf |= {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    conf |= dict(pair.partition("=")[::2] for pair in option or ())
    with OrderedConsumer(conf) as consumer:
        balances = Balances(database)
        balances.check(topic, id_of(topic, conf))
        serve(consumer, balances, topic, interval)


if __name__ == "__main__":
    try:
        # Plain help: rich cuts the names of options where the terminal is narrow.
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command()(main)
        app()
    except (OrderedKafkaError, TakenOverError, sqlite3.Error, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
