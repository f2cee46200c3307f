"""Fencing against real brokers: what was open is aborted, its writers are rejected, others are left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_ordered_kafka.errors import RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.bootstrap import REQUEST_TIMEOUT
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.integration.fencing import WRITERS, Writers, assert_fenced, soon, unheard
from tests.servers import await_true, transaction_states


@pytest.fixture
def admin(kafka_cluster: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=servers.TIMEOUT)
    yield admin
    admin.close()


def test_open_transactions_are_aborted_and_their_writers_rejected(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3)
    fenced = Writers(
        kafka_cluster.bootstrap_servers, topic, 3, [f"writer:{number}" for number in range(WRITERS)]
    )
    # Its name continues the other's, but its ids do not begin with "ordered:<topic>:".
    other = Writers(kafka_cluster.bootstrap_servers, make_topic(3, prefix=topic), 3, ["writer:0"])
    fenced.begin()
    other.begin()
    fencer = Fencer(admin)

    found = transaction_states(fencer, f"ordered:{topic}:", soon())
    assert found == dict.fromkeys(fenced.ids, "Ongoing")
    assert not fenced.is_quiet()
    told: list[tuple[int, threading.Thread]] = []
    fencer.fence(found, soon(), lambda done: told.append((done, threading.current_thread())))

    assert fenced.is_quiet()
    counts = [done for done, _ in told]
    assert counts == sorted(set(counts))
    assert counts[-1] == WRITERS
    assert {thread for _, thread in told} == {threading.current_thread()}
    for producer in fenced.producers:
        assert_fenced(producer)
    assert fenced.committed() == []
    assert set(transaction_states(fencer, f"ordered:{topic}:", soon()).values()) <= {"Empty", "CompleteAbort"}
    assert transaction_states(fencer, f"ordered:{other.topic}:", soon()) == {other.ids[0]: "Ongoing"}
    other.producers[0].commit_transaction(servers.TIMEOUT)
    assert other.committed() == [b"open"] * 3


@pytest.mark.parametrize(("stale", "listings"), [(2, 1), (3, 2)], ids=["before", "after"])
def test_a_broker_that_names_other_coordinators_lets_all_be_listed_again(
    kafka_cluster: LocalCluster,
    admin: KafkaAdmin,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    stale: int,
    listings: int,
) -> None:
    """Its answers are those of a broker that has not heard of the last election, or was the first to hear of it.

    An attempt asks any broker, then each one before the listing and after it.
    """
    writers = Writers(kafka_cluster.bootstrap_servers, make_topic(), 1, ["idle"])
    writers.producers[0].init_transactions(servers.TIMEOUT)
    asked: list[str] = []
    send = admin.requests.send

    async def noted_send(request: Any, *about: Any, **more: Any) -> Any:
        answer = await send(request, *about, **more)
        asked.append(type(request).__name__)
        if asked[-1] == "MetadataRequest" and asked.count("MetadataRequest") == stale:
            answer.topics[0].partitions[0].leader_epoch += 1
        return answer

    monkeypatch.setattr(admin.requests, "send", noted_send)
    found = transaction_states(Fencer(admin), writers.ids[0], soon())
    assert found == {writers.ids[0]: "Empty"}
    assert asked.count("ListTransactionsRequest") == listings
    assert asked.count("MetadataRequest") == stale + 3


def test_idle_writers_are_listed_and_fenced(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    writers = Writers(kafka_cluster.bootstrap_servers, make_topic(), 1, ["idle"])
    (producer,) = writers.producers
    producer.init_transactions(servers.TIMEOUT)
    fencer = Fencer(admin)
    assert transaction_states(fencer, writers.ids[0], soon()) == {writers.ids[0]: "Empty"}
    # An id that nobody ever used is no error.
    fencer.fence([*writers.ids, f"ordered:{writers.topic}:nobody"], soon(), unheard)
    producer.begin_transaction()
    producer.produce(writers.topic, value=b"late", partition=0)
    assert_fenced(producer)
    assert writers.is_quiet()
    assert writers.committed() == []


def test_nothing_to_fence(admin: KafkaAdmin) -> None:
    fencer = Fencer(admin)
    assert transaction_states(fencer, f"ordered:{servers.unique_name('unused')}:", soon()) == {}
    fencer.fence([], soon(), lambda _: pytest.fail("nothing was fenced"))


def test_writers_in_full_flight(
    kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]
) -> None:
    """Commits race with the fence: a transaction counts wholly or not at all, and nothing follows the fence."""
    topic = make_topic(2)
    writers = Writers(kafka_cluster.bootstrap_servers, topic, 2, [str(number) for number in range(12)])
    writers.begin()
    begun: set[int] = set()

    def run(number: int) -> tuple[list[int], int]:
        """Transactions that were committed, and the one that was not."""
        producer, committed = writers.producers[number], []
        for transaction in range(10_000):
            try:
                for partition in writers.partitions:
                    producer.produce(topic, value=f"{number}:{transaction}".encode(), partition=partition)
                producer.commit_transaction(servers.TIMEOUT)
                committed.append(transaction)
                begun.add(number)
                producer.begin_transaction()
            except KafkaException as raised:
                error = raised.args[0]
                # A broker of Kafka 4.3 says UNKNOWN_SERVER_ERROR of an end that meets the fence (transaction_error).
                if not (error.fatal() or error.code() == KafkaError.UNKNOWN):
                    raise
                return committed, transaction
        raise AssertionError("the writer was never fenced")

    fencer = Fencer(admin)
    with ThreadPoolExecutor(len(writers.ids)) as threads:
        running = [threads.submit(run, number) for number in range(len(writers.ids))]
        await_true(
            lambda: len(begun) == len(running) or any(future.done() for future in running),
            "every writer has committed",
        )
        fencer.fence(transaction_states(fencer, f"ordered:{topic}:", soon()), soon(), unheard)
        assert writers.is_quiet()
        results = [future.result() for future in running]

    seen = [value for value in writers.committed() if value != b"open"]
    for number, (committed, last) in enumerate(results):
        mine = sorted(int(value.split(b":")[1]) for value in seen if value.startswith(b"%d:" % number))
        assert committed
        # The last transaction's answer may have been lost to the fence after it was committed.
        expected = [transaction for transaction in committed for _ in writers.partitions]
        assert mine in (expected, [*expected, last, last])


def test_deadline(kafka_cluster: LocalCluster, admin: KafkaAdmin, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    writers = Writers(kafka_cluster.bootstrap_servers, topic, 1, [str(number) for number in range(5)])
    writers.begin()
    fencer = Fencer(admin)
    kafka_cluster.pause("broker-1")
    try:
        started = time.monotonic()
        with pytest.raises(UnavailableError, match=f"5 transactional ids.*ordered:{topic}:0.*last error"):
            fencer.fence(writers.ids, soon(1), unheard)
        with pytest.raises(UnavailableError, match=f"ordered:{topic}:"):
            transaction_states(fencer, f"ordered:{topic}:", soon(1))
        # A call that goes by the timeout of its requests takes longer alone.
        assert time.monotonic() - started < REQUEST_TIMEOUT
    finally:
        kafka_cluster.resume("broker-1")
    fencer.fence(writers.ids, soon(), unheard)
    assert writers.is_quiet()


def test_an_id_kafka_refuses_is_named(admin: KafkaAdmin) -> None:
    """Kafka takes no empty transactional id."""
    with pytest.raises(RequestError, match="fence transactional id ''"):
        Fencer(admin).fence(["", *(f"ordered:refused:{number}" for number in range(100))], soon(), unheard)


def test_a_listener_that_fails_ends_the_fence(admin: KafkaAdmin) -> None:
    def fail(_: int) -> None:
        raise ValueError("listener")

    with pytest.raises(ValueError, match="listener"):
        Fencer(admin).fence([f"ordered:failing:{number}" for number in range(100)], soon(), fail)
    assert transaction_states(Fencer(admin), "ordered:", soon()) is not None
