"""The Kafka rights that docs/security.md says are enough for the controllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclBinding, AdminClient
from confluent_kafka.cimpl import NewTopic

from spark_ordered_kafka.controller.settings import AuthorizationSettings
from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls, acl
from tests.integration.controllers import in_process
from tests.integration.keepers import with_sasl
from tests.servers import TIMEOUT, unique_name

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
def bob_may(secure_cluster: LocalCluster) -> Iterator[None]:
    """The rights, and none of them afterwards: bob is everybody's user without rights."""
    acls = Acls(AdminClient({**secure_cluster.kafka_properties(), "log_level": 3}))
    bindings: list[AclBinding] = RIGHTS
    acls.add(*bindings)
    yield
    for binding in bindings:
        acls.remove(binding)


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
    everybody = AuthorizationSettings(super_users=frozenset({"User:ANONYMOUS"}))
    kafka = secure_cluster.kafka_properties("bob")
    with in_process(
        secure_cluster, kafka=kafka, zookeeper=with_sasl(secure_cluster), authorization=everybody
    ) as controller:
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


def create_topic_as(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({**cluster.kafka_properties(), "log_level": 3})
    admin.create_topics([NewTopic(topic, 2)], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    producer = Producer({**cluster.kafka_properties(), "partitioner": "murmur2_random", "log_level": 3})
    for number in range(50):
        producer.produce(topic, key=f"k{number}", value=b"v")
    assert producer.flush(TIMEOUT) == 0
