"""Guard rails (KIP-578) on three real brokers: what fits is done, what does not fails whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.controller.placement.guards import UNLIMITED
from spark_ordered_kafka.local import LocalCluster
from tests.inside import limits_of, session_of
from tests.integration.controllers import Hold, InProcess, in_process
from tests.integration.test_cli_topics import Cli
from tests.integration.test_lifecycle import await_view
from tests.servers import await_true, hosted_replicas, unique_name


@pytest.fixture(scope="module")
def rails(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers, retire_interval=0.1, retire_replication_factor=1) as running:
        yield running


@pytest.fixture
def guarded(rails: InProcess) -> Iterator[InProcess]:
    """The controller; whatever limits a test sets are taken back."""
    yield rails
    rails.before = lambda _: None
    for broker in (1, 2, 3):
        assert put(rails, broker, None)[0] == 200


def put(controller: InProcess, broker: object, limit: object, **fields: object) -> tuple[int, dict[str, Any]]:
    body = {"max_partitions": limit, **fields}
    answer = controller.http.put(f"/v1/brokers/{broker}/guard-rails", json=body)
    return answer.status_code, answer.json()


def brokers(controller: InProcess) -> dict[int, schemas.BrokerView]:
    answer = controller.http.get("/v1/brokers")
    assert answer.status_code == 200, answer.text
    return {row.id: row for row in schemas.BrokerList.model_validate_json(answer.content).brokers}


def leave(controller: InProcess, capacities: Mapping[int, int]) -> None:
    """Set limits that leave the brokers these capacities, whatever else they host."""
    # What failed in an earlier test counts for five seconds more, and would leave more then.
    before: dict[int, schemas.BrokerView] = {}

    def nothing_is_reserved() -> bool:
        before.update(brokers(controller))
        return {broker: row.hosted for broker, row in before.items()} == hosted_replicas(
            controller.service.admin
        )

    await_true(nothing_is_reserved, "nothing is reserved")
    for broker, capacity in capacities.items():
        status, answer = put(controller, broker, before[broker].hosted + capacity)
        assert (status, answer["capacity"], answer["excess"]) == (200, capacity, 0)


def create(controller: InProcess, **fields: object) -> tuple[str, int, dict[str, Any]]:
    topic = unique_name("rails")
    answer = controller.http.post("/v1/topics", json={"topic": topic, **fields})
    return topic, answer.status_code, answer.json()


def replicas(controller: InProcess, topic: str) -> list[list[int]]:
    return [sorted(row.replicas) for row in controller.topic(topic).partitions]


def test_the_example_of_kip_578(guarded: InProcess) -> None:
    # 10 each, of which the KIP's brokers host 8, 6 and 9.
    leave(guarded, {1: 2, 2: 4, 3: 1})
    before = brokers(guarded)
    known = set(guarded.service.admin.describe_topics())

    _, status, answer = create(guarded, partitions=2, replication_factor=3)
    assert (status, answer["error_code"], answer["error"]) == (400, 88, "GUARD_RAILS")
    assert "{1: 2, 2: 4, 3: 1}" in answer["error_message"]
    assert set(guarded.service.admin.describe_topics()) == known

    topic, status, answer = create(guarded, partitions=1, replication_factor=3)
    assert status == 201, answer
    assert replicas(guarded, topic) == [[1, 2, 3]]
    after = brokers(guarded)
    assert [after[b].hosted - before[b].hosted for b in (1, 2, 3)] == [1, 1, 1]
    assert [after[b].capacity for b in (1, 2, 3)] == [1, 3, 0]

    for fields in ({"partitions": 1, "replication_factor": 3}, {"assignments": {"0": [3]}}):
        _, status, answer = create(guarded, **fields)
        assert (answer["error"], "{1: 1, 2: 3, 3: 0}" in answer["error_message"]) == ("GUARD_RAILS", True)
    topic, status, answer = create(guarded, partitions=1, replication_factor=2)
    assert status == 201, answer
    assert replicas(guarded, topic) == [[1, 2]]
    assert [brokers(guarded)[b].capacity for b in (1, 2, 3)] == [0, 2, 0]

    # Brokers 1 and 3 are full, and stay so: neither the second replicas of an expansion nor third ones fit.
    for validate_only in (True, False):
        refused = guarded.alter(topic, 2, validate_only=validate_only)
        assert (refused.error_code, refused.change_id) == (88, None)
    assert "1 partitions with replication factor 2" in str(refused.error_message)
    moved = {"topics": [{"topic": topic, "replication_factor": 3}]}
    answer = guarded.http.post("/v1/replication-factors", json=moved).json()["topics"][0]
    assert answer["error_code"] == 88, answer
    assert guarded.change(topic).change is None
    assert replicas(guarded, topic) == [[1, 2]]
    assert put(guarded, 1, brokers(guarded)[1].hosted + 2)[0] == 200
    assert guarded.alter(topic, 3).error_message is None
    assert replicas(guarded, topic) == [[1, 2]] * 3
    assert guarded.alter(topic, 4).error_code == 88


def test_existing_excess_is_tolerated_and_reported(guarded: InProcess) -> None:
    topic, status, _ = create(guarded, assignments={"0": [1], "1": [1]})
    assert status == 201
    hosted = brokers(guarded)[1].hosted
    for limit, excess in ((hosted - 1, 1), (0, hosted)):
        status, answer = put(guarded, 1, limit)
        assert (status, answer["capacity"], answer["excess"]) == (200, 0, excess)
        assert brokers(guarded)[1].model_dump() == answer
    # A shrink adds nothing, what it leaves is taken up again as it is, and new partitions go elsewhere.
    assert guarded.alter(topic, 4).error_message is None
    assert [1] not in replicas(guarded, topic)[2:]
    assert guarded.alter(topic, 2).error_message is None
    assert guarded.alter(topic, 4).error_message is None
    _, status, answer = create(guarded, partitions=1, replication_factor=3)
    assert (status, answer["error"]) == (400, "GUARD_RAILS")
    status, answer = put(guarded, 1, None)
    assert (answer["max_partitions"], answer["excess"]) == (UNLIMITED, 0)


def test_what_is_planned_counts_and_is_checked_again_when_it_is_carried_out(guarded: InProcess) -> None:
    topics = [create(guarded, assignments={"0": [2]})[0] for _ in range(2)]
    leave(guarded, {1: 0, 2: 1, 3: 0})
    with Hold(protocol.CreatePartitions) as hold:
        guarded.before = hold
        assert guarded.alter(topics[0], 2, wait=False).error_message is None
        hold.await_reached()
        # Kafka has none of it yet.
        assert len(guarded.topic(topics[0]).partitions) == 1
        assert brokers(guarded)[2].capacity == 0
        assert guarded.alter(topics[1], 2).error_code == 88
        assert create(guarded, partitions=1, replication_factor=1)[2]["error_code"] == 88
        status, _ = put(guarded, 2, 0)
        assert status == 200
    finished = guarded.await_end(topics[0])
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.error == "GUARD_RAILS"
    assert [len(guarded.topic(topic).partitions) for topic in topics] == [1, 1]


def test_of_many_creations_at_once_as_many_pass_as_fit(guarded: InProcess) -> None:
    leave(guarded, {1: 0, 2: 2, 3: 1})
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda _: create(guarded, partitions=1, replication_factor=1), range(6)))
    assert sorted(status for _, status, _ in made) == [201] * 3 + [400] * 3
    assert {answer["error"] for _, status, answer in made if status == 400} == {"GUARD_RAILS"}
    assert [row.capacity for row in brokers(guarded).values()] == [0, 0, 0]


@pytest.mark.long
def test_taking_a_partition_up_again_needs_capacity(guarded: InProcess) -> None:
    topic, status, answer = create(guarded, assignments={"0": [1, 2]})
    assert status == 201, answer
    assert guarded.alter(topic, 2).error_message is None
    before = replicas(guarded, topic)[1]
    assert guarded.alter(topic, 1).error_message is None
    view = await_view(lambda: guarded.topic(topic), lambda rows: len(rows[1].replicas) == 1, "one replica")
    (left,) = view.partitions[1].replicas
    # By Kafka's count: what the expansion was promised still counts for a moment.
    hosted = hosted_replicas(guarded.service.admin)
    for broker in (1, 2, 3):
        assert put(guarded, broker, hosted[broker])[0] == 200
    refused = guarded.alter(topic, 2)
    assert refused.error_code == 88, refused
    assert replicas(guarded, topic)[1] == [left]
    # Not where the round robin had the second one, but where there is room.
    (other,) = {1, 2, 3}.difference(before)
    assert put(guarded, other, hosted[other] + 1)[0] == 200
    assert guarded.alter(topic, 2).error_message is None
    assert replicas(guarded, topic)[1] == sorted([left, other])


@pytest.mark.long
def test_limits_outlive_the_controller_and_show_brokers_that_are_away(kafka_cluster: LocalCluster) -> None:
    chroot = unique_name("limits")
    with in_process(kafka_cluster, chroot=chroot, max_broker_partitions=0) as first:
        row = brokers(first)[1]
        assert (row.max_partitions, row.capacity, row.excess, row.alive) == (0, 0, row.hosted, True)
        _, status, answer = create(first, partitions=1)
        assert (status, answer["error"]) == (400, "GUARD_RAILS")
        status, answer = put(first, 1, row.hosted + 5, validate_only=True)
        assert (status, answer["capacity"], brokers(first)[1].capacity) == (200, 5, 0)
        assert put(first, 1, row.hosted + 5)[0] == 200
        limits_of(first.service).set(9, "rack-z", 7)
        path = "/ordered-kafka/brokers/ids/9"
        stored = session_of(first.service).read(path)
        assert stored is not None
        assert json.loads(stored[0]) == {
            "version": 5,
            "rack": "rack-z",
            "guard_rails": {"max_partitions": 7},
        }
    with in_process(kafka_cluster, chroot=chroot) as second:
        rows = brokers(second)
        assert rows[1].max_partitions == row.hosted + 5
        away = schemas.BrokerView(
            id=9, rack="rack-z", alive=False, hosted=0, max_partitions=7, capacity=7, excess=0
        )
        assert rows[9] == away
        # It takes nothing while it is down, and its limit can be changed.
        assert create(second, assignments={"0": [9]})[2]["error"] == "INVALID_REPLICA_ASSIGNMENT"
        assert put(second, 9, 8)[1]["rack"] == "rack-z"
        assert put(second, 9, None)[0] == 200
        assert put(second, 9, None)[0] == 400
        assert list(brokers(second)) == [1]


@pytest.mark.parametrize(
    ("broker", "body", "words"),
    [
        (1, {}, "max_partitions: Field required"),
        (1, {"max_partitions": -1}, "max_partitions has the value '-1'"),
        (1, {"max_partitions": 2**31}, "max_partitions has the value '2147483648'"),
        (1, {"max_partitions": "5"}, "max_partitions has the value '5'"),
        (1, {"max_partitions": 1.5}, "max_partitions has the value '1.5'"),
        (1, {"max_partitions": True}, "max_partitions has the value 'True'"),
        (1, {"max_partitions": [1]}, "max_partitions has the value"),
        (1, {"max_partitions": 1, "brokers": 2}, "brokers has the value '2'"),
        (1, [], "the body"),
        ("one", {"max_partitions": 1}, "broker has the value 'one'"),
        (99, {"max_partitions": 1}, "broker has the value 99: known are 1"),
        (-1, {"max_partitions": 1}, "broker has the value -1"),
        (2**40, {"max_partitions": 1}, "broker has the value"),
    ],
)
def test_bad_input_is_refused(controller: InProcess, broker: object, body: object, words: str) -> None:
    answer = controller.http.put(f"/v1/brokers/{broker}/guard-rails", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
    assert words in answer.json()["error_message"]
    assert brokers(controller)[1].max_partitions == UNLIMITED


def test_command_line(cluster: LocalCluster) -> None:
    cli = Cli(cluster.controller_url)
    limit = ("brokers", "guard-rails", "--broker", "1", "--max-partitions")
    try:
        code, out, error = cli(*limit, "1000000")
        assert (code, error) == (0, "")
        assert out.startswith("broker 1 may host 1000000 replicas: it hosts ")
        code, out, _ = cli("brokers", "list")
        assert (code, out.splitlines()[1].split()[2:5:2]) == (0, ["up", "1000000"])
        code, out, _ = cli(*limit, "0", "--validate-only", "--output", "json")
        assert (code, json.loads(out)["capacity"]) == (0, 0)
        code, out, error = cli(*limit, "default")
        assert (code, error, f"may host {UNLIMITED} replicas" in out) == (0, "", True)
        with ControllerClient(cluster.controller_url) as client:
            assert client.brokers().brokers[0].max_partitions == UNLIMITED
    finally:
        cli(*limit, "default")
    for wrong in ("-1", "none", "", "1.5", str(2**31), "99999999999"):
        code, _, error = cli(*limit[:-1], f"--max-partitions={wrong}")
        assert (code, "--max-partitions has the value" in error) == (2, True)
    code, _, error = cli("brokers", "guard-rails", "--broker", "7", "--max-partitions", "5")
    assert (code, "INVALID_REQUEST: broker has the value 7" in error) == (1, True)
