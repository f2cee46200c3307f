"""Topics released from management: refused while something needs them, cut off anywhere, adopted again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, ResourceType
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.state import topics as znodes_module
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of, znodes_of
from tests.integration.controllers import Hold, InProcess, exists, in_process
from tests.integration.crash_control import CrashingController
from tests.integration.crashing_controller import RELEASE_STEPS
from tests.servers import TIMEOUT, await_true, commit_offsets, unique_name
from tests.streams import change, create


def release(controller: InProcess, topic: str, **fields: Any) -> httpx2.Response:
    answer: httpx2.Response = controller.http.post(f"/v1/topics/{topic}/release", json=fields)
    return answer


def refused(controller: InProcess, topic: str, error: str, **fields: Any) -> str:
    """The message of a release that is refused, whether it is only checked or not."""
    for validate_only in (True, False):
        answer = release(controller, topic, validate_only=validate_only, **fields)
        assert answer.json()["error"] == error, answer.text
    assert controller.topic(topic).topic == topic
    return str(answer.json()["error_message"])


def znode_names(service: ControllerService, path: str = "/ordered-kafka") -> Iterator[str]:
    """Every znode of the controller's tree."""
    client = session_of(service).client
    for child in client.get_children(path):
        yield f"{path}/{child}"
        yield from znode_names(service, f"{path}/{child}")


def configuration(cluster: LocalCluster, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(TIMEOUT)
    return {name: entry.value for name, entry in found.items()}


def fill(cluster: LocalCluster, topic: str, partitions: int, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in range(partitions):
        producer.produce(topic, b"value", key, partition)
    assert producer.flush(TIMEOUT) == 0


def add_partitions(cluster: LocalCluster, topic: str, total: int) -> None:
    """As Kafka's own tool does it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT)


def position(cluster: LocalCluster, topic: str, group: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    commit_offsets(consumer, [TopicPartition(topic, *at) for at in offsets.items()])
    consumer.close()


def test_nothing_is_left_and_the_topic_may_be_adopted_again(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than one ZooKeeper transaction takes.
    monkeypatch.setattr(znodes_module, "_OPERATIONS_PER_TRANSACTION", 3)
    topic = controller.create(2, configs={"retention.ms": "86400000"})
    fill(kafka_cluster, topic, 2)
    assert [controller.alter(topic, count).error for count in (6, 3)] == ["NONE", "NONE"]
    before = configuration(kafka_cluster, topic)
    assert release(controller, topic, validate_only=True).status_code == 200
    assert controller.topic(topic).layout_epoch == 2
    answer = release(controller, topic)
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "error_code": 0,
            "error": "NONE",
            "error_message": None,
            "topic": topic,
            "change_id": None,
            "request_id": None,
        },
    )
    assert [name for name in znode_names(controller.service) if topic in name] == []
    assert exists(kafka_cluster, topic)
    assert configuration(kafka_cluster, topic) == before
    for again in (release(controller, topic), release(controller, topic, force=True, validate_only=True)):
        assert (again.status_code, again.json()["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
        assert "is not under management: adopt it" in again.json()["error_message"]

    adopted = controller.http.post(f"/v1/topics/{topic}/adopt", json={"hash": "murmur3"})
    assert adopted.status_code == 200, adopted.text
    assert [one.undeleted_partition_count for one in controller.layout(topic).layouts] == [6]
    assert controller.alter(topic, 8, force=True).error == "NONE"
    assert controller.topic(topic).layout_epoch == 1
    assert controller.http.delete(f"/v1/topics/{topic}").status_code == 200


@pytest.mark.long
def test_what_a_follower_knows_of_a_released_topic_ends_with_it(kafka_cluster: LocalCluster) -> None:
    """Adopted again the topic has the same id, and layout epochs from 0 on: neither tells the two times apart."""
    chroot = unique_name("known")
    with ExitStack() as leading:
        leader = leading.enter_context(in_process(kafka_cluster, chroot=chroot))
        topic, later = leader.create(2), leader.create(1, prefix="z")
        with in_process(kafka_cluster, chroot=chroot, await_active=False, retire_interval=0.2) as follower:
            fill(kafka_cluster, topic, 2)
            assert leader.alter(topic, 4).error == "NONE"
            assert [one.undeleted_partition_count for one in follower.layout(topic).layouts] == [2, 4]
            adopt_again(leader, topic)
            assert follower.layout(topic) == leader.layout(topic)
            assert [one.undeleted_partition_count for one in follower.layout(topic).layouts] == [4]
            leading.close()
            await_true(lambda: follower.service.active, "the follower leads")
            # Topics are checked by name, so the other one was checked before.
            add_partitions(kafka_cluster, later, 3)
            await_true(lambda: follower.topic(later).layout_epoch == 1, "all topics were checked")
            assert follower.topic(topic).layout_epoch == 0


@pytest.mark.long
def test_writers_of_a_compacted_topic_hear_of_no_layout_before_its_release(
    controller: InProcess, kafka_cluster: LocalCluster
) -> None:
    topic = controller.create(2, configs={"cleanup.policy": "compact"})

    def earlier() -> list[tuple[int, list[int]]]:
        view = controller.http.get(f"/v1/topics/{topic}/layout?writer=true").json()
        return [(one["undeleted_partition_count"], one["ends"]) for one in view["earlier"]]

    fill(kafka_cluster, topic, 2, b"key")
    assert controller.alter(topic, 4).error == "NONE"
    assert earlier() == [(2, [1, 1])]
    adopt_again(controller, topic)
    assert earlier() == []
    fill(kafka_cluster, topic, 4, b"key")
    assert controller.alter(topic, 6).error == "NONE"
    assert earlier() == [(4, [2, 2])], "only partitions 0 and 1 have lost keys"


def adopt_again(controller: InProcess, topic: str) -> None:
    assert release(controller, topic, force=True).status_code == 200
    adopted = controller.http.post(f"/v1/topics/{topic}/adopt", json={"hash": "murmur3", "force": True})
    assert adopted.status_code == 200, adopted.text


def test_a_topic_that_kafka_has_lost_is_released(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(1)
    assert controller.alter(topic, 2).error == "NONE"
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    assert release(controller, topic).status_code == 200
    assert znodes_of(controller.service).read_topic(topic) == (None, -1)


def test_what_needs_the_topic_keeps_it(controller: InProcess) -> None:
    topic = controller.create(1)
    with Hold(p.ReadBoundaries) as hold:
        controller.before = hold
        controller.alter(topic, 2, wait=False)
        hold.await_reached()
        assert "wait for its end or cancel it" in refused(controller, topic, "PARTITION_CHANGE_IN_PROGRESS")
        refused(controller, topic, "PARTITION_CHANGE_IN_PROGRESS", force=True)
    assert controller.await_end(topic).outcome == "done"

    store = ReassignmentStore(session_of(controller.service))
    move = Move(topic=topic, partition=1, before=(1,), after=(2,))
    record = store.create(
        lambda number: RequestRecord(request_id=number, created_at=1.0, principal="User:a"), [move]
    )
    message = refused(controller, topic, "REASSIGNMENT_IN_PROGRESS", force=True)
    assert f"reassignment {record.request_id} moves partition {topic}-1" in message
    store.delete(record.request_id)
    assert release(controller, topic).status_code == 200


def test_groups_behind_the_last_change_are_named(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    """Only what was written before the newest layout counts: without layouts, nothing else loses its order."""
    topic = controller.create(2)
    fill(kafka_cluster, topic, 2)
    behind, done = unique_name("behind"), unique_name("done")
    position(kafka_cluster, topic, behind, {0: 1, 1: 0})
    position(kafka_cluster, topic, done, {0: 1, 1: 1})
    assert release(controller, topic, validate_only=True).status_code == 200, "there is one layout"
    assert controller.alter(topic, 3).error == "NONE"
    fill(kafka_cluster, topic, 3)
    # A mark that was left over, of a partition that is not removed.
    znodes = znodes_of(controller.service)
    _, version = znodes.read_topic(topic)
    znodes.set_partition_statuses(topic, version, {1: "deleted"}, (), 1.8e9)
    message = refused(controller, topic, "INVALID_REQUEST")
    assert f"consumer group {behind} has not read all" in message
    assert "partition 1, for example, up to offset 1" in message
    assert release(controller, topic, force=True, validate_only=True).status_code == 200
    position(kafka_cluster, topic, behind, {1: 1})
    assert release(controller, topic).status_code == 200


@pytest.mark.long
def test_a_release_that_is_cut_off_is_ended_by_the_next_controller(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    chroot = unique_name("releasing")
    with in_process(kafka_cluster, chroot=chroot) as first:
        topic = first.create(1)
        first.service.releaser.begin_stop()  # as a process that is about to die
        answer = release(first, topic)
        assert (answer.status_code, answer.json()["error"]) == (503, "REQUEST_TIMED_OUT"), answer.text
        assert "the next controller completes the release" in answer.json()["error_message"]
        # For everybody it is gone, and cannot be had again yet.
        for path in ("", "/layout", "/layout?writer=true"):
            answer = first.http.get(f"/v1/topics/{topic}{path}")
            assert (answer.status_code, answer.json()["error_code"]) == (404, 3)
            assert "is being released from management" in answer.json()["error_message"]
        assert first.http.delete(f"/v1/topics/{topic}").status_code == 404
        answer = first.http.post(f"/v1/topics/{topic}/adopt", json={})
        assert (answer.status_code, answer.json()["error"]) == (409, "TOPIC_ALREADY_EXISTS")
        assert "is being released" in answer.json()["error_message"]
    with in_process(kafka_cluster, chroot=chroot) as second:
        await_true(lambda: znodes_of(second.service).releases() == {}, "the release goes on")
        assert exists(kafka_cluster, topic)
        assert second.http.post(f"/v1/topics/{topic}/adopt", json={}).status_code == 200


@pytest.mark.long
@pytest.mark.parametrize("step", RELEASE_STEPS)
def test_a_controller_that_is_killed_at_any_step_releases_all_or_nothing(
    kafka_cluster: LocalCluster, tmp_path: Path, step: str
) -> None:
    # Each step asks the controller that leads, so its session must outlive a busy machine.
    controller = CrashingController(kafka_cluster, tmp_path, session_timeout=10.0)
    topic = unique_name("killed")
    with controller.running(), httpx2.Client(base_url=controller.url, timeout=TIMEOUT) as http:
        assert http.post("/v1/topics", json={"topic": topic}).status_code == 201
        controller.armed.write_text(step)
        with pytest.raises(httpx2.TransportError):
            http.post(f"/v1/topics/{topic}/release", json={})
        controller.await_crash()
        controller.start()
        # It leads once the session of the one that was killed has ended.
        await_true(lambda: http.get("/readyz").json().get("role") == "leader", "the next controller leads")
        if step == "release:record":
            assert http.get(f"/v1/topics/{topic}/layout").status_code == 200, "nothing had begun"
            assert http.post(f"/v1/topics/{topic}/release", json={}).status_code == 200

        def is_adopted() -> bool:
            answer = http.post(f"/v1/topics/{topic}/adopt", json={})
            assert answer.status_code in (200, 409), answer.text
            return answer.status_code == 200

        await_true(is_adopted, "the next controller ends the release")
        assert http.delete(f"/v1/topics/{topic}").status_code == 200


def test_command_line_checks_first_and_asks(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 1)
    change(cluster, topic_name, 3)
    change(cluster, topic_name, 1)
    note = "note: partitions 1 to 2 were removed; Kafka's own producers write to them again\n"

    def run(*args: str, answer: str | None = None) -> tuple[int, str]:
        command = ["topics", "release", "--topic", topic_name, "--controller", cluster.controller_url, *args]
        result = CliRunner().invoke(app, command, input=answer)
        return result.exit_code, result.output

    assert run("--validate-only") == (0, f"{note}topic {topic_name} could be released\n")
    code, output = run(answer="n\n")
    assert (code, f"Release {topic_name}?" in output) == (1, True)
    code, output = run(answer="y\n")
    assert code == 0, output
    assert f"topic {topic_name} is released from management; Kafka keeps it" in output
    code, output = run("--yes")
    assert (code, "is not under management" in output) == (1, True)


def test_no_writer_is_left_unfenced(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that was given the layout before must not write after a new adoption."""
    topic = controller.create(1)
    producer = Producer(
        {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "transactional.id": f"{id_prefix(topic)}somebody:0",
        }
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    assert release(controller, topic).status_code == 200
    writers = Fencer(controller.service.admin).list_writers(id_prefix(topic), time.monotonic() + TIMEOUT)
    assert [writer.is_left for writer in writers.values()] == [True]
    with pytest.raises(Exception, match=r"(?i)fenced|producer epoch"):
        producer.commit_transaction(TIMEOUT)
