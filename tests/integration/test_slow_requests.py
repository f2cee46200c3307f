"""Requests that a broker does not answer for long hold nothing else up: it takes those of a connection one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial

import httpx2
import pytest
from confluent_kafka import Producer
from kafka import __version__ as kafka_python
from kafka.errors import KafkaConnectionError

from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.deletions import TopicDeletions
from spark_ordered_kafka.kafka.logs import DeletedRecords, PartitionLogs
from spark_ordered_kafka.kafka.requests import BrokerRequests
from spark_ordered_kafka.local import LocalCluster
from tests.chaos.servers import paused
from tests.integration.controllers import InProcess
from tests.quotas import limit
from tests.servers import TIMEOUT, await_true, create_topic, unique_name

# Partitions per second, and so many that it takes longer than any test waits.
_LITTLE = 0.1
_MANY = 40


def _limit(cluster: LocalCluster, rate: float | None) -> None:
    limit(cluster.bootstrap_servers, "controller_mutation_rate", rate, f"kafka-python-{kafka_python}")


@contextmanager
def exhausted(cluster: LocalCluster, create: Callable[[str], bool]) -> Iterator[None]:
    """Nothing may be created any more; ``create`` says whether the topic of this name, of many partitions, was."""
    _limit(cluster, _LITTLE)
    try:
        # The first ones are taken, whatever their size, and the quota itself is known a moment later.
        await_true(lambda: not create(unique_name("many")), "the quota is used up")
        yield
    finally:
        _limit(cluster, None)


def is_done(change: Callable[[], None]) -> bool:
    with suppress(UnavailableError):
        change()
        return True
    return False


def replicas(admin: KafkaAdmin, partitions: int) -> dict[int, list[int]]:
    return {partition: [admin.brokers()[0].id] for partition in range(partitions)}


def test_a_quota_on_creations_holds_up_creations_alone(kafka_cluster: LocalCluster, topic_name: str) -> None:
    create_topic(kafka_cluster.bootstrap_servers, topic_name)
    with closing(KafkaAdmin(kafka_cluster.bootstrap_servers, timeout=3.0)) as admin:

        def create(topic: str) -> bool:
            return is_done(partial(admin.create_topic, topic, replicas(admin, _MANY), {}))

        topic_id = admin.describe_topics([topic_name])[topic_name].topic_id
        with exhausted(kafka_cluster, create):
            assert topic_name in admin.describe_topics()
            assert len(admin.log_ends(topic_name, [0])) == 1
            with pytest.raises(
                UnavailableError,
                match=r"THROTTLING_QUOTA_EXCEEDED: .* controller_mutation_rate .* another \d+ s",
            ):
                admin.create_partitions(topic_name, 2, [replicas(admin, 1)[0]])
            with pytest.raises(UnavailableError, match="controller_mutation_rate"):
                TopicDeletions(admin.requests, timeout=3.0).delete(topic_name, topic_id)
        grow = partial(admin.create_partitions, topic_name, 2, [replicas(admin, 1)[0]])
        await_true(lambda: is_done(grow), "partitions are created before what was owed is worked off")


@pytest.mark.long
def test_topics_change_while_a_quota_holds_creations_up(
    kafka_cluster: LocalCluster, controller: InProcess
) -> None:
    """Every request to that broker waited: those of a change whose topic was closed by then, too."""
    changed, leaving = controller.create(2, "changed"), controller.create(_MANY, "leaving")
    assert controller.alter(changed, 4).error == "NONE"

    def create(topic: str) -> bool:
        answer = controller.http.post("/v1/topics", json={"topic": topic, "partitions": _MANY})
        return answer.status_code == httpx2.codes.CREATED

    with exhausted(kafka_cluster, create):
        for count in (2, 3):  # which are there
            assert controller.alter(changed, count).error == "NONE"
        refused = controller.alter(changed, 5)
        assert refused.error == "REQUEST_TIMED_OUT"
        # In ZooKeeper mode Kafka does not say so to a check, and the change begins.
        assert refused.change_id is not None or "controller_mutation_rate" in (refused.error_message or "")
        answer = controller.http.delete(f"/v1/topics/{leaving}", params={"timeout_ms": "40000"})
        assert answer.json()["error"] == "REQUEST_TIMED_OUT"
        assert "in the background; so far: " in answer.json()["error_message"]
        assert "controller_mutation_rate" in answer.json()["error_message"]
    assert controller.http.delete(f"/v1/topics/{leaving}").status_code == httpx2.codes.OK

    def grows() -> bool:
        controller.alter(changed, 5)
        return controller.topic(changed).undeleted_partition_count == 5

    await_true(grows, "it grows")


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "has died"])
def test_a_broker_that_nothing_is_needed_of_is_not_waited_for(
    three_brokers: LocalCluster, topic_name: str, hangs: bool
) -> None:
    """It is in the metadata for nine seconds more."""
    cluster = three_brokers
    with closing(KafkaAdmin(cluster.bootstrap_servers, timeout=6.0)) as admin:
        await_true(lambda: len(admin.brokers()) == 3, "all brokers are up")
        leader, lost, _ = (broker.id for broker in admin.brokers())
        admin.create_topic(topic_name, {0: [leader]}, {})
        assert admin.log_ends(topic_name, [0])[0].offset == 0
        name = f"broker-{lost}"
        stop, start = (cluster.pause, cluster.resume) if hangs else (cluster.kill, cluster.start)
        with paused(partial(stop, name), partial(start, name)):
            assert admin.log_ends(topic_name, [0])[0].offset == 0
        await_true(lambda: len(admin.brokers()) == 3, "all brokers are up")


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([1], [1]),
        ([1, 2, "hangs"], [1, 2]),
        ([1, "fails", 2], [1, 2]),
        ([1, 2, "is late"], [1, 2, "is late"]),
        (["is late", 1, "hangs", "fails", 2], ["is late", 1, 2]),
        (["fails"], None),
        ([1, "fails"], None),
        (["fails", 1, "is late", "fails"], None),
    ],
)
def test_most_of_the_answers_are_enough(
    kafka_cluster: LocalCluster, outcomes: list[object], expected: list[object] | None
) -> None:
    with closing(BrokerRequests(kafka_cluster.bootstrap_servers, TIMEOUT)) as requests:

        async def answer(outcome: object) -> object:
            if outcome == "fails":
                raise KafkaConnectionError(outcome)
            await requests.sleep({"hangs": 60.0, "is late": 0.1}.get(str(outcome), 0.0))
            return outcome

        def ask() -> list[object]:
            return requests.retry(
                lambda _: requests.most(map(answer, outcomes), 1.0),
                time.monotonic() + TIMEOUT,
                "ask",
                transient=lambda _: False,
            )

        if expected is not None:
            assert ask() == expected
            return
        with pytest.raises(UnavailableError, match="fails"):
            ask()


@pytest.mark.long
def test_deleting_records_that_waits_for_a_follower_holds_nothing_else_up(
    three_brokers: LocalCluster, topic_name: str
) -> None:
    servers = three_brokers.bootstrap_servers
    # Less than the nine seconds after which brokers do without the follower.
    with closing(KafkaAdmin(servers, timeout=6.0)) as admin:
        admin.create_topic(topic_name, {0: [one.id for one in admin.brokers()]}, {})
        produced = Producer({"bootstrap.servers": servers})
        produced.produce(topic_name, b"value")
        assert produced.flush(TIMEOUT) == 0
        (described,) = admin.describe_topics([topic_name])[topic_name].partitions
        follower = f"broker-{next(one for one in described.replicas if one != described.leader)}"
        done: list[object] = []
        logs = PartitionLogs(admin.requests, timeout=TIMEOUT)
        deleting = threading.Thread(target=lambda: done.append(logs.delete_records(topic_name, {0: 1})))
        answered = 0
        with paused(partial(three_brokers.pause, follower), partial(three_brokers.resume, follower)):
            deleting.start()
            while deleting.is_alive():
                admin.log_ends(topic_name, [0])
                answered += 1
        deleting.join(TIMEOUT)
    assert answered > 0
    assert done == [{0: DeletedRecords(1)}]
