"""Routes of the controller on real servers: topics, layouts, brokers, roles and refusals."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, ZooKeeperSettings
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.inside import znodes_of
from tests.integration.controllers import InProcess, in_process
from tests.servers import TIMEOUT, await_true, create_topic, unique_name

JSON = {"content-type": "application/json"}


def test_created_topic_is_under_management(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(3, hash="murmur2", configs={"retention.ms": "60000"})
    view = controller.topic(topic)
    assert (view.initial_partition_count, view.undeleted_partition_count, view.layout_epoch) == (3, 3, 0)
    assert (view.hash, view.ordered_delivery, view.change, view.last_change) == ("murmur2", True, None, None)
    assert [(p.partition, p.status, p.leader, p.replicas, p.isr) for p in view.partitions] == [
        (p, "live", 1, [1], [1]) for p in range(3)
    ]
    history = controller.layout(topic)
    assert (history.topic_id, history.changing) == (view.topic_id, False)
    assert [(one.epoch, one.undeleted_partition_count, one.starts) for one in history.layouts] == [
        (0, 3, [0, 0, 0])
    ]
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    assert len(admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions) == 3
    assert topic in [one.topic for one in controller.service.topics.summaries(lambda change: change).topics]


def test_writer_layout_and_etag(controller: InProcess) -> None:
    topic = controller.create(2)
    answer = controller.http.get(f"/v1/topics/{topic}/layout", params={"writer": "true"})
    assert answer.json() == {
        "topic": topic,
        "topic_id": controller.topic(topic).topic_id,
        "cluster_id": controller.layout(topic).cluster_id,
        "hash": "murmur3",
        "ordered_delivery": True,
        "initial_partition_count": 2,
        "undeleted_partition_count": 2,
        "layout_epoch": 0,
        "earlier": [],
    }
    tag = controller.http.get(f"/v1/topics/{topic}").headers["etag"]
    assert controller.http.get(f"/v1/topics/{topic}").headers["etag"] == tag
    assert controller.alter(topic, 3).error == "NONE"
    assert controller.http.get(f"/v1/topics/{topic}").headers["etag"] != tag


def test_given_assignments_are_used(controller: InProcess) -> None:
    topic = unique_name("assigned")
    answer = controller.http.post("/v1/topics", json={"topic": topic, "assignments": {"1": [1], "0": [1]}})
    assert answer.status_code == 201, answer.text
    assert [p.replicas for p in controller.topic(topic).partitions] == [[1], [1]]


def test_validate_only_creates_nothing(controller: InProcess) -> None:
    topic = unique_name("checked")
    body = {"topic": topic, "partitions": 2, "validate_only": True}
    assert controller.http.post("/v1/topics", json=body).status_code == 201
    assert controller.http.get(f"/v1/topics/{topic}").status_code == 404
    bad = {**body, "configs": {"no.such.config": "1"}}
    answer = controller.http.post("/v1/topics", json=bad).json()
    assert answer["error"] == "INVALID_CONFIG"
    assert "no.such.config" in answer["error_message"]


@pytest.mark.parametrize(
    ("fields", "status", "error", "words"),
    [
        ({"topic": "a b"}, 400, "INVALID_TOPIC_EXCEPTION", "'a b'"),
        ({"topic": ".."}, 400, "INVALID_TOPIC_EXCEPTION", "'..'"),
        ({"topic": "x" * 250}, 400, "INVALID_TOPIC_EXCEPTION", "1 to 249"),
        ({"topic": ""}, 400, "INVALID_TOPIC_EXCEPTION", "''"),
        ({"topic": "__consumer_offsets"}, 400, "INVALID_TOPIC_EXCEPTION", "internal"),
        ({"partitions": 0}, 400, "INVALID_PARTITIONS", "value 0"),
        ({"replication_factor": 2}, 400, "INVALID_REPLICATION_FACTOR", "value 2"),
        ({"hash": "md5"}, 400, "INVALID_REQUEST", "'md5'"),
        ({"partitions": "3"}, 400, "INVALID_REQUEST", "partitions has the value '3'"),
        ({"partitoins": 3}, 400, "INVALID_REQUEST", "partitoins"),
        ({"assignments": {"0": [1]}}, 400, "INVALID_REQUEST", "assignments excludes"),
        ({"partitions": None, "assignments": {"1": [1]}}, 400, "INVALID_REPLICA_ASSIGNMENT", "without a gap"),
        ({"partitions": None, "assignments": {}}, 400, "INVALID_REPLICA_ASSIGNMENT", "assignments"),
        ({"partitions": None, "assignments": {"0": [7]}}, 400, "INVALID_REPLICA_ASSIGNMENT", "broker 7"),
        ({"partitions": None, "assignments": {"0": [1, 1]}}, 400, "INVALID_REPLICA_ASSIGNMENT", "[1, 1]"),
        ({"configs": {"retention.ms": "soon"}}, 400, "INVALID_CONFIG", "retention.ms"),
    ],
)
def test_wrong_creation_is_refused(
    controller: InProcess, fields: dict[str, Any], status: int, error: str, words: str
) -> None:
    body = {"topic": unique_name("refused"), "partitions": 1, **fields}
    answer = controller.http.post("/v1/topics", json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert words in answer.json()["error_message"]
    assert znodes_of(controller.service).creations() == []


def test_wrong_requests_name_field_and_value(controller: InProcess) -> None:
    topic = controller.create(1)
    requests: list[tuple[tuple[str, str, dict[str, Any]], str]] = [
        (("POST", "/v1/topics", {"content": b"{", "headers": JSON}), "the body"),
        (("POST", "/v1/topics", {"json": {}}), "topic: Field required"),
        (
            ("GET", f"/v1/topics/{topic}/layout", {"params": {"from_epoch": "x"}}),
            "from_epoch has the value 'x'",
        ),
        (("GET", f"/v1/topics/{topic}/layout", {"params": {"from_epoch": "-1"}}), "from_epoch"),
        (("GET", f"/v1/topics/{topic}/layout", {"params": {"from_epoch": "9"}}), "layout epoch 0"),
        (("GET", f"/v1/topics/{topic}/leader-epochs", {"params": {"partitions": "0,x"}}), "'x'"),
        (("POST", "/v1/partition-counts", {"json": {"topics": []}}), "topics is empty"),
        (
            ("POST", "/v1/partition-counts", {"json": {"topics": [{"topic": "t"}]}}),
            "topics.0.partition_count",
        ),
    ]
    for request, words in requests:
        answer = controller.http.request(request[0], request[1], **request[2])
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST"), request
        assert words in answer.json()["error_message"], answer.text
    assert controller.http.get("/v1/nothing").status_code == 404
    assert controller.http.get("/v1/nothing").json()["error_code"] == 42
    assert controller.http.put("/v1/topics").status_code == 405


def test_unknown_and_unmanaged_topics_are_told_apart(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    unmanaged = create_topic(kafka_cluster.bootstrap_servers, unique_name("unmanaged"))
    missing = unique_name("missing")
    for path in ("", "/layout", "/layout?writer=true", "/change", "/leader-epochs"):
        for topic, words in [(unmanaged, "is not under management"), (missing, "does not exist")]:
            answer = controller.http.get(f"/v1/topics/{topic}{path}")
            assert (answer.status_code, answer.json()["error_code"]) == (404, 3)
            assert words in answer.json()["error_message"]


def test_creating_twice_is_refused(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(1)
    unmanaged = create_topic(kafka_cluster.bootstrap_servers, unique_name("unmanaged"))
    for name, words in [(topic, "under management already"), (unmanaged, "is not under management")]:
        answer = controller.http.post("/v1/topics", json={"topic": name, "partitions": 1})
        assert (answer.status_code, answer.json()["error"]) == (409, "TOPIC_ALREADY_EXISTS")
        assert words in answer.json()["error_message"]


def test_topic_recreated_outside_is_reported(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(1)
    old = controller.topic(topic).topic_id
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)

    def answered() -> tuple[int, str]:
        answer = controller.http.get(f"/v1/topics/{topic}")
        return answer.status_code, answer.json().get("error", "")

    # The broker that the controller asks may not have heard of either yet.
    await_true(lambda: answered() == (404, "UNKNOWN_TOPIC_OR_PARTITION"), "the end of the topic is seen")
    create_topic(kafka_cluster.bootstrap_servers, topic)
    await_true(lambda: answered()[0] != 404, "the new topic is seen")
    answer = controller.http.get(f"/v1/topics/{topic}")
    assert (answer.status_code, answer.json()["error"]) == (409, "LOG_TRUNCATED")
    assert old in answer.json()["error_message"]
    assert controller.alter(topic, 2).error == "LOG_TRUNCATED"


def test_leader_epochs_follow_the_layouts(controller: InProcess) -> None:
    topic = controller.create(1)
    for count in (3, 2):
        assert controller.alter(topic, count).error == "NONE"
    answer = controller.http.get(f"/v1/topics/{topic}/leader-epochs", params={"partitions": "0,1,2"}).json()
    assert answer["partitions"] == [
        {"partition": 0, "leader_epoch_after_creation": {}, "leader_epoch_before_deletion": {}},
        {"partition": 1, "leader_epoch_after_creation": {"0": 0}, "leader_epoch_before_deletion": {}},
        {
            "partition": 2,
            "leader_epoch_after_creation": {"0": 0},
            "leader_epoch_before_deletion": {"0": 0, "1": 0},
        },
    ]
    assert (
        controller.http.get(f"/v1/topics/{topic}/leader-epochs", params={"partitions": "3"}).status_code
        == 404
    )


def test_brokers(controller: InProcess) -> None:
    (broker,) = controller.http.get("/v1/brokers").json()["brokers"]
    assert (broker["id"], broker["rack"], broker["max_partitions"]) == (1, None, 2**31 - 1)
    controller.create(4)
    (after,) = controller.http.get("/v1/brokers").json()["brokers"]
    assert after["hosted"] == broker["hosted"] + 4
    assert after["capacity"] == after["max_partitions"] - after["hosted"]


def test_health_and_openapi(controller: InProcess) -> None:
    assert controller.http.get("/healthz").status_code == 200
    assert controller.http.get("/readyz").json()["error"] == "NONE"
    paths = controller.http.get("/openapi.json").json()["paths"]
    assert "requestBody" in paths["/v1/topics"]["post"]


def test_the_same_request_with_the_same_key_is_carried_out_once(controller: InProcess) -> None:
    topic = unique_name("keyed")
    body, key = {"topic": topic, "partitions": 1}, {"Idempotency-Key": unique_name("key")}
    for _ in range(2):
        assert controller.http.post("/v1/topics", json=body, headers=key).status_code == 201
    other = {"Idempotency-Key": unique_name("key")}
    for headers in ({}, other):
        assert controller.http.post("/v1/topics", json=body, headers=headers).status_code == 409
    changed = controller.http.post("/v1/topics", json={**body, "partitions": 2}, headers=key)
    assert changed.status_code == 409

    def alter(count: int, headers: dict[str, str]) -> dict[str, Any]:
        counts = {"topics": [{"topic": topic, "partition_count": count}]}
        answer = controller.http.post(
            "/v1/partition-counts", json=counts, params={"wait": TIMEOUT}, headers=headers
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["topics"][0]
        return found

    first = alter(3, key)
    assert (first["error"], alter(3, key)) == ("NONE", first)
    assert alter(3, {})["error"] == "INVALID_PARTITIONS"
    assert alter(2, key)["error"] == "NONE"
    # Another change came after it: it is not carried out again.
    assert alter(3, key)["error"] == "REQUEST_TIMED_OUT"
    assert len(controller.layout(topic).layouts) == 3
    order = {"ordered_delivery": False}
    answers = [
        controller.http.patch(f"/v1/topics/{topic}", json=order, params={"wait": TIMEOUT}, headers=key).json()
        for _ in range(2)
    ]
    assert answers[0]["change_id"] is not None
    assert answers[0] == answers[1]
    wrong = controller.http.post("/v1/topics", json=body, headers={"Idempotency-Key": "a b"})
    assert (wrong.status_code, wrong.json()["error"]) == (400, "INVALID_REQUEST")


def test_typed_client_against_the_running_controller(cluster: LocalCluster) -> None:
    with ControllerClient(cluster.controller_url) as client:
        topic = unique_name("client")
        client.create_topic(CreateTopicRequest(topic=topic, partitions=2))
        assert client.writer_layout(topic).undeleted_partition_count == 2
        assert topic in [one.topic for one in client.topics().topics]
        assert client.change(topic).change is None
        assert client.leader_epochs(topic).partitions[1].partition == 1


@pytest.mark.long
def test_unreachable_servers_at_start_are_named(kafka_cluster: LocalCluster) -> None:
    # No server of anybody's comes to listen there.
    nowhere = "127.0.0.1:1"
    zookeeper = f"{kafka_cluster.zookeeper}/{unique_name('unreachable')}"
    for bootstrap, keeper, words, timeout in [
        # Long enough for ZooKeeper, which is reached first.
        (nowhere, zookeeper, f"Kafka at {nowhere}", 10.0),
        (kafka_cluster.bootstrap_servers, nowhere, f"ZooKeeper at {nowhere}", 1.5),
    ]:
        settings = ControllerSettings(
            {"bootstrap.servers": bootstrap}, ZooKeeperSettings(keeper), "http://x", startup_timeout=timeout
        )
        service = ControllerService(settings)
        with pytest.raises(UnavailableError, match=words):
            service.start()
        service.stop()


@pytest.mark.parametrize("request_number", [1, 8, 18])
def test_a_connection_to_zookeeper_that_breaks_at_the_start_is_opened_again(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, request_number: int
) -> None:
    """The controller ended with an error, although it waits ``startup.timeout`` for ZooKeeper otherwise."""
    call, numbers = KazooClient._call, itertools.count(1)

    def broken(client: KazooClient, request: object, pending: object) -> object:
        if next(numbers) == request_number:
            client._connection._socket.shutdown(socket.SHUT_RDWR)
        return call(client, request, pending)

    monkeypatch.setattr(KazooClient, "_call", broken)
    with in_process(kafka_cluster) as controller:
        controller.create()
    assert next(numbers) > request_number


@pytest.mark.long
def test_port_in_use_is_told_in_one_line(kafka_cluster: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "spark_ordered_kafka.cli", "controller", "run", "--port", port]
        command += [
            "--bootstrap-server",
            kafka_cluster.bootstrap_servers,
            "--zookeeper",
            kafka_cluster.zookeeper,
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=4 * TIMEOUT, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: host and port has the value")
    assert len(ended.stderr.splitlines()) == 1
