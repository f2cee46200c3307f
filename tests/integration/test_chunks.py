"""Topics of more partitions than Kafka takes in one request; here a request makes seven."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.controller.state.records import CreationRecord
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import TopicDescription
from spark_ordered_kafka.local import LocalCluster
from tests.inside import znodes_of
from tests.integration.controllers import InProcess, in_process
from tests.servers import TIMEOUT, await_true, unique_name

CHUNK = 7
UNKNOWN_BROKER = 99


@pytest.fixture(scope="module")
def admin(kafka_cluster: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(kafka_cluster.bootstrap_servers, chunk=CHUNK)
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def broker(admin: KafkaAdmin) -> int:
    return admin.brokers()[0].id


def count(admin: KafkaAdmin, topic: str) -> int:
    found = admin.describe_topics([topic])
    return len(found[topic].partitions) if topic in found else 0


def await_count(admin: KafkaAdmin, topic: str, partitions: int) -> None:
    """A broker hears of partitions a moment after they were made."""
    deadline = time.monotonic() + TIMEOUT
    while count(admin, topic) != partitions:
        assert time.monotonic() < deadline, f"{topic} has {count(admin, topic)} partitions, not {partitions}"
        time.sleep(0.02)


def replicas(broker: int, partitions: int) -> dict[int, list[int]]:
    return {p: [broker] for p in range(partitions)}


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param(CHUNK, marks=pytest.mark.long),
        pytest.param(CHUNK + 1, marks=pytest.mark.long),
        4 * CHUNK,
        4 * CHUNK + 3,
    ],
)
def test_a_topic_is_created_and_grows_by_several_requests(
    admin: KafkaAdmin, broker: int, topic_name: str, partitions: int
) -> None:
    admin.create_topic(topic_name, replicas(broker, partitions), {"retention.ms": "1000"}, validate_only=True)
    assert count(admin, topic_name) == 0
    admin.create_topic(topic_name, replicas(broker, partitions), {"retention.ms": "1000"})
    assert len(admin.log_ends(topic_name, range(partitions))) == partitions
    more = [[broker]] * partitions
    admin.create_partitions(topic_name, 2 * partitions, more, validate_only=True)
    assert count(admin, topic_name) == partitions
    admin.create_partitions(topic_name, 2 * partitions, more)
    assert len(admin.log_ends(topic_name, range(2 * partitions))) == 2 * partitions


def test_every_chunk_is_validated(admin: KafkaAdmin, broker: int, topic_name: str) -> None:
    wrong = {**replicas(broker, 3 * CHUNK), 2 * CHUNK + 1: [UNKNOWN_BROKER]}
    with pytest.raises(RequestError, match=str(UNKNOWN_BROKER)) as refused:
        admin.create_topic(topic_name, wrong, {}, validate_only=True)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    admin.create_topic(topic_name, replicas(broker, 2), {})
    admin.log_ends(topic_name, range(2))
    with pytest.raises(RequestError, match=str(UNKNOWN_BROKER)) as refused:
        admin.create_partitions(topic_name, 2 + 3 * CHUNK, list(wrong.values()), validate_only=True)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert count(admin, topic_name) == 2


@pytest.mark.parametrize("total", [5, 7])
@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_that_were_made_meanwhile_are_counted_again(
    admin: KafkaAdmin, broker: int, topic_name: str, total: int, validate_only: bool
) -> None:
    """A change whose checks another tool's partitions overtook was refused with INVALID_PARTITIONS."""
    admin.create_topic(topic_name, replicas(broker, 2), {})
    admin.create_partitions(topic_name, 5, [[broker]] * 3)
    more = [[broker]] * (total - 2)
    with pytest.raises(UnavailableError, match="has 5 partitions by now, not the 2 that were counted"):
        admin.create_partitions(topic_name, total, more, validate_only=validate_only)


@pytest.fixture
def chunked(controller: InProcess, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    monkeypatch.setattr(controller.service.admin, "chunk", CHUNK)
    return controller


@contextmanager
def cut_off(admin: KafkaAdmin, requests: int, *, lost: bool = False) -> Iterator[None]:
    """Creations and expansions end after some requests that add partitions, as by the end of the process.

    ``lost``: one further request is carried out once, but its answer is lost.
    """
    send, left = admin._create_partitions, [requests]

    def cut(topic: str, total: int, assignments: Sequence[Sequence[int]], validate_only: bool) -> None:
        if validate_only or left[0] > 0:
            left[0] -= not validate_only
            send(topic, total, assignments, validate_only)
        elif not lost:
            raise UnavailableError("cut off")
        elif left[0] == 0:
            left[0] = 1_000
            send(topic, total, assignments, validate_only)
            raise UnavailableError("the answer was lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin, "_create_partitions", cut)
        yield


def create(controller: InProcess, topic: str, partitions: int, **fields: Any) -> Any:
    body = {"topic": topic, "partitions": partitions, "configs": {"retention.ms": "1000"}, **fields}
    return controller.http.post("/v1/topics", json=body)


def live(controller: InProcess, topic: str) -> int:
    return sum(p.status == "live" for p in controller.topic(topic).partitions)


def test_the_same_request_ends_a_creation_that_was_cut_off(chunked: InProcess, topic_name: str) -> None:
    admin, partitions = chunked.service.admin, 4 * CHUNK + 2
    with cut_off(admin, 1):
        answer = create(chunked, topic_name, partitions)
    assert answer.status_code == 503, answer.text
    await_count(admin, topic_name, 2 * CHUNK)
    answer = create(chunked, topic_name, partitions + 1)
    assert answer.json()["error"] == "TOPIC_ALREADY_EXISTS", answer.text
    answer = create(chunked, topic_name, partitions)
    assert answer.status_code == 201, answer.text
    assert live(chunked, topic_name) == count(admin, topic_name) == partitions


@pytest.mark.long
def test_the_next_controller_ends_a_creation_that_was_cut_off(
    kafka_cluster: LocalCluster, topic_name: str
) -> None:
    chroot, partitions = unique_name("chunks"), 4 * CHUNK
    with in_process(kafka_cluster, chroot=chroot) as first:
        admin = first.service.admin
        admin.chunk = CHUNK
        mine = {p: [admin.brokers()[0].id] for p in range(partitions)}
        with cut_off(admin, 1):
            answer = first.http.post("/v1/topics", json={"topic": topic_name, "assignments": mine})
        assert answer.status_code == 503, answer.text
    with in_process(kafka_cluster, chroot=chroot) as second:
        await_managed(second, topic_name)
        assert live(second, topic_name) == partitions


def test_a_creation_that_kafka_refuses_leaves_no_intent(chunked: InProcess, topic_name: str) -> None:
    """Else a topic that somebody else makes under that name would grow to its size."""
    admin, creations = chunked.service.admin, znodes_of(chunked.service).creations
    answer = create(chunked, topic_name, 2 * CHUNK, configs={"retention.ms": "x"})
    assert answer.json()["error"] == "INVALID_CONFIG", answer.text
    assert creations() == []
    describe = admin.describe_topics

    def without_it(topics: Sequence[str] | None = None, **more: Any) -> dict[str, TopicDescription]:
        """Checks of all topics go on meanwhile."""
        return {name: one for name, one in describe(topics, **more).items() if name != topic_name}

    # A broker may hear late that somebody else has made the topic.
    admin.create_topic(topic_name, replicas(admin.brokers()[0].id, 2), {})
    admin.log_ends(topic_name, range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin, "describe_topics", without_it)
        answer = create(chunked, topic_name, 2 * CHUNK)
    assert answer.json()["error"] == "TOPIC_ALREADY_EXISTS", answer.text
    assert creations() == []
    assert count(admin, topic_name) == 2


def test_a_part_that_kafka_does_not_add_to_keeps_the_intent(chunked: InProcess, topic_name: str) -> None:
    admin, znodes = chunked.service.admin, znodes_of(chunked.service)

    def refuse(*_: object) -> None:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "no more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin, "_create_partitions", refuse)
        answer = create(chunked, topic_name, 2 * CHUNK)
    assert answer.json()["error"] == "POLICY_VIOLATION", answer.text
    assert topic_name in znodes.creations()
    await_count(admin, topic_name, CHUNK)
    assert create(chunked, topic_name, 2 * CHUNK).status_code == 201
    assert live(chunked, topic_name) == 2 * CHUNK


def test_a_topic_of_somebody_else_does_not_grow(kafka_cluster: LocalCluster, broker: int) -> None:
    """It has the name of a creation that was cut off before Kafka heard of it, and records or another replication factor."""
    chroot, size = unique_name("others"), 2 * CHUNK
    written, narrow, empty = unique_name("written"), unique_name("narrow"), unique_name("xempty")
    with in_process(kafka_cluster, chroot=chroot) as first:
        admin = first.service.admin
        for topic in (written, narrow, empty):
            factor = 2 if topic == narrow else 1
            creation = CreationRecord(
                partitions=size,
                replication_factor=factor,
                hash="murmur3",
                ordered_delivery=True,
                assignments=[[broker] * factor] * size,
            )
            znodes_of(first.service).record_creation(topic, creation)
            admin.create_topic(topic, replicas(broker, 2), {})
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
        producer.produce(written, b"value", partition=1)
        assert producer.flush(TIMEOUT) == 0
    with in_process(kafka_cluster, chroot=chroot) as second:
        await_true(
            lambda: znodes_of(second.service).creations() == sorted((narrow, written)),
            "the creation that comes last is ended",
        )
        admin = second.service.admin
        assert [count(admin, topic) for topic in (written, narrow, empty)] == [2, 2, size]


def await_managed(controller: InProcess, topic: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while controller.http.get(f"/v1/topics/{topic}").status_code != 200:
        assert time.monotonic() < deadline, f"{topic} is not taken under management"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "lost",
    [pytest.param(False, id="nothing lost", marks=pytest.mark.long), pytest.param(True, id="an answer lost")],
)
def test_an_expansion_goes_by_several_requests(chunked: InProcess, topic_name: str, lost: bool) -> None:
    """A change that lost an answer counts the partitions again, and goes on with the rest."""
    assert create(chunked, topic_name, 2).status_code == 201
    with cut_off(chunked.service.admin, 1 if lost else 1_000, lost=lost):
        result = chunked.alter(topic_name, 2 + 4 * CHUNK)
    assert result.error == "NONE", result
    assert live(chunked, topic_name) == 2 + 4 * CHUNK
    assert chunked.topic(topic_name).layout_epoch == 1
