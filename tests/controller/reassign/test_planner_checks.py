"""Goals that no plan has: the error names field, value and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.client.schemas.reassignments import PlanGoal
from spark_ordered_kafka.controller.placement.planner import (
    Broker,
    Goal,
    Partition,
    Snapshot,
    plan,
)
from spark_ordered_kafka.controller.placement.planner.checks import unknown_topics
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.values import LogDir

DIRS = (LogDir("/a"), LogDir("/b"), LogDir("/off", 56))
CLUSTER = Snapshot(
    (Broker(1, log_dirs=DIRS), Broker(2, "b"), Broker(3, alive=False)),
    (Partition("t", 0, (1, 2), 1, (1, 2), (1, 1)),),
)


@pytest.mark.parametrize(
    ("kind", "fields", "error", "words"),
    [
        ("drain", {}, "INVALID_REQUEST", "brokers is missing: the goal drain needs it"),
        ("drain", {"brokers": ()}, "INVALID_REQUEST", "brokers is empty"),
        ("drain", {"brokers": (1, 1)}, "INVALID_REQUEST", "brokers has the value 1 twice"),
        ("drain", {"brokers": (9,)}, "UNKNOWN_MEMBER_ID", "brokers has the value 9, which is no broker: known are 1, 2, 3"),
        ("drain", {"brokers": (1, 2)}, "INVALID_REQUEST", "value 1, 2: no other broker is up"),
        ("drain", {"brokers": (1,)}, "INVALID_REPLICATION_FACTOR", "partition 0 of topic 't' has 2 replicas"),
        ("drain", {"brokers": (1,), "log_dirs": ("/a",)}, "INVALID_REQUEST", "log_dirs has the value /a: the goal drain uses"),
        ("spread", {"brokers": (3,)}, "UNKNOWN_MEMBER_ID", "brokers has the value 3, which is down: up are 1, 2"),
        ("spread", {}, "INVALID_REQUEST", "brokers is missing"),
        ("balance", {"brokers": (3,)}, "UNKNOWN_MEMBER_ID", "value 3, which is down"),
        ("balance", {"topics": ()}, "INVALID_REQUEST", "topics is empty"),
        ("balance", {"topics": ("t", "t")}, "INVALID_REQUEST", "topics has the value 't' twice"),
        ("balance", {"replication_factor": 0}, "INVALID_REQUEST", "replication_factor has the value 0: the goal balance uses"),
        ("racks", {"brokers": (1,)}, "INVALID_REQUEST", "brokers has the value 1: the goal racks uses topics alone"),
        ("racks", {}, "INVALID_REQUEST", "every broker must have one (broker.rack), but 1 has none"),
        ("replication_factor", {}, "INVALID_REQUEST", "replication_factor is missing"),
        ("replication_factor", {"replication_factor": 3}, "INVALID_REPLICATION_FACTOR", "between 1 and 2"),
        ("replication_factor", {"replication_factor": 0}, "INVALID_REPLICATION_FACTOR", "value 0"),
        ("empty_log_dirs", {"brokers": (1,)}, "INVALID_REQUEST", "log_dirs is missing"),
        ("empty_log_dirs", {"brokers": (1, 2), "log_dirs": ("/a",)}, "INVALID_REQUEST", "name the one broker"),
        ("empty_log_dirs", {"brokers": (1,), "log_dirs": ("/x",)}, "LOG_DIR_NOT_FOUND", "'/x': broker 1 has /a, /b, /off"),
        ("empty_log_dirs", {"brokers": (1,), "log_dirs": ("/off",)}, "KAFKA_STORAGE_ERROR", "'/off', which is offline"),
        ("empty_log_dirs", {"brokers": (1,), "log_dirs": ("/a", "/b")}, "INVALID_REQUEST", "no other one that is online"),
        ("empty_log_dirs", {"brokers": (2,), "log_dirs": ("/a",)}, "BROKER_NOT_AVAILABLE", "did not report"),
        ("balance_log_dirs", {}, "INVALID_REQUEST", "brokers is missing"),
        ("balance_log_dirs", {"brokers": (1,), "also": ("balance",)}, "INVALID_REQUEST", "also has the value balance: the goal"),
        ("drain", {"brokers": (2,), "also": ("racks",)}, "INVALID_REQUEST", "also has the value 'racks': every broker must have"),
        ("drain", {"brokers": (2,), "also": ()}, "INVALID_REQUEST", "also is empty"),
        ("balance", {"also": ("leaders", "leaders")}, "INVALID_REQUEST", "also has the value 'leaders' twice"),
        ("leaders", {"also": ("leaders",)}, "INVALID_REQUEST", "also has the value 'leaders', which is the goal already"),
        ("leaders", {"brokers": (3,)}, "UNKNOWN_MEMBER_ID", "value 3, which is down"),
        ("replace_replicas", {}, "INVALID_REQUEST", "brokers is missing"),
        ("replace_replicas", {"brokers": (2,)}, "BROKER_NOT_AVAILABLE", "did not report"),
        ("replace_replicas", {"brokers": (3,)}, "UNKNOWN_MEMBER_ID", "value 3, which is down"),
        ("balance_log_dirs", {"brokers": (3,)}, "UNKNOWN_MEMBER_ID", "which is down"),
    ],
)  # fmt: skip
def test_goals_that_do_not_fit(kind: PlanGoal, fields: dict[str, Any], error: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        plan(CLUSTER, Goal(kind, **fields))
    assert refused.value.name == error
    assert words in refused.value.message


def test_capacity_that_is_missing_is_told() -> None:
    brokers = (Broker(1), Broker(2, capacity=1), Broker(3, capacity=0))
    rows = tuple(Partition("t", p, (1,), 1, (1,), (1,)) for p in range(3))
    with pytest.raises(RequestError) as refused:
        plan(Snapshot(brokers, rows), Goal("drain", brokers=(1,)))
    assert refused.value.name == "GUARD_RAILS"
    assert "draining broker 1: 2 of 3 replicas have no place" in refused.value.message
    assert "{2: 1, 3: 0}" in refused.value.message


def test_topics_that_do_not_exist_are_named() -> None:
    unknown_topics(["t"], ["t", "u"])
    with pytest.raises(RequestError, match="topics has the value x, y, which do not exist") as refused:
        unknown_topics(["t", "x", "y"], ["t"])
    assert refused.value.name == "INVALID_TOPIC_EXCEPTION"


def test_a_rack_that_goes_with_its_only_broker_is_told() -> None:
    brokers = (Broker(1, "a"), Broker(2, "b"), Broker(3, "b"))
    rows = (Partition("t", 0, (1, 2), 1, (1, 2), (1, 1)),)
    found = plan(Snapshot(brokers, rows), Goal("drain", brokers=(1,)))
    assert [change.replicas for change in found.changes] == [(3, 2)]
    assert found.warnings == (
        "partitions that come on fewer racks, since without broker 1 there are not enough: 1",
    )


def test_brokers_that_cannot_take_their_share_are_told() -> None:
    brokers = (Broker(1), Broker(2, capacity=1))
    rows = tuple(Partition("t", p, (1,), 1, (1,), (1,)) for p in range(6))
    found = plan(Snapshot(brokers, rows), Goal("spread", brokers=(2,)))
    assert found.replicas == 1
    assert "broker 2 would have to take 2 replicas more for a fair share" in found.warnings[0]
