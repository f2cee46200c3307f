"""Topics that were deleted, and created again, outside of this system: what is left of them is replaced."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.schemas import AdoptTopicRequest
from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.state import topics as znodes_module
from spark_ordered_kafka.controller.state.records import CreationRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import DataLossError, RequestError, UnavailableError
from spark_ordered_kafka.kafka import missing_topic
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.updates import updated
from tests.inside import check_removed, jobs_of, session_of, znodes_of
from tests.integration.controllers import Hold, InProcess, exists, in_process
from tests.integration.members import Room, all_of, in_order, read_until
from tests.servers import TIMEOUT, await_true, create_topic, unique_name
from tests.streams import NumberedWriter, conf, create, misrouted, numbered


@pytest.fixture
def changed(controller: InProcess) -> str:
    """A topic with three layouts and two partitions marked for deletion."""
    topic = controller.create(2)
    for count in (5, 3):
        assert controller.alter(topic, count).error == "NONE"
    return topic


def delete(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    # Kafka answers once its quorum has deleted it: the broker shows it for a moment longer.
    await_true(lambda: not exists(cluster, topic), f"topic {topic} is gone")


def recreate(cluster: LocalCluster, topic: str, partitions: int) -> None:
    delete(cluster, topic)
    create_topic(cluster.bootstrap_servers, topic, partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(TIMEOUT) == 0


def assert_new(controller: InProcess, topic: str, old: TopicRecord, partitions: int) -> None:
    """Nothing of the old topic is left, and the new one can be changed."""
    view = controller.topic(topic)
    assert view.topic_id != old.topic_id
    assert (view.initial_partition_count, view.layout_epoch, view.change) == (partitions, 0, None)
    assert view.last_change is None
    assert [p.status for p in view.partitions] == ["live"] * partitions
    history = controller.layout(topic)
    assert history.topic_id == view.topic_id
    assert [(one.undeleted_partition_count, one.starts) for one in history.layouts] == [
        (partitions, [0] * partitions)
    ]
    assert controller.alter(topic, partitions + 2).error == "NONE"
    assert controller.alter(topic, partitions).error == "NONE"
    assert len(controller.layout(topic).layouts) == 3


def record_of(controller: InProcess, topic: str) -> TopicRecord:
    record, _ = controller.service.topics.record(topic)
    return record


def listed(controller: InProcess) -> list[str]:
    return [row["topic"] for row in controller.http.get("/v1/topics").json()["topics"]]


@pytest.mark.long
@pytest.mark.parametrize("operations", [pytest.param(1000, marks=pytest.mark.long), 3])
def test_adoption_replaces_what_is_left_of_a_recreated_topic(
    controller: InProcess,
    kafka_cluster: LocalCluster,
    changed: str,
    operations: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when there is more of it than one ZooKeeper transaction takes."""
    monkeypatch.setattr(znodes_module, "_OPERATIONS_PER_TRANSACTION", operations)
    old = record_of(controller, changed)
    recreate(kafka_cluster, changed, 4)
    answer = controller.http.get(f"/v1/topics/{changed}")
    assert (answer.status_code, answer.json()["error"]) == (409, "LOG_TRUNCATED")
    assert "topics adopt" in answer.json()["error_message"]
    created = controller.http.post("/v1/topics", json={"topic": changed, "partitions": 4})
    assert (created.status_code, created.json()["error"]) == (409, "TOPIC_ALREADY_EXISTS")
    assert "topics adopt" in created.json()["error_message"]
    assert changed in listed(controller)
    adopted = controller.http.post(f"/v1/topics/{changed}/adopt", json={"hash": "crc32"})
    assert adopted.status_code == 200, adopted.text
    assert_new(controller, changed, old, 4)
    assert controller.topic(changed).hash == "crc32"


def test_creation_replaces_what_is_left_of_a_deleted_topic(
    controller: InProcess, kafka_cluster: LocalCluster, changed: str
) -> None:
    old = record_of(controller, changed)
    delete(kafka_cluster, changed)
    for answer in (
        controller.http.get(f"/v1/topics/{changed}"),
        controller.http.post(f"/v1/topics/{changed}/adopt", json={}),
    ):
        assert (answer.status_code, answer.json()["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
        assert "topics create" in answer.json()["error_message"]
    assert changed in listed(controller)
    checked = {"topic": changed, "partitions": 1, "validate_only": True}
    assert controller.http.post("/v1/topics", json=checked).status_code == 201
    assert record_of(controller, changed) == old
    answer = controller.http.post("/v1/topics", json={"topic": changed, "partitions": 1})
    assert answer.status_code == 201, answer.text
    assert_new(controller, changed, old, 1)


def test_deleted_topics_do_not_delay_the_check_of_the_others(
    controller: InProcess, kafka_cluster: LocalCluster, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was looked for for a second, and partitions that another tool had made waited for minutes to be covered."""
    delete(kafka_cluster, changed)
    asked: list[str] = []
    at_each = KafkaAdmin.describe_at_each
    this_thread = threading.get_ident()

    def counted(admin: KafkaAdmin, topic: str, **more: Any) -> Any:
        # The controller checks removed partitions by itself, too, perhaps at this moment.
        if threading.get_ident() == this_thread:
            asked.append(topic)
        return at_each(admin, topic, **more)

    monkeypatch.setattr(KafkaAdmin, "describe_at_each", counted)
    with pytest.raises(RequestError, match="not in Kafka any more"):
        check_removed(controller.service, changed)
    assert asked == [changed]


def test_creation_in_the_place_of_a_deleted_topic_is_ended_when_it_was_cut_off(
    controller: InProcess, kafka_cluster: LocalCluster, changed: str
) -> None:
    old = record_of(controller, changed)
    delete(kafka_cluster, changed)
    creation = CreationRecord(partitions=2, replication_factor=1, hash="murmur3", ordered_delivery=True)
    znodes_of(controller.service).record_creation(changed, creation)
    create_topic(kafka_cluster.bootstrap_servers, changed, 2)
    answer = controller.http.post("/v1/topics", json={"topic": changed, "partitions": 2})
    assert answer.status_code == 201, answer.text
    assert_new(controller, changed, old, 2)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(p.ListTransactions, marks=pytest.mark.long),
        pytest.param(p.ReadBoundaries, marks=pytest.mark.long),
        pytest.param(p.CommitLayout, marks=pytest.mark.long),
        p.RollBack,
    ],
)
def test_a_change_in_progress_does_not_outlive_its_topic(
    controller: InProcess, kafka_cluster: LocalCluster, kind: type
) -> None:
    topic = controller.create(2)
    old = record_of(controller, topic)
    is_cancelled = kind is p.RollBack
    with Hold(p.CreatePartitions) as early, Hold(kind) as hold:
        controller.before = early if is_cancelled else hold
        change = controller.alter(topic, 3, wait=False)
        if is_cancelled:
            # Held until then: it might be over before it is cancelled.
            early.await_reached()
            controller.before = hold
            assert controller.http.delete(f"/v1/topics/{topic}/change").status_code == 200
            early.release()
        hold.await_reached()
        job, thread = jobs_of(controller.service)[topic]
        assert job.change.id == change.change_id
        recreate(kafka_cluster, topic, 2)
        assert controller.http.post(f"/v1/topics/{topic}/adopt", json={}).status_code == 200
    ended = job.done.result(TIMEOUT)
    assert (ended.outcome, ended.error_code) == ("failed", 1004)
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    assert_new(controller, topic, old, 2)


def test_layouts_are_not_taken_for_those_of_a_topic_that_was_replaced(
    controller: InProcess, kafka_cluster: LocalCluster, changed: str
) -> None:
    """A reader that has the old record when the new one is written must not get a mixture."""
    fresh = Znodes(session_of(controller.service))
    old = record_of(controller, changed)
    recreate(kafka_cluster, changed, 2)
    assert controller.http.post(f"/v1/topics/{changed}/adopt", json={}).status_code == 200
    for record in (old, updated(old, layout_epoch=0)):
        with pytest.raises(UnavailableError, match="replaced"):
            fresh.layouts(changed, record)
    assert [
        one.undeleted_partition_count for one in fresh.layouts(changed, record_of(controller, changed))
    ] == [2]


def test_every_broker_knows_a_topic_once_it_is_created(three_brokers: LocalCluster) -> None:
    with in_process(three_brokers) as controller:
        for _ in range(5):
            topic = controller.create(6)
            views = controller.service.admin.describe_at_each(topic)
            shown = [None if view is None else (view.topic_id, len(view.partitions)) for view in views]
            assert shown == [(record_of(controller, topic).topic_id, 6)] * 3


@pytest.mark.long
@pytest.mark.parametrize("way", ["created", "adopted"])
def test_writers_that_were_idle_while_another_tool_deleted_their_topic_are_fenced(
    cluster: LocalCluster, room: Room, topic_name: str, way: str
) -> None:
    """They kept the old topic's layout, and wrote by it to the new one."""
    create(cluster, topic_name, 2)
    producers = {key: OrderedProducer(conf(cluster, commit_interval_ms=0)) for key in "ab"}
    sink = NumberedWriter(cluster, topic_name, keys=50, step=2)

    def write(first: int) -> None:
        sink.write()
        for key, producer in producers.items():
            for number, which in itertools.product((first, first + 1), range(50)):
                producer.produce(topic_name, f"{key}{which}:{number}", f"{key}{which}")
            producer.commit(TIMEOUT)

    write(0)
    reader = room.member(topic_name)
    all_of(reader, 300)
    amid_transaction = NumberedWriter(cluster, topic_name).task()
    amid_transaction.write(numbered(1, 0, 1))
    delete(cluster, topic_name)
    if way == "created":
        create(cluster, topic_name, 5)
    else:
        create_topic(cluster.bootstrap_servers, topic_name, 5)
        with ControllerClient(cluster.controller_url) as controller:
            controller.adopt_topic(topic_name, AdoptTopicRequest())
    assert amid_transaction.commit()
    assert amid_transaction.replays == 1
    write(2)
    for producer in producers.values():
        producer.close()
    assert misrouted(cluster, topic_name) == []
    with pytest.raises(DataLossError, match="created again"):
        read_until([reader], lambda: False, "nothing is said")
    room.group = unique_name("group")
    later = room.member(topic_name)
    all_of(later, 301)
    in_order(later.messages)


@pytest.mark.parametrize("way", ["created", pytest.param("adopted", marks=pytest.mark.long)])
def test_a_topic_is_replaced_after_the_controller_died_amid_it(
    kafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("not now")

    def replace(controller: InProcess, topic: str) -> tuple[int, str]:
        if way == "created":
            answer = controller.http.post("/v1/topics", json={"topic": topic, "partitions": 3})
        else:
            answer = controller.http.post(f"/v1/topics/{topic}/adopt", json={})
        return answer.status_code, answer.text

    chroot = unique_name("namesakes")
    with in_process(kafka_cluster, chroot=chroot) as first:
        topic = first.create(2)
        old = record_of(first, topic)
        delete(kafka_cluster, topic)
        if way == "adopted":
            create_topic(kafka_cluster.bootstrap_servers, topic, 3)
        leaving = first.service.deleter if way == "created" else first.service.releaser
        monkeypatch.setattr(leaving, "_fence", away)
        monkeypatch.setattr(leaving, "_timeout", 0.2)
        status, text = replace(first, topic)
        assert (status, "continues in the background" in text) == (503, True), text
        # No writer gets the old layout any more.
        assert first.http.get(f"/v1/topics/{topic}/layout", params={"writer": "true"}).status_code == 404
        assert replace(first, topic)[0] == 409
    with in_process(kafka_cluster, chroot=chroot) as second:
        await_true(lambda: second.service.topics.managed(topic) is None, "the old topic is forgotten")
        assert replace(second, topic)[0] in (200, 201)
        assert_new(second, topic, old, 3)


def test_one_of_two_creations_at_once_takes_the_place_of_a_deleted_topic(
    controller: InProcess, kafka_cluster: LocalCluster, changed: str
) -> None:
    old = record_of(controller, changed)
    delete(kafka_cluster, changed)

    def attempt(partitions: int) -> int:
        body = {"topic": changed, "partitions": partitions}
        return controller.http.post("/v1/topics", json=body).status_code

    with ThreadPoolExecutor() as threads:
        answers = dict(zip((1, 4), threads.map(attempt, (1, 4)), strict=True))
    assert sorted(answers.values()) == [201, 409]
    assert_new(controller, changed, old, min(answers, key=lambda partitions: answers[partitions]))


@pytest.mark.long
def test_a_writer_whose_topic_another_tool_deletes_is_told_so(
    cluster: LocalCluster,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """librdkafka tries for ever, so each wrote again and again, and gave up after minutes for want of an answer."""
    monkeypatch.setattr(missing_topic, "PROPAGATION", 0.5)
    create(cluster, topic_name, 2)
    producer, quiet, busy = (OrderedProducer(conf(cluster, message_timeout_ms=300_000)) for _ in range(3))
    sink = NumberedWriter(cluster, topic_name, timeout=2.0)
    for one in (producer, quiet, busy):
        one.produce(topic_name, b"v", b"k")
        one.commit(TIMEOUT)
    sink.write()
    with ThreadPoolExecutor() as threads:
        deletion = threads.submit(delete, cluster, topic_name)
        while not deletion.done():
            busy.produce(topic_name, b"v", b"k")
            busy.poll(0.01)
        deletion.result()
    gone = "UNKNOWN_TOPIC_OR_PARTITION: .* is under management but not in Kafka any more"
    quiet.produce(topic_name, b"v", b"k")
    busy.produce(topic_name, b"v", b"k")
    for one in (busy, quiet):
        # A request may take 30 s.
        with pytest.raises(RequestError, match=gone):
            one.commit(20)
    with pytest.raises(RequestError, match=gone):
        sink.write()
    assert not exists(cluster, topic_name), "a writer has created it again"
    # What the message advises.
    create(cluster, topic_name, 3)
    producer.produce(topic_name, b"v", b"k")
    producer.commit(TIMEOUT)
    NumberedWriter(cluster, topic_name).write()
    for one in (producer, quiet, busy):
        one.close()
    # An abort is not tried where librdkafka would refuse it.
    assert "_CONFLICT" not in caplog.text


def test_asking_for_a_topic_creates_none(cluster: LocalCluster, topic_name: str) -> None:
    with OrderedProducer(conf(cluster)) as producer, OrderedConsumer(conf(cluster, group_id="g")) as consumer:
        for client in (producer, consumer):
            assert client.list_topics(topic_name, TIMEOUT).topics[topic_name].error is not None
    assert not exists(cluster, topic_name)
