"""A topic is judged by what all brokers show where the one that was asked is behind."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from spark_ordered_kafka.client.schemas import (
    AdoptTopicRequest,
    LeaderElectionRequest,
    NewTopic,
    PartitionReassignment,
)
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import ReplicaSelection
from spark_ordered_kafka.controller.reassign.requests.elections import LeaderElections
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.reassign.requests.verification import verify
from spark_ordered_kafka.controller.topics.adoption import TopicAdopter
from spark_ordered_kafka.controller.topics.capacities import Headroom
from spark_ordered_kafka.controller.topics.creation import TopicCreator
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.values import LogEnd, PartitionDescription, TopicDescription


def shown(topic_id: str, partitions: int) -> TopicDescription:
    rows = tuple(PartitionDescription(p, 1, 0, (1,), (1,)) for p in range(partitions))
    return TopicDescription("t", topic_id, False, rows)


class LateBroker:
    """The broker that answers shows ``late``, each of the others ``others``."""

    def __init__(self, late: TopicDescription | None, *others: TopicDescription | None) -> None:
        self.late = late
        self.others = others

    def describe_topics(
        self, topics: Sequence[str], *, deadline: float | None = None
    ) -> dict[str, TopicDescription]:
        return {} if self.late is None else {"t": self.late}

    def newest_of_all(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        there = [one for one in (self.late, *self.others) if one is not None and one.topic in topics]
        return {"t": max(there, key=lambda one: len(one.partitions))} if there else {}

    def describe_at_each(self, topic: str, *, deadline: float | None = None) -> list[TopicDescription | None]:
        return [self.late, *self.others]


LATE = pytest.mark.parametrize("late", [None, shown("deleted", 4), shown("id", 2)])


@LATE
def test_a_broker_that_is_behind_is_not_believed(late: TopicDescription | None) -> None:
    admin: Any = LateBroker(late, None, shown("id", 3), shown("id", 4))
    found = described(admin, "t", "id", 4, timeout=0.0)
    assert (found.topic_id, len(found.partitions)) == ("id", 4)


@pytest.mark.parametrize(
    ("now", "code"),
    [(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (shown("other", 4), ErrorCode.LOG_TRUNCATED)],
)
def test_a_topic_that_no_broker_shows_is_gone(now: TopicDescription | None, code: ErrorCode) -> None:
    admin: Any = LateBroker(now, now, None)
    with pytest.raises(RequestError) as caught:
        described(admin, "t", "id", timeout=0.0)
    assert caught.value.code is code


def test_brokers_that_have_just_started_are_asked_again() -> None:
    admin: Any = LateBroker(None)

    def at_each(topic: str, *, deadline: float | None = None) -> list[TopicDescription | None]:
        admin.late = shown("id", 4)
        return [None]

    admin.describe_at_each = at_each
    assert described(admin, "t", "id").topic_id == "id"


@LATE
def test_adoption_does_not_replace_a_topic_that_a_broker_does_not_know_yet(
    late: TopicDescription | None,
) -> None:
    admin: Any = LateBroker(late, shown("id", 4))
    taken: list[str] = []
    record = SimpleNamespace(topic_id="id", deleting_since=None)
    znodes: Any = SimpleNamespace(topic=lambda _: record, create_topic=lambda topic, *_: taken.append(topic))
    adopter = TopicAdopter(admin, znodes, lambda _: None, lambda: 0.0, threading.Lock())
    with pytest.raises(RequestError) as caught:
        adopter.adopt("t", AdoptTopicRequest(force=True))
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert not taken


@pytest.mark.parametrize("late", [None, shown("deleted", 4), shown("new", 2)])
def test_adoption_waits_until_all_brokers_show_the_same(late: TopicDescription | None) -> None:
    admin: Any = LateBroker(late, shown("new", 4))
    views = admin.describe_at_each("t")

    def at_each(topic: str, *, deadline: float | None = None) -> list[TopicDescription | None]:
        found = list(views)
        views[0] = admin.late = shown("new", 4)  # it learns of it
        return found

    admin.describe_at_each = at_each
    taken: list[tuple[str, int]] = []

    def create(topic: str, record: Any, layout: Any) -> None:
        taken.append((record.topic_id, record.initial_partition_count))

    znodes: Any = SimpleNamespace(topic=lambda _: None, create_topic=create)
    adopter = TopicAdopter(admin, znodes, lambda _: None, lambda: 0.0, threading.Lock())
    adopter.adopt("t", AdoptTopicRequest(force=True))
    assert taken == [("new", 4)]


def test_a_new_topic_is_created_beside_a_broker_that_still_shows_a_deleted_one() -> None:
    admin: Any = LateBroker(shown("deleted", 1), None)
    answers = [[shown("deleted", 1), shown("new", 1)], [shown("new", 1)] * 2]
    admin.chunk = 10
    admin.has_topic = lambda _: False
    admin.create_topic = lambda *_: None
    admin.describe_at_each = lambda _: answers.pop(0)
    admin.log_ends = lambda _, partitions: {partition: LogEnd(0, 0) for partition in partitions}
    taken: list[str] = []
    znodes: Any = SimpleNamespace(
        topic=lambda _: None,
        creation=lambda _: None,
        record_creation=lambda *_: None,
        create_topic=lambda _, record, layout: taken.append(record.topic_id),
    )
    policy: Any = SimpleNamespace(validate=lambda _: None)
    capacities: Any = SimpleNamespace(
        ending=lambda _: nullcontext(),
        reserve=lambda _, topic, plan: plan(Headroom({1: None}, {})),
    )
    creator = TopicCreator(admin, znodes, policy, capacities, lambda _: None, lambda: 0.0, threading.Lock())
    creator.create(NewTopic(topic="t", partitions=1), principal="User:x")
    assert taken == ["new"]


def test_creation_deletes_no_topic_that_brokers_do_not_know_yet() -> None:
    admin: Any = LateBroker(None, None)
    admin.chunk = 10

    def create(*_: object, validate_only: bool = False) -> None:
        assert validate_only
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")

    admin.create_topic = create
    record = SimpleNamespace(topic_id="id", deleting_since=None, created_by=None)
    znodes: Any = SimpleNamespace(topic=lambda _: record, creation=lambda _: None)
    policy: Any = SimpleNamespace(validate=lambda _: None)
    capacities: Any = SimpleNamespace(
        ending=lambda _: nullcontext(),
        reserve=lambda _, topic, plan: plan(Headroom({1: None}, {})),
    )
    ended: list[str] = []
    creator = TopicCreator(admin, znodes, policy, capacities, ended.append, lambda: 0.0, threading.Lock())
    with pytest.raises(RequestError) as caught:
        creator.create(NewTopic(topic="t", assignments={0: [1]}), principal="User:x")
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert not ended


def test_a_partition_that_one_broker_does_not_know_yet_is_there() -> None:
    admin: Any = LateBroker(shown("id", 2), shown("id", 4))
    none: Any = SimpleNamespace(all_ongoing=dict, describe_each=lambda _: {})
    rows = [PartitionReassignment(topic="t", partition=3, replicas=[1])]
    assert verify(admin, none, none, rows).complete
    assert [row.partition for row in ReplicaSelection(admin).replicas(["t"], [3], [])] == [3]
    election = LeaderElectionRequest.model_validate(
        {"partitions": [{"topic": "t", "partition": 3}], "validate_only": True}
    )
    assert [one.error for one in LeaderElections(admin, timeout=1.0).elect(election).partitions] == ["NONE"]


def test_a_partition_that_no_broker_knows_is_not_there() -> None:
    admin: Any = LateBroker(shown("id", 2), shown("id", 2))
    assert len(describe(admin, ["t"], [("t", 3)])["t"].partitions) == 2
    with pytest.raises(RequestError, match="topic 't' has 0 to 1"):
        list(ReplicaSelection(admin).replicas(["t"], [3], []))
