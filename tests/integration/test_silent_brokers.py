"""Brokers that keep their connections and answer nothing: calls of clients end all the same."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from confluent_kafka import KafkaError

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.chaos.servers import hanging
from tests.integration.members import Room, committed, read_until
from tests.servers import TIMEOUT, await_true
from tests.streams import conf, create, written_through


def _reading(room: Room, topic: str, **options: object) -> OrderedConsumer:
    """A member that has read everything of a topic, and committed nothing of it."""
    writer = written_through(room.cluster, topic, 2)
    member = room.member(topic, **options)
    read_until([member], lambda: len(member.messages) == writer.written, "not all is read")
    return member.consumer


@pytest.mark.long
@pytest.mark.parametrize("more", [{}, {"group_instance_id": "one"}], ids=["dynamic", "static"])
def test_close_does_not_wait_for_ever(room: Room, topic_name: str, more: dict[str, str]) -> None:
    consumer = _reading(room, topic_name, **more)
    closing = threading.Thread(target=consumer.close, daemon=True)
    with hanging(room.cluster):
        closing.start()
        closing.join(TIMEOUT)
        assert not closing.is_alive()


@pytest.mark.long
def test_polls_do_not_wait_for_ever_and_what_was_processed_is_committed_later(
    room: Room, topic_name: str
) -> None:
    consumer = _reading(room, topic_name, auto_commit_interval_ms=1)
    polled = threading.Event()

    def poll() -> None:
        for _ in range(3):
            consumer.poll(0.1)
        polled.set()

    with hanging(room.cluster):
        threading.Thread(target=poll, daemon=True).start()
        assert polled.wait(TIMEOUT)

    def is_committed() -> bool:
        consumer.poll(0.1)
        return sum(committed(room, topic_name, 2)) > 0

    await_true(is_committed, "what was processed is committed")


@pytest.mark.long
def test_a_commit_says_so_and_succeeds_later(room: Room, topic_name: str) -> None:
    answers: list[KafkaError | None] = []
    consumer = _reading(
        room, topic_name, enable_auto_commit=False, on_commit=lambda error, _: answers.append(error)
    )
    answers.clear()
    with hanging(room.cluster), pytest.raises(UnavailableError, match=room.group):
        consumer.commit()
    assert [error is not None and error.code() for error in answers] == [KafkaError._TIMED_OUT]
    consumer.commit()
    assert answers[1:] == [None]
    assert sum(committed(room, topic_name, 2)) > 0


@pytest.mark.long
@pytest.mark.parametrize("call", ["close", "flush"])
def test_one_ctrl_c_ends_a_producer(cluster: LocalCluster, topic_name: str, call: str) -> None:
    create(cluster, topic_name, 1)
    producer = OrderedProducer(conf(cluster))
    producer.produce(topic_name, "first")
    producer.flush()
    with hanging(cluster):
        producer.produce(topic_name, "late")
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        resuming = threading.Timer(TIMEOUT, cluster.resume, ("broker-1",))
        resuming.start()
        with pytest.raises(KeyboardInterrupt), producer:
            getattr(producer, call)()
        assert resuming.is_alive()
        resuming.cancel()
