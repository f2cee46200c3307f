"""Transactional ids that nobody uses any more: fenced before writers wait, once, and then left to expire."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaException, Producer
from kafka import KafkaAdminClient

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.controller.topics.idle_writers import FENCED_WHILE_CLOSED
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.integration.controllers import Hold, InProcess
from tests.integration.dead_ids import Fences, make_dead_ids

DEAD = FENCED_WHILE_CLOSED + 300


@pytest.fixture
def fences(controller: InProcess) -> Fences:
    return Fences(controller)


def new_producer(cluster: LocalCluster, transactional_id: str) -> Producer:
    """A producer that may write: its transactions are initialised."""
    # A fenced producer logs what its calls raise anyway.
    config = {"transactional.id": transactional_id, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **config})
    producer.init_transactions(servers.TIMEOUT)
    return producer


def write(producer: Producer, topic: str) -> None:
    """A transaction of one record."""
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(servers.TIMEOUT)


def epochs(cluster: LocalCluster, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Producer id and epoch of each id, by a client that is not ours."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        described = client.describe_transactions(list(names))
    return {name: (row.producer_id, row.producer_epoch) for name, row in described.items()}


def test_idle_ids_are_fenced_before_writers_wait_and_only_once(
    kafka_cluster: LocalCluster, controller: InProcess, fences: Fences
) -> None:
    topic = controller.create(1)
    live = f"ordered:{topic}:live:0"
    producer = new_producer(kafka_cluster, live)
    write(producer, topic)
    dead = make_dead_ids(kafka_cluster.bootstrap_servers, topic, DEAD)

    assert controller.alter(topic, 2).error == "NONE"
    # The live writer is among those that wrote last: it is not disturbed before the others wait.
    assert live in fences.ids[0]
    assert len(fences.ids[0]) == FENCED_WHILE_CLOSED
    fenced = epochs(kafka_cluster, dead)
    assert {epoch for _, epoch in fenced.values()} == {1}
    with pytest.raises(KafkaException):
        write(producer, topic)

    assert controller.alter(topic, 3).error == "NONE"
    assert fences.ids[1] == ()
    ids = controller.topic(topic, details=True).transactional_ids
    assert ids == schemas.TransactionalIds(known=DEAD + 1, idle=DEAD + 1, fenced=DEAD + 1)
    assert epochs(kafka_cluster, dead) == fenced
    finished = controller.change(topic).last_change
    assert finished is not None
    assert finished.fenced == 0


@pytest.mark.long
def test_whoever_takes_up_an_id_that_a_fence_left_behind_is_fenced_again(
    kafka_cluster: LocalCluster, controller: InProcess, fences: Fences
) -> None:
    topic = controller.create(1)
    names = [f"ordered:{topic}:writer:{number}" for number in range(4)]
    producers = [new_producer(kafka_cluster, name) for name in names]
    producers[2].begin_transaction()
    producers[2].produce(topic, b"open", partition=0)
    assert producers[2].flush(servers.TIMEOUT) == 0
    write(producers[3], topic)
    assert controller.alter(topic, 2).error == "NONE"
    assert fences.ids == [tuple(names)]

    # One has written since, another has only been initialised.
    again = [new_producer(kafka_cluster, name) for name in names[:2]]
    write(again[0], topic)
    assert controller.alter(topic, 1).error == "NONE"
    assert fences.ids[1] == tuple(names[:2])
    producers[0] = new_producer(kafka_cluster, names[0])
    producers[0].begin_transaction()
    new_producer(kafka_cluster, names[1])
    producers[0].produce(topic, b"open", partition=0)
    assert producers[0].flush(servers.TIMEOUT) == 0
    ids = controller.topic(topic, details=True).transactional_ids
    assert ids == schemas.TransactionalIds(known=4, idle=3, fenced=2)
    producers[0].abort_transaction()
    assert controller.topic(topic).transactional_ids is None
    for producer in [*producers[1:], *again]:
        with pytest.raises(KafkaException):
            write(producer, topic)


def test_a_change_can_be_cancelled_while_idle_ids_are_fenced(
    kafka_cluster: LocalCluster, controller: InProcess, fences: Fences
) -> None:
    topic = controller.create(1)
    dead = make_dead_ids(kafka_cluster.bootstrap_servers, topic, DEAD)
    with Hold(protocol.FenceIdle) as hold:
        controller.before = hold
        controller.alter(topic, 2, wait=False)
        hold.await_reached()
        assert controller.http.get(f"/v1/topics/{topic}/layout", params={"writer": "true"}).status_code == 200
        assert controller.http.delete(f"/v1/topics/{topic}/change").status_code == 200
    assert controller.await_end(topic).outcome == "cancelled"
    assert {epoch for _, epoch in epochs(kafka_cluster, dead).values()} == {0}


def test_other_topics_have_ids_of_their_own(
    kafka_cluster: LocalCluster, controller: InProcess, fences: Fences
) -> None:
    """Names that begin alike, and names that mean something in a regular expression."""
    topic = controller.create(1, prefix="a.b")
    other = controller.create(1, prefix=topic.replace(".", "x"))
    dead = make_dead_ids(kafka_cluster.bootstrap_servers, topic, 2, writer="[a-z]+ \\Q é\n.*")
    make_dead_ids(kafka_cluster.bootstrap_servers, other, 2)
    assert controller.alter(topic, 2).error == "NONE"
    assert fences.ids == [tuple(sorted(dead))]
