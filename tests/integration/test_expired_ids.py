"""Writers whose transactional and producer ids brokers have forgotten, as after a week in which nothing was written."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests.other_brokers import SETTINGS
from tests.servers import TIMEOUT, await_true, transaction_states
from tests.streams import conf, create, options, records_in_order

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Servers that forget within seconds."""
    directory = tmp_path_factory.mktemp("forgetful")
    with LocalCluster(directory, controllers=1, broker_config=dict(SETTINGS["expiring"])) as cluster:
        yield cluster


@pytest.fixture
def fencer(forgetful: LocalCluster) -> Iterator[Fencer]:
    admin = KafkaAdmin(forgetful.bootstrap_servers, timeout=TIMEOUT)
    yield Fencer(admin)
    admin.close()


def await_forgotten(fencer: Fencer, topic: str) -> None:
    """Wait until the brokers know no ordered writer of the topic any more."""

    def is_forgotten() -> bool:
        return not transaction_states(fencer, f"ordered:{topic}:", time.monotonic() + TIMEOUT)

    await_true(is_forgotten, f"the ids of writers of {topic} expire")


def values(cluster: LocalCluster, topic: str) -> list[bytes]:
    return sorted(message.value() or b"" for message in records_in_order(cluster, topic))


@pytest.mark.parametrize("interval", [100, 0])
def test_a_producer_writes_on(
    forgetful: LocalCluster, fencer: Fencer, topic_name: str, interval: int
) -> None:
    """One that has something in its queue by then, and one that has not."""
    create(forgetful, topic_name, 2)
    with OrderedProducer(conf(forgetful, commit_interval_ms=interval)) as producer:
        for number in range(0, 40, 10):
            for one in range(number, number + 10):
                producer.produce(topic_name, str(one), f"key {one % 3}")
                if one == number + 5 and number:
                    await_forgotten(fencer, topic_name)
            producer.commit()
    assert values(forgetful, topic_name) == sorted(str(one).encode() for one in range(40))


def test_what_was_read_is_written_once(forgetful: LocalCluster, fencer: Fencer, topic_name: str) -> None:
    """A member that copies exactly once, and has had nothing to read for a week."""
    copy = f"{topic_name}-copy"
    for topic in (topic_name, copy):
        create(forgetful, topic, 2)
    reading = conf(forgetful) | {"group.id": topic_name, "auto.offset.reset": "earliest"}
    with (
        OrderedProducer(conf(forgetful)) as source,
        OrderedProducer(conf(forgetful, commit_interval_ms=0)) as target,
        OrderedConsumer(reading | {"enable.auto.commit": "false"}) as member,
    ):
        member.subscribe([topic_name])
        for round_ in range(3):
            for one in range(10):
                source.produce(topic_name, f"{round_} {one}", f"key {one % 3}")
            source.flush()
            copied = 0

            def copy_some() -> bool:
                nonlocal copied
                messages = member.consume(10, 0.5)
                for message in messages:
                    target.produce(copy, message.value(), message.key())
                target.send_offsets(member)
                target.commit()
                copied += len(messages)
                return copied == 10

            await_true(copy_some, "ten records are copied")
            if round_ < 2:
                await_forgotten(fencer, copy)
    assert values(forgetful, copy) == values(forgetful, topic_name)


def test_a_query_writes_on(
    forgetful: LocalCluster, fencer: Fencer, topic_name: str, spark: SparkSession
) -> None:
    """The workers of Spark keep the producers of a write for the next one."""
    create(forgetful, topic_name, 2)
    for number in range(3):
        if number:
            await_forgotten(fencer, topic_name)
        rows = spark.range(10 * number, 10 * number + 10).selectExpr(
            "cast(id % 3 as string) AS key", "cast(id as string) AS value"
        )
        rows.write.format("ordered-kafka").options(**options(forgetful, topic=topic_name)).mode(
            "append"
        ).save()
    assert values(forgetful, topic_name) == sorted(str(one).encode() for one in range(30))
