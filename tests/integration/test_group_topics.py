"""Positions of a group in many topics: those of each topic alone, with as many requests to Kafka as for one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.state.paths import topic_path
from spark_ordered_kafka.controller.topics import queries
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import TopicDescription
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess
from tests.integration.driven import delete_topic
from tests.integration.test_lifecycle import commit, delete_records, produce
from tests.servers import TIMEOUT, create_topic, unique_name


def calls_with(monkeypatch: pytest.MonkeyPatch, method: str) -> list[str]:
    """Topics with which this thread calls a method of KafkaAdmin from now on."""
    seen: list[str] = []
    original = getattr(KafkaAdmin, method)

    def called(admin: KafkaAdmin, topic: str, *args: Any, **more: Any) -> object:
        if threading.current_thread() is threading.main_thread():
            seen.append(topic)
        return original(admin, topic, *args, **more)

    monkeypatch.setattr(KafkaAdmin, method, called)
    return seen


def described(controller: InProcess, group: str) -> dict[str, schemas.TopicPositions]:
    return {one.topic: one for one in controller.service.positions.describe(group).topics}


def read_by(controller: InProcess, cluster: LocalCluster, group: str, count: int) -> list[str]:
    """So many topics, in each of which the group has committed something."""
    topics = [controller.create(2) for _ in range(count)]
    for number, topic in enumerate(topics):
        produce(cluster, topic, {0: 2, 1: number + 1})
        commit(cluster, group, topic, {0: 1, 1: number})
    return topics


def alter(controller: InProcess, count: int, *topics: str) -> None:
    """Change all of them at once."""
    for topic in topics:
        assert controller.alter(topic, count, wait=False).error == "NONE"
    for topic in topics:
        assert controller.await_end(topic).outcome == "done"


def made_elsewhere(cluster: LocalCluster, group: str, topic: str) -> None:
    """A topic of another tool, for which the group commits something: what it had for one of that name went with it."""
    create_topic(cluster.bootstrap_servers, topic, 1)
    commit(cluster, group, topic, {0: 0})


def test_topics_of_every_kind(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, group = calls_with(monkeypatch, "log_starts"), unique_name("many")
    grown, shrunk, emptied, unordered, open_ = topics = read_by(controller, kafka_cluster, group, 5)
    alter(controller, 3, grown, shrunk, emptied)
    for topic in (grown, shrunk, emptied):
        produce(kafka_cluster, topic, {2: 4})
    alter(controller, 2, shrunk, emptied)
    for topic in (shrunk, emptied):
        commit(kafka_cluster, group, topic, {0: 2, 1: 3})
    assert delete_records(controller, emptied, force=True)[0] == 200
    changed = controller.http.patch(f"/v1/topics/{unordered}", json={"ordered_delivery": False})
    assert changed.status_code == 200, changed.text
    # Committed for, and not looked at.
    made_elsewhere(kafka_cluster, group, unique_name("unmanaged"))
    again, unreadable = read_by(controller, kafka_cluster, group, 2)
    session_of(controller.service).client.set(topic_path(unreadable), b"no record")
    delete_topic(kafka_cluster, again)
    made_elsewhere(kafka_cluster, group, again)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "transactional.id": open_})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(open_, b"not committed", partition=1)
    assert producer.flush(TIMEOUT) == 0

    found = described(controller, group)
    assert looked_at == []
    assert set(found) == set(topics)
    for topic in topics:
        (alone,) = controller.service.positions.describe(group, topic).topics
        assert found[topic] == alone
    producer.abort_transaction(TIMEOUT)
    waits = {
        topic: {
            row.partition: [(one.partition, one.offset) for one in row.waits_for] for row in one.partitions
        }
        for topic, one in found.items()
    }
    assert waits[grown] == {0: [], 1: [], 2: [(0, 2)]}
    assert waits[shrunk] == {0: [(2, 4)], 1: [], 2: []}
    assert [[row.status for row in found[topic].partitions] for topic in (shrunk, emptied)] == [
        ["live", "live", "marked"],
        ["live", "live", "deleted"],
    ]
    assert found[emptied].partitions[0].waits_for == []
    assert [(row.position, row.log_end, row.lag) for row in found[open_].partitions] == [(1, 2, 1), (4, 5, 1)]


def test_no_topic_is_asked_for_by_itself(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = calls_with(monkeypatch, "log_starts")
    group = unique_name("many")
    topics = read_by(controller, kafka_cluster, group, 6)
    assert set(described(controller, group)) == set(topics)
    assert looked_at == []
    # More layouts than one answer has.
    monkeypatch.setattr(queries, "_MOST_STARTS", 3)
    assert set(described(controller, group)) == set(topics)
    assert sorted(looked_at) == sorted(topics)[2:]


def test_a_topic_that_goes_amid_the_look_costs_the_others_nothing(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = unique_name("many")
    first, *others = topics = read_by(controller, kafka_cluster, group, 3)
    describe_topics = KafkaAdmin.describe_topics

    def then_delete(
        admin: KafkaAdmin, asked: Sequence[str] | None = None, **more: Any
    ) -> dict[str, TopicDescription]:
        found = describe_topics(admin, asked, **more)
        if asked is not None and set(asked) == set(topics):
            delete_topic(kafka_cluster, first)
        return found

    monkeypatch.setattr(KafkaAdmin, "describe_topics", then_delete)
    assert set(described(controller, group)) == set(others)


def test_topics_that_were_made_again_are_waited_for_together(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = unique_name("many")
    kept, *again = sorted(read_by(controller, kafka_cluster, group, 4))
    for topic in again:
        delete_topic(kafka_cluster, topic)
        made_elsewhere(kafka_cluster, group, topic)
    asked = calls_with(monkeypatch, "describe_at_each")
    assert set(described(controller, group)) == {kept}
    assert asked.count(again[0]) > 1
    assert [asked.count(topic) for topic in again[1:]] == [1, 1]
