"""Topics deleted through the controller: cut off anywhere, under writers and readers, beside namesakes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import ControllerClient, OrderedProducer
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.state import topics as znodes_module
from spark_ordered_kafka.errors import DataLossError, ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.buffer import Memory
from spark_ordered_kafka.kafka.deletions import TopicDeletions
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.task import TaskTransaction
from spark_ordered_kafka.local import LocalCluster
from tests.inside import znodes_of
from tests.integration.controllers import Hold, InProcess, errors, exists, in_process, several
from tests.queries import Query, await_stable, everything
from tests.servers import TIMEOUT, create_topic, unique_name
from tests.streams import NumberedWriter, conf, create, numbered, writer_context


def ledgers(cluster: LocalCluster, topic: str) -> list[str]:
    """Groups of the topic's writers, as Kafka lists them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    groups = admin.list_consumer_groups(request_timeout=TIMEOUT).result(TIMEOUT)
    assert groups.errors == []
    return [group.group_id for group in groups.valid if group.group_id.startswith(id_prefix(topic))]


def delete(cluster: LocalCluster, topic: str) -> None:
    with ControllerClient(cluster.controller_url) as client:
        assert client.delete_topic(topic).error == "NONE"


def test_topics_are_deleted_each_with_its_result(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than one ZooKeeper transaction takes.
    monkeypatch.setattr(znodes_module, "_OPERATIONS_PER_TRANSACTION", 3)
    one, two = controller.create(2, "one"), controller.create(1, "two")
    changed = controller.create(1, "changed")
    assert [controller.alter(changed, count).error for count in (4, 2)] == ["NONE", "NONE"]
    unmanaged = create_topic(kafka_cluster.bootstrap_servers, unique_name("unmanaged"))
    names = [one, unmanaged, two, "a b", unique_name("missing"), changed, two]
    expected = ["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_REQUEST", "INVALID_TOPIC_EXCEPTION"]
    expected += ["UNKNOWN_TOPIC_OR_PARTITION", "NONE", "INVALID_REQUEST"]
    for validate_only in (True, False):
        rows = several(controller, "/v1/topic-deletions", names, validate_only=validate_only)
        assert errors(rows) == expected
        assert exists(kafka_cluster, one) is validate_only
    assert "adopt it" in rows[1][2]
    for gone in (one, changed):
        answer = controller.http.get(f"/v1/topics/{gone}")
        assert (answer.status_code, answer.json()["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
        assert znodes_of(controller.service).read_topic(gone) == (None, -1)
    assert exists(kafka_cluster, unmanaged)
    assert exists(kafka_cluster, two)
    assert znodes_of(controller.service).deletions() == {}

    # The name is free again, and what is made of it begins anew.
    answer = controller.http.post("/v1/topics", json={"topic": changed, "partitions": 3})
    assert answer.status_code == 201, answer.text
    assert [one.undeleted_partition_count for one in controller.layout(changed).layouts] == [3]
    answer = controller.http.delete(f"/v1/topics/{changed}", params={"validate_only": "true"})
    assert (answer.status_code, answer.json()["error"]) == (200, "NONE")
    assert exists(kafka_cluster, changed)
    assert controller.http.delete(f"/v1/topics/{changed}").status_code == 200
    assert not exists(kafka_cluster, changed)
    assert controller.http.delete(f"/v1/topics/{changed}").status_code == 404
    for params in ({"timeout_ms": "0"}, {"timeout_ms": "x"}, {"validate_only": "x"}):
        answer = controller.http.delete(f"/v1/topics/{two}", params=params)
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")


def test_a_topic_is_not_deleted_amid_a_change(controller: InProcess) -> None:
    topic = controller.create(1)
    with Hold(p.ReadBoundaries) as hold:
        controller.before = hold
        controller.alter(topic, 2, wait=False)
        hold.await_reached()
        answer = controller.http.delete(f"/v1/topics/{topic}")
        assert (answer.status_code, answer.json()["error"]) == (409, "PARTITION_CHANGE_IN_PROGRESS")
    assert controller.await_end(topic).outcome == "done"
    assert controller.http.delete(f"/v1/topics/{topic}").status_code == 200


@pytest.mark.long
def test_a_deletion_that_is_cut_off_is_ended_by_the_next_controller(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("not now")

    chroot = unique_name("deleting")
    with in_process(kafka_cluster, chroot=chroot) as first:
        before, after = first.create(1, "before"), first.create(1, "after")
        deleter = first.service.deleter
        for topic, step in ((before, "_kafka"), (after, "_groups")):
            with monkeypatch.context() as patch:
                patch.setattr(getattr(deleter, step), "delete", away)
                answer = first.http.delete(f"/v1/topics/{topic}", params={"timeout_ms": "200"})
                assert (answer.status_code, answer.json()["error"]) == (503, "REQUEST_TIMED_OUT")
                assert "continues in the background" in answer.json()["error_message"]
                # For everybody it is gone, and the name is not free.
                for path in ("", "/layout", "/layout?writer=true"):
                    answer = first.http.get(f"/v1/topics/{topic}{path}")
                    assert (answer.status_code, answer.json()["error_code"]) == (404, 3)
                    assert "is being deleted" in answer.json()["error_message"]
                assert first.alter(topic, 2).error == "INVALID_TOPIC_EXCEPTION"
                for path, body in (("/v1/topics", {"topic": topic}), (f"/v1/topics/{topic}/adopt", {})):
                    answer = first.http.post(path, json=body)
                    assert (answer.status_code, answer.json()["error"]) == (409, "TOPIC_ALREADY_EXISTS")
                first_stopped = topic == after
                if first_stopped:
                    first.service.stop()
            if not first_stopped:
                # The same request joins the deletion in progress.
                assert first.http.delete(f"/v1/topics/{topic}").status_code == 200
                assert not exists(kafka_cluster, topic)
    with in_process(kafka_cluster, chroot=chroot) as second:
        deadline = time.monotonic() + TIMEOUT
        while znodes_of(second.service).deletions():
            assert time.monotonic() < deadline, "the deletion does not go on"
            time.sleep(0.05)
        assert not exists(kafka_cluster, after)
        assert second.http.post("/v1/topics", json={"topic": after}).status_code == 201


def test_a_deletion_that_kafka_refuses_is_taken_back(
    controller: InProcess, kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")

    topic = controller.create(1)
    with monkeypatch.context() as patch:
        patch.setattr(TopicDeletions, "delete", refused)
        answer = controller.http.delete(f"/v1/topics/{topic}")
    assert (answer.status_code, answer.json()["error"]) == (400, "TOPIC_DELETION_DISABLED")
    assert znodes_of(controller.service).deletions() == {}
    assert controller.alter(topic, 2).error == "NONE"


def test_a_namesake_made_outside_survives(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = controller.create(1)
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    create_topic(kafka_cluster.bootstrap_servers, topic, 2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.produce(topic, b"value", partition=1)
    assert producer.flush(TIMEOUT) == 0
    assert controller.http.delete(f"/v1/topics/{topic}").status_code == 200
    assert exists(kafka_cluster, topic)
    answer = controller.http.get(f"/v1/topics/{topic}")
    assert "is not under management: adopt it" in answer.json()["error_message"]
    answer = controller.http.post(f"/v1/topics/{topic}/adopt", json={})
    assert answer.status_code == 200, answer.text


def test_a_new_topic_does_not_take_the_old_ledger_for_its_own(cluster: LocalCluster, topic_name: str) -> None:
    """A writer of a chosen name writes the same first batch again: it is not taken for a replay."""

    def attempt() -> bool:
        name = f"{id_prefix(topic_name)}chosen:0"
        task = TaskTransaction(writer_context(cluster), topic_name, name, 0, Memory(1_000_000))
        task.write(numbered(5, 0, 5))
        return task.commit()

    create(cluster, topic_name, 2)
    assert attempt()
    assert not attempt()
    assert ledgers(cluster, topic_name) != []
    delete(cluster, topic_name)
    assert ledgers(cluster, topic_name) == []
    create(cluster, topic_name, 2)
    assert attempt()


def test_writers_of_a_deleted_topic_hear_why_they_end(cluster: LocalCluster, topic_name: str) -> None:
    """Their open transactions are fenced, so that they ask for the layout, and are told that there is none."""
    create(cluster, topic_name, 1)
    name = f"{id_prefix(topic_name)}sink:0"
    task = TaskTransaction(writer_context(cluster), topic_name, name, 0, Memory(1_000_000))
    task.write(numbered(5, 0, 5))
    told: list[Any] = []
    producer = OrderedProducer(conf(cluster, commit_interval_ms=0))
    producer.produce(topic_name, b"value", b"key", on_delivery=lambda error, _: told.append(error))
    delete(cluster, topic_name)
    with pytest.raises(RequestError, match=f"'{topic_name}' does not exist"):
        task.commit()
    task.abort()
    with pytest.raises(RequestError, match=f"'{topic_name}' does not exist"):
        producer.commit()
    producer.close()


def test_readers_of_a_deleted_topic_hear_what_is_gone(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write()
    await_stable(cluster, topic_name)
    with Query(everything(cluster, topic_name)) as query:
        assert len(query.all_rows()) == writer.written
        delete(cluster, topic_name)
        with pytest.raises(DataLossError, match=f"topic '{topic_name}' has vanished"):
            query.plan()
