"""Brokers that are set up anew at the same addresses, as another cluster, while controllers and clients run on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.state import FILE_NAME
from tests import streams
from tests.integration.members import Member, conf, read_until
from tests.integration.test_cli_topics import Cli
from tests.servers import await_true, unique_name
from tests.streams import FORMAT, options

_NEW_ID = "AAAAAAAAAAAAAAAAAAAAAg"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("anew"), controllers=2) as cluster:
        yield cluster


def set_up_anew(cluster: LocalCluster) -> None:
    """Take the broker's data away, and give it another cluster's id."""
    cluster.kill("broker-1")
    for data in ("data-1", "data-2", "metadata"):
        shutil.rmtree(cluster.directory / "broker-1" / data)
    state = cluster.directory / FILE_NAME
    state.write_text(json.dumps(json.loads(state.read_text()) | {"cluster_id": _NEW_ID}))
    cluster.start("broker-1")


def write(producer: OrderedProducer, topic: str) -> None:
    for number in range(200):
        producer.produce(topic, f"{number % 7}:{number // 7}", str(number % 7))
    assert producer.flush(30) == 0


def read(cluster: LocalCluster, topic: str) -> None:
    with OrderedConsumer(conf(cluster, unique_name("group"))) as consumer:
        consumer.subscribe([topic])
        member = Member(consumer)
        read_until([member], lambda: len(member.messages) >= 200, "all are delivered")
        assert streams.judged(member.messages, 200).violations == 0


def copy(spark: SparkSession, cluster: LocalCluster, source: str, target: str) -> None:
    rows = spark.read.format(FORMAT).options(**options(cluster, subscribe=source)).load()
    rows.select("key", "value").write.format(FORMAT).options(**options(cluster, topic=target)).mode(
        "append"
    ).save()


def has_met(client: ControllerClient, topic: str) -> bool:
    """Whether the controller knows which cluster it manages now: its own client of Kafka asks for that by itself."""
    return client.layout(topic).cluster_id == _NEW_ID


def test_what_runs_on_takes_the_new_cluster_for_what_it_is(
    brokers: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    names = [f"{topic_name}-{name}" for name in ("gone", "source", "target")]
    gone, source, target = names
    clients = [ControllerClient(url) for url in brokers.controller_url.split(",")]
    cli = Cli(brokers.controller_url)
    for name in names:
        streams.create(brokers, name, 2)
    with OrderedProducer(streams.conf(brokers)) as producer:
        write(producer, source)
        copy(spark, brokers, source, target)
        set_up_anew(brokers)
        for name in (source, target):
            with pytest.raises(
                RequestError, match="is under management but not in Kafka any more"
            ) as missing:
                clients[0].topic(name)
            assert missing.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            streams.create(brokers, name, 3)

        for client in clients:
            await_true(partial(has_met, client, source), "the new cluster's id")
            assert client.topic(target).cluster_id == _NEW_ID
            client.close()
        write(producer, target)
    read(brokers, target)
    copy(spark, brokers, target, source)
    read(brokers, source)

    shown = cli("topics", "describe", "--topic", gone)
    assert shown[0] == 1
    assert f"topic '{gone}' is under management but not in Kafka any more" in shown[2]
    code, out, told = cli("topics", "describe", "--topic", f"{topic_name}-.*")
    assert (code, out.count("  partitions 3  "), f"topic '{gone}' is under" in told) == (1, 2, True), (
        out,
        told,
    )
    assert cli("topics", "describe", "--topic", gone, "--if-exists")[0] == 0
