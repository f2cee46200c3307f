"""Writers whose transactional and producer ids brokers have forgotten, as after a week in which nothing was written."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.desk import Desk
from tests.integration.producing import values
from tests.other_brokers import SETTINGS
from tests.servers import TIMEOUT, await_true, transaction_states
from tests.streams import conf, create, options

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Servers that forget within seconds."""
    directory = tmp_path_factory.mktemp("forgetful")
    with LocalCluster(directory, controllers=1, broker_config=dict(SETTINGS["expiring"])) as forgetful:
        yield forgetful


@pytest.fixture
def fencer(cluster: LocalCluster) -> Iterator[Fencer]:
    admin = KafkaAdmin(cluster.bootstrap_servers, timeout=TIMEOUT)
    yield Fencer(admin)
    admin.close()


def await_forgotten(fencer: Fencer, topic: str) -> None:
    """Wait until the brokers know no ordered writer of the topic any more."""

    def is_forgotten() -> bool:
        return not transaction_states(fencer, f"ordered:{topic}:", time.monotonic() + TIMEOUT)

    await_true(is_forgotten, f"the ids of writers of {topic} expire")


def check_values(cluster: LocalCluster, topic: str, count: int) -> None:
    """The topic has the numbers below ``count`` once each."""
    assert sorted(int(value or b"") for value in values(cluster, topic)) == list(range(count))


@pytest.mark.parametrize("interval", [100, 0])
def test_a_producer_writes_on(
    cluster: LocalCluster, fencer: Fencer, topic_name: str, interval: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One that has committed what it has by then, and one that has it in its queue."""
    caplog.set_level(logging.INFO)
    create(cluster, topic_name, 2)
    with OrderedProducer(conf(cluster, commit_interval_ms=interval)) as producer:
        for number in range(30):
            producer.produce(topic_name, str(number), f"key {number % 3}")
            if number % 10 == 5:
                await_forgotten(fencer, topic_name)
            elif number % 10 == 9:
                producer.commit()
    check_values(cluster, topic_name, 30)
    assert "INVALID_PRODUCER_ID_MAPPING" in caplog.text, "it wrote under an id that was forgotten"


def test_what_was_read_is_written_once(desk: Desk, fencer: Fencer) -> None:
    """A member that copies exactly once, and has had nothing to read for a week."""
    producer, member = desk.producer(), desk.member()
    desk.copy_rest(producer, member)
    for _ in range(2):
        await_forgotten(fencer, desk.target)
        desk.writer.write()
        desk.copy_rest(producer, member)


def test_a_query_writes_on(
    cluster: LocalCluster, fencer: Fencer, topic_name: str, spark: SparkSession
) -> None:
    """The workers of Spark keep the producers of a write for the next one."""
    create(cluster, topic_name, 2)
    for first in (0, 10, 20):
        await_forgotten(fencer, topic_name)
        rows = spark.range(first, first + 10).selectExpr(
            "cast(id % 3 as string) AS key", "cast(id as string) AS value"
        )
        rows.write.format("ordered-kafka").options(**options(cluster, topic=topic_name)).mode("append").save()
    check_values(cluster, topic_name, 30)
