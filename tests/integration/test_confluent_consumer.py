"""OrderedConsumer by confluent-kafka's other methods and options: stored offsets, patterns, metadata, callbacks."""

from __future__ import annotations

import json
import logging
import threading
import time
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import (
    KafkaError,
    KafkaException,
    TopicPartition,
)

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ReleaseTopicRequest
from spark_ordered_kafka.errors import ClosedError, ConfigError, ConfigErrors
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import (
    Member,
    Room,
    all_of,
    at,
    committed,
    conf,
    distinct,
    idle,
    of_partition,
    read_until,
)
from tests.queries import await_stable
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, change, create, written_through

# -- what is processed --------------------------------------------------------------------------------------


def test_only_stored_offsets_are_committed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    told: list[Any] = []
    member = room.member(
        topic_name,
        enable_auto_offset_store=False,
        auto_commit_interval_ms=3_600_000,
        **{"on_commit": lambda error, offsets: told.append((error, offsets))},
    )
    consumer = member.consumer
    all_of(member, 50)
    consumer.commit()
    assert committed(room, topic_name, 1) == [0]
    consumer.store_offsets(message=member.messages[9])
    with pytest.raises(ConfigError, match="what was delivered"):
        consumer.store_offsets(offsets=[at(topic_name, 0, 9_000)])
    with pytest.raises(ConfigError, match="not both"):
        consumer.store_offsets(member.messages[9], [])
    assert committed(room, topic_name, 1) == [0]
    consumer.commit()
    assert committed(room, topic_name, 1) == [10]
    assert [offsets[0].offset for error, offsets in told if error is None][-1] == 10
    consumer.store_offsets(offsets=[at(topic_name, 0, 20)])
    consumer.close()
    successor = room.member(topic_name)
    all_of(successor, 80)
    assert of_partition(successor.messages, 0) == list(range(20, 100))
    with pytest.raises(ConfigError, match=r"enable\.auto\.offset\.store"):
        successor.consumer.store_offsets(message=successor.messages[0])


def test_a_consumer_is_iterated_over(room: Room, topic_name: str) -> None:
    """What the loop was left with is processed once the consumer is closed, and its successor continues behind it."""
    writer = written_through(room.cluster, topic_name, 2, 3)
    first = OrderedConsumer(conf(room.cluster, room.group))
    first.subscribe([topic_name])
    with first:
        found = [message.value() for message in islice(first, 70)]
    successor = room.member(topic_name)
    all_of(successor, writer.written - len(found))
    values = [*found, *(message.value() for message in successor.messages)]
    assert len(set(values)) == len(values) == writer.written


def test_a_consumer_that_another_thread_closes_says_so(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    member = room.member(topic_name)
    read_until([member], lambda: member.partitions == [0], "no assignment")
    closing = threading.Timer(0.5, member.consumer.close)
    closing.start()
    with pytest.raises(ClosedError, match=r"the consumer (is closed|was closed meanwhile)"):
        member.consumer.consume(1, TIMEOUT)
    closing.join(TIMEOUT)


@pytest.mark.parametrize("callback", ["on_assign", "on_revoke"])
def test_a_callback_may_close_the_consumer(room: Room, topic_name: str, callback: str) -> None:
    """``on_revoke`` is called by ``close()`` itself."""
    create(room.cluster, topic_name, 1)
    consumer = OrderedConsumer(conf(room.cluster, room.group))
    listening: dict[str, Any] = {callback: lambda its, _: its.close()}
    consumer.subscribe([topic_name], **listening)
    if callback == "on_assign":
        with pytest.raises(ClosedError, match="closed"):
            consumer.consume(1, TIMEOUT)
    else:
        read_until([Member(consumer)], lambda: bool(consumer.assignment()), "no assignment")
        consumer.close()
    with pytest.raises(ClosedError, match="the consumer is closed"):
        consumer.poll(0)
    successor = room.member(topic_name)
    read_until([successor], lambda: successor.partitions == [0], "the closed consumer has not left")


def test_stored_offsets_let_keys_go(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    members = [room.member(topic_name, enable_auto_offset_store=False) for _ in range(2)]
    change(room.cluster, topic_name, 2)
    writer.write()

    seen = dict.fromkeys(range(len(members)), 0)

    def all_read() -> bool:
        for number, member in enumerate(members):
            # Of the last call of consume(): what came before a rebalance comes again.
            for message in member.messages[seen[number] :]:
                member.consumer.store_offsets(message=message)
            seen[number] = len(member.messages)
        found = {(m.partition(), m.offset()) for member in members for m in member.messages}
        return len(found) >= writer.written

    read_until(members, all_read, "keys are not handed over")


# -- patterns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [pytest.param("release", marks=pytest.mark.long), "delete"])
def test_a_topic_of_a_pattern_may_go_long_before_the_next_look(room: Room, topic_name: str, way: str) -> None:
    stays = written_through(room.cluster, f"{topic_name}-stays", 1)
    goes = written_through(room.cluster, f"{topic_name}-goes", 2)
    member = room.member(**{"topic.metadata.refresh.interval.ms": 3_600_000})
    member.consumer.subscribe([f"^{topic_name}-"])
    all_of(member, stays.written + goes.written)
    member.consumer.commit()
    with ControllerClient(room.cluster.controller_url) as controller:
        if way == "release":
            controller.release_topic(goes.topic, ReleaseTopicRequest())
        else:
            controller.delete_topic(goes.topic)

    def is_gone() -> bool:
        return {one.topic for one in member.consumer.assignment()} == {stays.topic}

    read_until([member], is_gone, "the topic is still assigned")
    stays.write()
    read_until([member], lambda: distinct([member]) == stays.written + goes.written, "the other topic")
    with ControllerClient(room.cluster.controller_url) as controller:
        controller.delete_topic(stays.topic)
    read_until([member], lambda: member.consumer.assignment() == [], "the last topic is still assigned")


def test_topics_that_match_a_pattern_join_and_go(room: Room, topic_name: str) -> None:
    member = room.member(**{"topic.metadata.refresh.interval.ms": 200})
    member.consumer.subscribe([f"^{topic_name}-[a-c]", f"^{topic_name}-x$"])
    assert idle(member, 5) == []
    written = 0
    for name in ("b", "d", "x", "xy"):
        topic = create(room.cluster, f"{topic_name}-{name}", 2)
        writer = NumberedWriter(room.cluster, topic, keys=3)
        writer.write()
        if name in ("b", "x"):
            written += writer.written
            all_of(member, written)
    assert {one.topic for one in member.consumer.assignment()} == {f"{topic_name}-b", f"{topic_name}-x"}
    assert len(member.messages) == written
    with ControllerClient(room.cluster.controller_url) as controller:
        controller.delete_topic(f"{topic_name}-b")

    def only_x() -> bool:
        return {one.topic for one in member.consumer.assignment()} == {f"{topic_name}-x"}

    read_until([member], only_x, "the deleted topic is still assigned")
    writer = NumberedWriter(room.cluster, f"{topic_name}-x", keys=3, first=100)
    writer.write()
    all_of(member, written + writer.written)


# -- the rest -----------------------------------------------------------------------------------------------


def test_what_brokers_are_asked(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    begun = int(time.time() * 1000)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    # The last offset is that of the transaction's marker.
    await_stable(room.cluster, topic_name)
    consumer = room.member().consumer
    assert consumer.get_watermark_offsets(TopicPartition(topic_name, 0)) == (0, 101)
    (found,) = consumer.offsets_for_times([at(topic_name, 0, begun)], timeout=TIMEOUT)
    assert found.offset == 0
    (found,) = consumer.offsets_for_times([at(topic_name, 0, begun + 3_600_000)])
    assert found.offset == -1
    assert list(consumer.list_topics(topic_name).topics) == [topic_name]
    assert topic_name in consumer.list_topics(timeout=TIMEOUT).topics
    with ControllerClient(room.cluster.controller_url) as controller:
        assert consumer.cluster_id() == controller.topic(topic_name).cluster_id


class Keeping(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, said: list[logging.LogRecord]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record)


def keeping(name: str) -> tuple[logging.Logger, list[logging.LogRecord]]:
    """A logger, and where it keeps what is said."""
    said: list[logging.LogRecord] = []
    logger = logging.getLogger(f"mine.{name}")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Keeping(said))
    return logger, said


def test_callbacks_are_called_while_polling(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    statistics: list[str] = []
    logger, said = keeping(topic_name)
    options = conf(room.cluster, room.group, debug="generic") | {"stats_cb": statistics.append}
    more: dict[str, Any] = {"statistics.interval.ms": 50, "logger": logger, "client.id": "me"}
    with OrderedConsumer(options, **more) as consumer:
        consumer.subscribe([topic_name])
        member = Member(consumer)
        read_until([member], lambda: len(statistics) > 1 and bool(said), "nothing was said")
    assert json.loads(statistics[0])["client_id"] == "me"


@pytest.mark.parametrize(
    "name",
    [pytest.param("metadata.max.age.ms", marks=pytest.mark.long), "topic.metadata.refresh.interval.ms"],
)
def test_what_is_known_of_a_topic_may_be_old(room: Room, topic_name: str, name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    logger, said = keeping(topic_name)
    options = conf(room.cluster, room.group, debug="topic") | {name: 3_600_000, "logger": logger}
    with OrderedConsumer(options) as consumer:
        consumer.subscribe([topic_name])
        member = Member(consumer)
        all_of(member, writer.written)
        # librdkafka looks every second at what it knows.
        assert idle(member, 50) == []
    assert said
    assert [line for line in said if "timed out" in line.getMessage()] == []


def test_a_token_is_asked_for(cluster: LocalCluster) -> None:
    asked: list[str] = []

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        return "token", time.time() + 3600

    options = conf(cluster, "nobody") | {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "principal=me",
        "oauth_cb": token,
    }
    with OrderedConsumer(options) as consumer:
        deadline = time.monotonic() + TIMEOUT
        while not asked and time.monotonic() < deadline:
            consumer.poll(0.05)
    assert set(asked) == {"principal=me"}


def test_an_error_is_told_while_no_broker_answers(cluster: LocalCluster) -> None:
    errors: list[KafkaError] = []
    options = conf(cluster, "nobody") | {"bootstrap.servers": "127.0.0.1:1", "error_cb": errors.append}
    with OrderedConsumer(**options) as consumer:
        deadline = time.monotonic() + TIMEOUT
        while not errors and time.monotonic() < deadline:
            assert consumer.poll(0.05) is None
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=0.05)
    assert {error.code() for error in errors} & {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


def test_all_that_is_wrong_is_said_at_once(cluster: LocalCluster) -> None:
    options = conf(cluster, "g") | {
        "max.poll.records": 500,
        "group.protocol": "consumer",
        "no.such.name": 1,
        "fetch.max.wait.ms": 70,
        "auto.offset.reset": "yesterday",
        "sasl.jaas.config": "nonsense",
    }
    with pytest.raises(ConfigErrors) as caught:
        OrderedConsumer(options)
    wrong = {error.option for error in caught.value.errors}
    assert wrong == {
        "max.poll.records",
        "group.protocol",
        "no.such.name",
        "auto.offset.reset",
        "sasl.jaas.config",
    }
