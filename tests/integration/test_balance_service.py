"""``jobs/balance_service.py``: exact balances while the topic changes and services are killed."""

from __future__ import annotations

import random
import runpy
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.client.producer import OrderedProducer
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.crashing_service import SERVICE
from tests.servers import TIMEOUT, unique_name
from tests.streams import change, conf, create

ROOT = SERVICE.parents[1]
DEADLINE = 90.0
SEED = 20

Rows = dict[str, tuple[int, int]]
"""Balance and number of records per account."""


# -- the database, record by record ---------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "balances.db"


@pytest.fixture
def service() -> dict[str, Any]:
    """The names that the service defines."""
    return runpy.run_path(str(SERVICE))


def amount(offset: int, account: str | None, value: str, partition: int = 0) -> Message:
    key = None if account is None else account.encode()
    return Message(topic="payments", partition=partition, offset=offset, key=key, value=value.encode())


def rows(database: Path) -> Rows:
    with closing(sqlite3.connect(database, timeout=TIMEOUT)) as connection:
        # A service that has just begun has made the file, and its tables not yet.
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'balances'").fetchone() is None:
            return {}
        found = connection.execute("SELECT account, balance, records FROM balances").fetchall()
    return {account: (balance, records) for account, balance, records in found}


@pytest.mark.parametrize(("is_skipped", "twice"), [(True, 1), (False, 2)])
def test_what_is_delivered_again_is_skipped(
    service: dict[str, Any], database: Path, is_skipped: bool, twice: int
) -> None:
    """Without that it would be counted twice: a test that could not fail would not show anything."""
    records = [amount(0, "a", "5"), amount(1, "b", "-2"), amount(4, "a", "7")]
    first, second = service["Balances"](database), service["Balances"](database)
    if not is_skipped:
        forgetful = service["TAKE_OVER"].replace("RETURNING next", "RETURNING 0")
        second._take_over.__func__.__globals__["TAKE_OVER"] = forgetful
    for record in records:
        first.add(record)
    assert first.store() == [TopicPartition("payments", 0, 5)]
    for record in records:
        second.add(record)
    assert second.store() == [TopicPartition("payments", 0, 5)]
    assert rows(database) == {"a": (12 * twice, 2 * twice), "b": (-2 * twice, twice)}
    second.add(amount(5, "a", "1"))
    second.store()
    assert rows(database)["a"] == (12 * twice + 1, 2 * twice + 1)


def test_offsets_are_committed_up_to_what_was_delivered(service: dict[str, Any], database: Path) -> None:
    first, second = service["Balances"](database), service["Balances"](database)
    for offset in range(10):
        first.add(amount(offset, "a", "1"))
    first.store()
    second.add(amount(3, "a", "1"))
    assert second.store() == [TopicPartition("payments", 0, 4)]
    assert rows(database) == {"a": (10, 10)}


def test_a_service_that_lost_a_partition_unawares_stores_nothing_of_it(
    service: dict[str, Any], database: Path
) -> None:
    sleeper, successor = service["Balances"](database), service["Balances"](database)
    sleeper.add(amount(0, "a", "5"))
    sleeper.add(amount(0, "other", "1", partition=1))
    sleeper.store()
    sleeper.add(amount(1, "a", "100"))
    sleeper.add(amount(1, "other", "1", partition=1))
    successor.add(amount(1, "a", "100"))
    successor.add(amount(2, "a", "1"))
    successor.store()
    with pytest.raises(service["TakenOverError"], match="payments-0 was taken over by another service"):
        sleeper.store()
    assert rows(database) == {"a": (106, 3), "other": (1, 1)}
    assert sleeper.store() == [], "there is nothing left to commit"
    successor.add(amount(1, "other", "1", partition=1))
    successor.store()
    assert rows(database) == {"a": (106, 3), "other": (2, 2)}


def test_an_account_that_moves_takes_its_balance_along(service: dict[str, Any], database: Path) -> None:
    first, second = service["Balances"](database), service["Balances"](database)
    first.add(amount(0, "a", "5"))
    first.on_partition_key_maybe_revoked([TopicPartition("payments", 0)])
    second.add(amount(0, "a", "10", partition=1))
    second.on_partition_key_maybe_revoked([TopicPartition("payments", 1)])
    first.add(amount(1, "a", "20"))
    first.store()
    assert rows(database) == {"a": (35, 3)}


@pytest.mark.parametrize(("account", "value"), [(None, "1"), ("a", "1.5"), ("a", "")])
def test_a_record_that_is_no_amount_is_named(
    service: dict[str, Any], database: Path, account: str | None, value: str
) -> None:
    balances = service["Balances"](database)
    balances.add(amount(6, "a", "1"))
    with pytest.raises(ValueError, match="payments-0, offset 7, is not an amount: "):
        balances.add(amount(7, account, value))
    assert balances.store() == [TopicPartition("payments", 0, 7)]
    assert rows(database) == {"a": (1, 1)}


def test_offsets_of_a_topic_that_was_deleted_are_refused(service: dict[str, Any], database: Path) -> None:
    """The first records of the new one would be taken for records that are delivered again."""
    balances = service["Balances"](database)
    balances.check("payments", "one")
    balances.add(amount(0, "a", "5"))
    balances.store()
    again = service["Balances"](database)
    again.check("payments", "one")
    again.check("refunds", "two")
    with pytest.raises(DataLossError, match=rf"{database} are those of the topic with id one, now it is two"):
        again.check("payments", "two")
    again.check("payments", "one")


# -- services -------------------------------------------------------------------------------------------------------


class Services:
    """Processes of one group that share a database."""

    def __init__(self, cluster: LocalCluster, topic: str, database: Path) -> None:
        self.group = unique_name("balances")
        self._database = database
        self._running: list[subprocess.Popen[bytes]] = []
        self._arguments = [
            f"--bootstrap-servers={cluster.bootstrap_servers}",
            f"--controller={cluster.controller_url}",
            f"--topic={topic}",
            f"--group={self.group}",
            f"--database={database}",
            "--interval=0.2",
            "--option=session.timeout.ms=20000",
            "--option=heartbeat.interval.ms=500",
        ]

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *(command or ["jobs/balance_service.py"]), *self._arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        self._running.append(process)
        return process

    @property
    def log(self) -> Path:
        return self._database.with_suffix(".log")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait(TIMEOUT)
        self._running.remove(process)

    def await_records(self, count: int) -> None:
        """Wait until so many records are in the balances."""
        self.wait_for(lambda: self.records() >= count, f"{count} records in the balances")

    def records(self) -> int:
        return sum(records for _, records in rows(self._database).values()) if self._database.exists() else 0

    def wait_for(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while not done():
            text = self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{what}: not within {DEADLINE:g} s; {text}"
            assert [p.poll() for p in self._running] == [None] * len(self._running), text
            time.sleep(0.05)

    def end(self) -> None:
        """SIGTERM: all end well."""
        for process in self._running:
            process.terminate()
        codes = [process.wait(DEADLINE) for process in self._running]
        assert codes == [0] * len(codes), self.log.read_text()[-3000:]

    def kill_all(self) -> None:
        for process in list(self._running):
            self.kill(process)


class Payer(threading.Thread):
    """Writes random amounts until it is stopped; ``sums`` is what must come of them."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        super().__init__(name="payer")
        self.sums: Rows = {}
        self.written = 0
        self._stop_asked = threading.Event()
        self._failure: BaseException | None = None
        self._topic = topic
        self._conf = conf(cluster)

    def run(self) -> None:
        rng = random.Random(SEED)
        try:
            with OrderedProducer(self._conf) as producer:
                while not self._stop_asked.wait(0.01):
                    for _ in range(10):
                        account, value = f"account-{rng.randrange(60)}", rng.randrange(-1000, 1000)
                        producer.produce(self._topic, str(value), account)
                        balance, records = self.sums.get(account, (0, 0))
                        self.sums[account] = (balance + value, records + 1)
                        self.written += 1
                    producer.poll(0)
        except BaseException as error:
            self._failure = error
            raise

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(DEADLINE)
        assert not self.is_alive(), f"the writer does not end within {DEADLINE:g} s"
        assert self._failure is None, self._failure


def pay(cluster: LocalCluster, topic: str, count: int) -> None:
    """Write so many records, of 1 for one account."""
    with OrderedProducer(conf(cluster)) as producer:
        for _ in range(count):
            producer.produce(topic, "1", "a")


@contextmanager
def paying(cluster: LocalCluster, topic: str) -> Iterator[Payer]:
    payer = Payer(cluster, topic)
    payer.start()
    try:
        yield payer
    finally:
        payer.finish()


def stored_and_committed(
    cluster: LocalCluster, group: str, database: Path
) -> tuple[Counter[int], Counter[int]]:
    """Offsets of the database and of Kafka, by partition."""
    with closing(sqlite3.connect(database, timeout=TIMEOUT)) as connection:
        stored = dict(connection.execute("SELECT part, next FROM offsets").fetchall())
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    committed = {one.partition: one.offset for one in future.result(TIMEOUT).topic_partitions}
    return Counter(stored), Counter(committed)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_balances_are_exact_after_changes_and_kills(
    cluster: LocalCluster, topic_name: str, database: Path
) -> None:
    topic = create(cluster, topic_name, 2)
    services = Services(cluster, topic, database)
    try:
        with paying(cluster, topic) as payer:
            # Killed with the database ahead of Kafka: what it had stored is delivered again.
            crashing = services.start("-m", "tests.integration.crashing_service")
            assert crashing.wait(DEADLINE) == -signal.SIGKILL, services.log.read_text()
            stored, committed = stored_and_committed(cluster, services.group, database)
            assert stored - committed, (stored, committed)
            services.kill(crashing)
            running = [services.start() for _ in range(3)]
            for count in (5, 3, 6):
                services.await_records(services.records() + 100)
                change(cluster, topic, count)
            services.kill(running[1])
            services.start()
            change(cluster, topic, 2)
            services.await_records(services.records() + 500)
        services.await_records(payer.written)
        services.end()
        assert rows(database) == payer.sums
        stored, committed = stored_and_committed(cluster, services.group, database)
        assert not stored - committed, "Kafka does not know of everything that the services stored"
    finally:
        services.kill_all()


@pytest.mark.long
def test_wrong_arguments_end_it_with_one_line(cluster: LocalCluster, topic_name: str, database: Path) -> None:
    services = Services(cluster, topic_name, database)
    try:
        assert services.start().wait(DEADLINE) == 1
    finally:
        services.kill_all()
    assert services.log.read_text().startswith("error: UNKNOWN_TOPIC_OR_PARTITION"), services.log.read_text()


@pytest.mark.long
def test_a_topic_that_was_created_again_ends_it(
    cluster: LocalCluster, topic_name: str, database: Path
) -> None:
    topic = create(cluster, topic_name, 1)
    pay(cluster, topic, 5)
    first = Services(cluster, topic, database)
    try:
        first.start()
        first.await_records(5)
        first.end()
    finally:
        first.kill_all()
    with ControllerClient(cluster.controller_url) as controller:
        controller.delete_topic(topic)
    create(cluster, topic, 1)
    pay(cluster, topic, 3)
    first.log.unlink()
    second = Services(cluster, topic, database)
    try:
        assert second.start().wait(DEADLINE) == 1
    finally:
        second.kill_all()
    said = second.log.read_text()
    assert said.startswith(
        f"error: topic '{topic}' was deleted and created again: the offsets in {database}"
    ), said
    assert rows(database) == {"a": (5, 5)}
