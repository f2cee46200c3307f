"""What the proposals say to the letter, where it is easily got wrong: KIP-113, KIP-179 and KIP-253."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from spark_ordered_kafka import OrderedConsumer, PartitionKeyRebalanceListener
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process, several
from tests.integration.members import Member, conf, read_until
from tests.integration.reassigning import await_brokers, await_placed
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import NumberedWriter, change, create


@pytest.fixture(scope="module")
def on_three(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers) as running:
        yield running


# -- KIP-253 --------------------------------------------------------------------------------------------------------


def test_epochs_before_deletion_are_those_of_the_partitions_that_stayed(controller: InProcess) -> None:
    """Partitions removed together are not in each other's maps, and those that are live again have none."""
    topic = controller.create(2)

    def before_deletion() -> list[set[str]]:
        answer = controller.http.get(f"/v1/topics/{topic}/leader-epochs").json()
        return [set(row["leader_epoch_before_deletion"]) for row in answer["partitions"]]

    for count, expected in (
        (5, [set()] * 5),
        (4, [*[set()] * 4, {"0", "1", "2", "3"}]),
        # The one that was marked before keeps what was recorded then.
        (2, [set(), set(), {"0", "1"}, {"0", "1"}, {"0", "1", "2", "3"}]),
        (4, [*[set()] * 4, {"0", "1", "2", "3"}]),
        (5, [set()] * 5),
    ):
        assert controller.alter(topic, count).error == "NONE"
        assert before_deletion() == expected, count


class Told(PartitionKeyRebalanceListener):
    def __init__(self) -> None:
        self.of: list[tuple[str, int]] = []

    def on_partition_key_maybe_revoked(self, partitions: list[TopicPartition]) -> None:
        self.of += [("revoked", one.partition) for one in partitions]

    def on_partition_key_assigned(self, partitions: list[TopicPartition]) -> None:
        self.of += [("assigned", one.partition) for one in partitions]


def test_a_listener_is_told_of_topics_with_ordered_delivery_alone(
    cluster: LocalCluster, topic_name: str
) -> None:
    """Without order nothing is told, through growth and shrinking; where order begins again, any key may come anywhere."""
    topic = create(cluster, topic_name, 2)
    writer, told = NumberedWriter(cluster, topic), Told()
    with OrderedConsumer(conf(cluster, unique_name("group"))) as consumer:
        member = Member(consumer)
        consumer.subscribe([topic], partition_key_listener=told)

        def read_all() -> list[tuple[str, int]]:
            writer.write()
            read_until([member], lambda: len(member.messages) == writer.written, "all records are read")
            consumer.consume(1, 0.05)  # what was delivered counts as processed
            consumer.commit()
            found, told.of = told.of, []
            return found

        read_all()
        order(cluster, topic, False)
        for count in (4, 3):
            change(cluster, topic, count)
            assert read_all() == []
        order(cluster, topic, True)
        assert {what for what, _ in read_all()} == {"revoked", "assigned"}
        change(cluster, topic, 5)
        assert {what for what, _ in read_all()} == {"revoked", "assigned"}


def order(cluster: LocalCluster, topic: str, ordered: bool) -> None:
    with ControllerClient(cluster.controller_url) as controller:
        request = schemas.AlterTopicRequest(ordered_delivery=ordered)
        assert controller.alter_topic(topic, request, wait=TIMEOUT).error == "NONE"


# -- KIP-179 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("path", "wanted"),
    [("partition-counts", {"partition_count": 3}), ("replication-factors", {"replication_factor": 1})],
)
def test_a_topic_that_there_is_not_is_code_17(
    controller: InProcess, path: str, wanted: dict[str, int], validate_only: bool
) -> None:
    there = controller.create(1)
    items = [{"topic": topic, **wanted} for topic in ("missing", there, "no such name")]
    rows = several(controller, f"/v1/{path}", items, validate_only=validate_only)
    assert [error for _, error, _ in rows] == ["INVALID_TOPIC_EXCEPTION", "NONE", "INVALID_TOPIC_EXCEPTION"]
    assert "'missing' does not exist" in rows[0][2]


@pytest.mark.long
def test_lag_is_unknown_as_soon_as_that_of_one_replica_is(
    three_brokers: LocalCluster, on_three: InProcess
) -> None:
    """A dead broker hides how far its own replica is; the other rows are as before."""
    topic = placed(on_three, [[1, 2], [2, 3]])

    def status(**params: Any) -> dict[str, Any]:
        found: dict[str, Any] = on_three.http.get(
            "/v1/replica-status", params={"topic": topic} | params
        ).json()
        return found

    await_true(lambda: status().get("lag") == 0, "all replicas are there")
    with killed(three_brokers, on_three, 3):
        found = status()
        assert {row["broker"]: row["error"] for row in found["replicas"]}[3] != "NONE"
        assert [row["lag"] for row in found["replicas"] if row["broker"] != 3] == [0, 0, 0]
        assert found["lag"] == -1
        assert status(partition="0")["lag"] == 0


# -- KIP-113 --------------------------------------------------------------------------------------------------------


def test_a_directory_that_a_broker_has_not_keeps_its_row(controller: InProcess) -> None:
    paths = [row["path"] for row in controller.http.get("/v1/log-dirs").json()["brokers"][0]["log_dirs"]]

    def rows(*named: str, **params: Any) -> list[tuple[str, bool, str]]:
        answer = controller.http.get("/v1/log-dirs", params={"log_dir": list(named)} | params)
        assert answer.status_code == 200, answer.text
        (broker,) = answer.json()["brokers"]
        assert broker["error"] == "NONE"
        for row in broker["log_dirs"]:
            assert row["is_live"] or (row["partitions"], paths[0] in row["error_message"]) == ([], True)
        return [(row["path"], row["is_live"], row["error"]) for row in broker["log_dirs"]]

    unknown = ("/nowhere", False, "LOG_DIR_NOT_FOUND")
    assert rows("/nowhere") == [unknown]
    assert rows("/nowhere", broker=1) == [unknown]
    assert rows("/nowhere", paths[1], "/nowhere") == [(paths[1], True, "NONE"), unknown]


@pytest.mark.long
def test_log_dir_requests_wait_as_long_as_they_say(three_brokers: LocalCluster, on_three: InProcess) -> None:
    """A broker that hangs has an error of its own; the others are shown."""
    topic = placed(on_three, [[1, 3]])
    # As long as the others may take on a busy machine.
    params = {"timeout_ms": 6000}
    body = {"topic": topic, "partition": 0, "broker": 3, "log_dir": "/nowhere"}

    def is_waited_for() -> bool:
        """Whether broker 3, which hangs, is still taken for alive when it is asked."""
        found = on_three.http.get("/v1/log-dirs", params=params).json()["brokers"]
        assert {row["broker"]: row["error"] for row in found[:2]} == {1: "NONE", 2: "NONE"}
        for row in found[2:]:
            assert (row["broker"], row["error"]) == (3, "REQUEST_TIMED_OUT")
            assert waited(row) <= 6000
        return len(found) == 3

    for _ in range(5):
        with hanging(three_brokers, on_three, 3):
            if not is_waited_for():
                continue
            found = on_three.http.get("/v1/replica-log-dirs", params=params | {"topic": topic}).json()[
                "replicas"
            ]
            # By then the others may have taken it for dead.
            assert [row["error"] == "NONE" for row in found] == [True, False]
            assert found[1]["error"] in ("REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE")
            answer = on_three.http.post("/v1/replica-log-dirs", json={"replicas": [body], **params})
            (row,) = answer.json()["replicas"]
            assert row["error"] in ("REQUEST_TIMED_OUT", "UNKNOWN_MEMBER_ID")
            break
    else:
        pytest.fail("broker 3 counted as dead each time before it was asked")
    for wrong in ("0", "x", "600001"):
        answer = on_three.http.get("/v1/log-dirs", params={"timeout_ms": wrong})
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")


def waited(row: dict[str, Any]) -> float:
    """Milliseconds, as the error says."""
    found = re.search(r"after ([\d.]+) ms", row["error_message"])
    assert found, row
    return float(found[1])


# -- what `topics describe` shows -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_dead_broker_hides_what_its_own_partitions_hold_alone(
    three_brokers: LocalCluster, on_three: InProcess
) -> None:
    """Also of a partition that is removed, whose readers are not known then."""
    topic = placed(on_three, [[1]])
    item = {"topic": topic, "partition_count": 4, "assignments": {"1": [2], "2": [3], "3": [3]}}
    ((_, error, message),) = several(on_three, "/v1/partition-counts", [item], params={"wait": TIMEOUT})
    assert error == "NONE", message
    await_placed(on_three.service.admin, topic, [[1], [2], [3], [3]])
    produce(three_brokers, topic, range(4))
    assert on_three.alter(topic, 3).error == "NONE"
    with killed(three_brokers, on_three, 3):
        view = on_three.topic(topic, details=True)
        for row in view.partitions:
            known = row.replicas != [3]
            assert (row.log_start == 0, row.log_end == 1, row.size is not None) == (known,) * 3, row
        assert view.partitions[3].waiting_groups is None


def placed(controller: InProcess, replicas: list[list[int]]) -> str:
    """A topic under management with its partitions on these brokers."""
    topic = unique_name("placed")
    body = {"topic": topic, "assignments": {str(p): ids for p, ids in enumerate(replicas)}}
    answer = controller.http.post("/v1/topics", json=body)
    assert answer.status_code == 201, answer.text
    await_placed(controller.service.admin, topic, replicas)
    return topic


@contextmanager
def killed(cluster: LocalCluster, controller: InProcess, broker: int) -> Iterator[None]:
    """The broker is dead, and for a moment the others do not know; it runs again afterwards, and they know that, too."""
    cluster.kill(f"broker-{broker}")
    try:
        yield
    finally:
        cluster.start(f"broker-{broker}")
        await_brokers(controller.service.admin, 1, 2, 3)


@contextmanager
def hanging(cluster: LocalCluster, controller: InProcess, broker: int) -> Iterator[None]:
    """The broker stands still; afterwards it goes on, and the others know it again."""
    cluster.pause(f"broker-{broker}")
    try:
        yield
    finally:
        cluster.resume(f"broker-{broker}")
        await_brokers(controller.service.admin, 1, 2, 3)


def produce(cluster: LocalCluster, topic: str, partitions: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in partitions:
        producer.produce(topic, b"value", partition=partition)
    assert producer.flush(TIMEOUT) == 0
