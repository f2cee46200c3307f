"""The Kafka rights that docs/security.md says are enough for the controllers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclBinding, AdminClient, ResourceType
from confluent_kafka.cimpl import NewTopic

from spark_ordered_kafka.client.schemas import ReassignmentView
from spark_ordered_kafka.controller.settings import AuthorizationSettings
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.integration.controllers import InProcess, in_process
from tests.integration.hanging import hang
from tests.integration.keepers import with_sasl
from tests.integration.reassigning import Mover, Row, outcomes
from tests.servers import TIMEOUT, await_true, commit_offsets, unique_name

BOB = "User:bob"
RIGHTS = [
    *(acl(BOB, operation, "CLUSTER", "") for operation in ("DESCRIBE", "CREATE", "ALTER")),
    *(
        acl(BOB, operation, "TOPIC", "*")
        for operation in (
            *("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "CREATE"),
            *("ALTER", "ALTER_CONFIGS", "DELETE"),
        )
    ),
    *(
        acl(BOB, operation, "TRANSACTIONAL_ID", "ordered:", prefixed=True)
        for operation in ("DESCRIBE", "WRITE")
    ),
    acl(BOB, "DESCRIBE", "GROUP", "*"),
    acl(BOB, "DELETE", "GROUP", "ordered:", prefixed=True),
]


@pytest.fixture
def acls(secure_cluster: LocalCluster) -> Acls:
    return Acls(AdminClient({**secure_cluster.kafka_properties(), "log_level": 3}))


@pytest.fixture
def bob_may(acls: Acls) -> Iterator[None]:
    """The rights, and none of them afterwards: bob is everybody's user without rights."""
    bindings: list[AclBinding] = RIGHTS
    acls.add(*bindings)
    yield
    for binding in bindings:
        acls.remove(binding)


@contextmanager
def bobs_controller(cluster: LocalCluster) -> Iterator[InProcess]:
    everybody = AuthorizationSettings(super_users=frozenset({"User:ANONYMOUS"}))
    kafka = cluster.kafka_properties("bob")
    with in_process(cluster, kafka=kafka, zookeeper=with_sasl(cluster), authorization=everybody) as running:
        yield running


def write(producer: Producer, ledger: Consumer, topic: str, offset: int, *, commit: bool) -> None:
    """A transaction of a record for each of two partitions, with its entry in the ledger."""
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(topic, value=b"v", partition=partition)
    entry = [TopicPartition(topic, 0, offset)]
    producer.send_offsets_to_transaction(entry, ledger.consumer_group_metadata(), TIMEOUT)
    if commit:
        producer.commit_transaction(TIMEOUT)
    else:
        producer.flush(TIMEOUT)


def test_they_are_enough(secure_cluster: LocalCluster, bob_may: None) -> None:
    with bobs_controller(secure_cluster) as controller:
        topic = controller.create(2, configs={"retention.ms": "3600000"})
        name = f"ordered:{topic}:writer:0"
        producer = Producer({**secure_cluster.kafka_properties(), "transactional.id": name, "log_level": 3})
        ledger = Consumer({**secure_cluster.kafka_properties(), "group.id": name, "log_level": 3})
        producer.init_transactions(TIMEOUT)
        write(producer, ledger, topic, 1, commit=True)
        write(producer, ledger, topic, 2, commit=False)
        # Fences the open transaction; then finds nobody else.
        assert controller.alter(topic, 3).error_message is None
        assert controller.change(topic).last_change is not None
        assert controller.alter(topic, 2).error_message is None

        def ok(method: str, path: str, **body: Any) -> httpx2.Response:
            answer: httpx2.Response = controller.http.request(
                method, path, json=None if method in ("GET", "DELETE") else body
            )
            assert answer.status_code == 200, answer.text
            return answer

        view = controller.topic(topic, details=True)
        assert [row.status for row in view.partitions][:2] == ["live", "live"]
        ok("PATCH", f"/v1/topics/{topic}", configs={"retention.ms": "7200000"})
        ok("POST", f"/v1/topics/{topic}/delete-records")
        ok("POST", f"/v1/topics/{topic}/truncations", positions=[])
        ok("GET", "/v1/brokers")
        (broker,) = ok("GET", "/v1/log-dirs").json()["brokers"]
        assert broker["error"] == "NONE"
        paths = [row["path"] for row in broker["log_dirs"]]
        replica = {"topic": topic, "partition": 0, "broker": 1}
        for path in paths:  # there and back, whichever it is in
            (row,) = ok("POST", "/v1/replica-log-dirs", replicas=[{**replica, "log_dir": path}]).json()[
                "replicas"
            ]
            assert row["error"] == "NONE", row
        for path in ("/v1/replica-log-dirs", "/v1/replica-status"):
            rows = ok("GET", f"{path}?topic={topic}").json()["replicas"]
            assert [row["error"] for row in rows] == ["NONE"] * len(rows)
        ok("PUT", "/v1/brokers/1/guard-rails", max_partitions=100_000)
        factors = {"topics": [{"topic": topic, "replication_factor": 1}]}
        ok("POST", "/v1/replication-factors", **factors)
        assert ok("GET", f"/v1/groups/{name}/positions").json()["group"] == name
        foreign = unique_name("foreign")
        create_topic_as(secure_cluster, foreign)
        ok("POST", f"/v1/topics/{foreign}/adopt", hash="murmur2", validate_only=True)
        ok("DELETE", f"/v1/topics/{topic}")
        assert topic not in ok("GET", "/v1/topics").text
        ledger.close()


@pytest.mark.long
def test_those_that_lack_are_told(secure_cluster: LocalCluster, acls: Acls, bob_may: None) -> None:
    """On transactional ids and groups, which need not exist; and no id is made by asking."""
    with bobs_controller(secure_cluster) as controller:
        topic = controller.create(1)
        writer = Producer(
            {**secure_cluster.kafka_properties(), "transactional.id": f"ordered:{topic}:w:0", "log_level": 3}
        )
        writer.init_transactions(TIMEOUT)
        # Rights on groups are asked for once there is one.
        ledger = Consumer(
            {**secure_cluster.kafka_properties(), "group.id": f"ordered:{topic}:w:0", "log_level": 3}
        )
        commit_offsets(ledger, [TopicPartition(topic, 0, 0)])
        ledger.close()

        def missing() -> list[str]:
            rows = controller.http.get("/v1/diagnostics").json()["missing_rights"]
            return [row for row in rows if " on transactional ids " in row or " on groups" in row]

        await_true(lambda: missing() == [], "what is allowed is enough")
        ids, groups = f"on transactional ids ordered:{topic}:*", f"on groups ordered:{topic}:*"
        on_writers = [
            one for one in RIGHTS if one.restype in (ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP)
        ]
        for binding in on_writers:
            acls.remove(binding)
        try:
            lacking = [
                "DESCRIBE on groups",
                f"DESCRIBE {ids}",
                f"WRITE {ids}",
                f"DESCRIBE {groups}",
                f"DELETE {groups}",
            ]
            await_true(lambda: missing() == lacking, "what lacks is told")
            (describe, *_) = on_writers
            acls.add(describe)
            await_true(
                lambda: missing() == [row for row in lacking if row != f"DESCRIBE {ids}"], "one less lacks"
            )
            acls.remove(describe)
        finally:
            acls.add(*on_writers)
        admin = KafkaAdmin(secure_cluster.kafka_properties())
        known = Fencer(admin).list_writers(f"ordered:{topic}:", time.monotonic() + TIMEOUT)
        admin.close()
        assert list(known) == [f"ordered:{topic}:w:0"]


@pytest.mark.long
def test_what_hangs_is_uncertain_where_ids_may_not_be_described(
    secure_cluster: LocalCluster, bob_may: None
) -> None:
    """The coordinator may know more of a foreign transactional id than it tells these controllers."""
    with bobs_controller(secure_cluster) as controller:
        topic, foreign = controller.create(1), unique_name("foreign")
        kafka = secure_cluster.kafka_properties()

        def found() -> list[tuple[str | None, bool]]:
            rows = controller.http.get(f"/v1/topics/{topic}/hanging-transactions").json()["transactions"]
            return [(row["transactional_id"], row["is_certain"]) for row in rows]

        hang(kafka, topic, foreign, known=True, age=0.0)
        assert found() == []
        hang(kafka, topic, f"{foreign}-old", known=True, age=1000.0)
        assert found() == [(None, False)]
        ours = f"ordered:{topic}:w:0"
        hang(kafka, topic, ours, known=True, age=0.0)
        assert found() == [(None, False), (ours, True)]


def create_topic_as(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({**cluster.kafka_properties(), "log_level": 3})
    admin.create_topics([NewTopic(topic, 2)], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    producer = Producer({**cluster.kafka_properties(), "partitioner": "murmur2_random", "log_level": 3})
    for number in range(50):
        producer.produce(topic, key=f"k{number}", value=b"v")
    assert producer.flush(TIMEOUT) == 0


def warns(view: ReassignmentView, text: str) -> bool:
    return any(text in one and "AUTHORIZATION_FAILED" in one for one in view.warnings)


@pytest.mark.long
def test_moves_wait_while_their_throttle_may_not_be_set(
    secure_cluster: LocalCluster, acls: Acls, bob_may: None
) -> None:
    rights = [acl(BOB, operation, "CLUSTER", "") for operation in ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")]
    with bobs_controller(secure_cluster) as controller:
        topic = controller.create(1)
        mover = Mover(controller)

        def log_dirs() -> dict[str, bool]:
            """By path whether the topic is there."""
            (broker,) = controller.http.get("/v1/log-dirs").json()["brokers"]
            return {one["path"]: topic in json.dumps(one) for one in broker["log_dirs"]}

        # The broker makes it after it has heard of the topic.
        await_true(lambda: any(log_dirs().values()), "the log is made")
        (there,) = [path for path, is_there in log_dirs().items() if not is_there]
        request = mover.submit(Row(topic, 0, [1], [there]), replica_alter_log_dirs_throttle=10**9)
        with ExitStack() as taken_back:
            for right, warning in zip(rights, ("does not answer", "broker 1: "), strict=True):
                view = mover.until(request, partial(warns, text=warning), f"the warning {warning!r}")
                assert (view.state, view.waiting, view.moving) == ("running", 1, 0)
                acls.add(right)
                taken_back.callback(acls.remove, right)
            view = mover.ended(request)
            assert (view.state, outcomes(view)) == ("done", {(0, 1): "NONE"})
