"""What a client says of a topic, or of itself, once an error has ended it for good: to all who ask, and without growing."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import RequestError
from tests.integration.members import Room
from tests.integration.producing import values
from tests.integration.test_confluent_producer import delete
from tests.servers import TIMEOUT
from tests.streams import conf, create


def depth_of(kind: type[Exception], call: Callable[[], object]) -> int:
    """Through how many frames the error came that ``call`` raises."""
    with pytest.raises(kind) as caught:
        call()
    return len(list(traceback.walk_tb(caught.value.__traceback__)))


def test_the_other_topics_are_flushed_and_committed_after_an_abort(room: Room, topic_name: str) -> None:
    """A topic of many is deleted: the records that it lost are named until the application drops them by abort()."""
    gone = create(room.cluster, f"{topic_name}-gone", 1)
    create(room.cluster, topic_name, 1)
    with OrderedProducer(conf(room.cluster)) as producer:
        for topic in (gone, topic_name):
            producer.produce(topic, "1", "k")
        assert producer.flush(TIMEOUT) == 0
        delete(room.cluster, gone)
        for topic in (gone, topic_name):
            producer.produce(topic, "2", "k")
        for call in (producer.flush, producer.commit, producer.flush):
            with pytest.raises(RequestError, match=f"UNKNOWN_TOPIC.*{gone}"):
                call(TIMEOUT)
        producer.abort()
        producer.produce(topic_name, "3", "k")
        assert producer.flush(TIMEOUT) == 0
        producer.commit(TIMEOUT)
        with pytest.raises(RequestError, match=f"UNKNOWN_TOPIC.*{gone}"):
            producer.produce(gone, "3", "k")
        assert producer.flush(TIMEOUT) == 0
    assert values(room.cluster, topic_name) == [b"1", b"2", b"3"]


def test_an_error_of_a_producer_is_raised_again_without_its_earlier_frames(
    room: Room, topic_name: str
) -> None:
    create(room.cluster, topic_name, 1)
    with OrderedProducer(conf(room.cluster)) as producer:
        producer.produce(topic_name, "1", "k")
        delete(room.cluster, topic_name)

        def write_again() -> None:
            producer.produce(topic_name, "2", "k")
            producer.flush(TIMEOUT)

        # The first record may have been committed before.
        with pytest.raises(RequestError):
            write_again()
        for call in (lambda: producer.flush(TIMEOUT), lambda: producer.produce(topic_name, "3", "k")):
            depths = [depth_of(RequestError, call) for _ in range(5)]
            assert depths == depths[:1] * 5


def test_an_error_of_a_consumer_is_raised_again_without_its_earlier_frames(
    room: Room, topic_name: str
) -> None:
    def refuse(_: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError(str(partitions))

    create(room.cluster, topic_name, 1)
    consumer = room.member().consumer
    consumer.subscribe([topic_name], on_assign=refuse)
    depth_of(ZeroDivisionError, lambda: consumer.poll(TIMEOUT))
    depths = [depth_of(ZeroDivisionError, lambda: consumer.poll(TIMEOUT)) for _ in range(5)]
    assert depths == depths[:1] * 5
