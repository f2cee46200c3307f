"""What is read: several topics, patterns and assignments, on real servers."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.errors import ConfigError, DataLossError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.driven import (
    Stream,
    Writer,
    admin_of,
    batch,
    delete_topic,
    stream,
)
from tests.servers import TIMEOUT
from tests.streams import (
    change,
    create,
    options,
)


def test_topics_that_match_a_pattern_join_a_running_stream(cluster: LocalCluster, topic_name: str) -> None:
    writers = [Writer(cluster, create(cluster, f"{topic_name}-{n}", n), keys=6) for n in (1, 2)]
    create(cluster, f"not-{topic_name}-3", 1)
    writers[0].write()
    source = options(cluster, subscribePattern=f"{topic_name}-[0-9]", startingOffsets="latest")
    with stream(source) as running:
        writers[1].write()
        assert running.catch_up() == writers[1].written
        later = Writer(cluster, create(cluster, f"{topic_name}-3", 1), keys=6)
        Writer(cluster, create(cluster, f"{topic_name}-33", 1)).write()
        later.write()
        change(cluster, later.topic, 2)
        later.write()
        assert running.catch_up() == later.written
        assert running.found.report().violations == 0
        checkpoint = running.start
    for writer in (*writers, later):
        writer.write()
    with stream(source, checkpoint) as restarted:
        assert restarted.catch_up() == 3 * 30
        assert {topic for topic, _, _ in restarted.found.places} == {
            writer.topic for writer in (*writers, later)
        }
    assert len(batch(options(cluster, subscribePattern=f"{topic_name}-[12]")).keys) == 30 + 60 + 30


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["subscribe", "subscribePattern"])
def test_a_topic_that_vanishes(
    cluster: LocalCluster, topic_name: str, strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"{topic_name}-{n}" for n in range(2)]
    writers = [Writer(cluster, create(cluster, name, 1), keys=2) for name in names]
    value = ",".join(names) if strategy == "subscribe" else f"{topic_name}-.*"
    source = options(cluster, startingOffsets="earliest", **{strategy: value})
    for writer in writers:
        writer.write()
    with stream(source) as strict, stream(source | {"failOnDataLoss": "false"}) as lenient:
        assert strict.catch_up() == lenient.catch_up() == 20
        for writer in writers:
            writer.write()
        planned = strict.plan()
        delete_topic(cluster, names[0])
        with pytest.raises(
            DataLossError, match=f"topic '{names[0]}' has vanished.*set failOnDataLoss to false"
        ):
            strict.step()
        assert lenient.catch_up() == 10
        assert {topic for topic, _, _ in lenient.found.places[20:]} == {names[1]}
        before, checkpoint = strict.start, lenient.start
    # A replayed micro-batch may hold what is no more.
    with stream(source | {"failOnDataLoss": "false"}, before) as replaying:
        replaying.read(planned)
        assert {topic for topic, _, _ in replaying.found.places} == {names[1]}
    with stream(source, before) as strict, pytest.raises(DataLossError, match=names[0]):
        strict.read(planned)
    with stream(source | {"failOnDataLoss": "false"}, checkpoint) as restarted:
        writers[1].write()
        assert restarted.catch_up() == 10
        delete_topic(cluster, names[1])
        assert restarted.catch_up() == 0, "it waits when all are gone"
    told = [record.getMessage() for record in caplog.records if "has vanished" in record.getMessage()]
    assert len(told) == 4, told


@pytest.mark.long
def test_an_assignment_of_whole_buckets_is_ordered(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = Writer(cluster, topic_name)
    writer.write()
    change(cluster, topic_name, 4)
    writer.write()
    group = f"group-of-{topic_name}"
    source = options(
        cluster, assign=json.dumps({topic_name: [0, 2]}), startingOffsets="earliest", maxOffsetsPerTrigger=40
    ) | {"kafka.group.id": group}
    with stream(source) as running:
        running.catch_up()
        assert running.found.partitions(topic_name) == {0, 2}
        assert running.found.report().violations == 0
        for count in (6, 2, 5):
            change(cluster, topic_name, count)
            writer.write()
        running.catch_up()
        checkpoint, found = running.start, running.found
        running.reader.commit(checkpoint)
    assert found.partitions(topic_name) == {0, 2, 4}
    writer.write()
    with stream(source, checkpoint) as restarted:
        restarted.found = found
        restarted.catch_up()
    keys = len(set(found.keys))
    assert 0 < keys < writer.keys
    assert found.report(keys * writer.written // writer.keys).violations == 0, found.report()
    admin = admin_of(cluster)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    committed = {tp.partition: tp.offset for tp in asked[group].result(TIMEOUT).topic_partitions}
    assert committed.keys() == {0, 2, 4}
    assert all(offset > 0 for offset in committed.values())
    other = batch(options(cluster, assign=json.dumps({topic_name: [1, 3, 5]})))
    assert {*other.keys} | {*found.keys} == {f"{topic_name} k{n}" for n in range(writer.keys)}
    assert other.report().violations == 0


def test_part_of_a_bucket_is_refused_unless_order_is_given_up(cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = Writer(cluster, topic_name)
    change(cluster, topic_name, 4)
    writer.write()
    source = options(cluster, assign=json.dumps({topic_name: [0, 1, 3]}))
    for read in (Stream, batch):
        with pytest.raises(
            ConfigError, match=f"option assign .*{topic_name}-3': .* no order can be kept: add {topic_name}-2"
        ):
            read(source)
    with stream(source | {"ordering": "none", "startingOffsets": "earliest"}) as running:
        running.catch_up()
        change(cluster, topic_name, 5)
        writer.write()
        running.catch_up()
        assert running.found.partitions(topic_name) == {0, 1, 3}, "it is fixed"
    with pytest.raises(ConfigError, match=f"option assign .*{topic_name}-9': .* has the partitions 0 to 4"):
        batch(options(cluster, assign=json.dumps({topic_name: [9]}), ordering="none"))


def test_any_assignment_of_a_topic_without_order(cluster: LocalCluster, topic_name: str) -> None:
    request = CreateTopicRequest(topic=topic_name, partitions=1, replication_factor=1, ordered_delivery=False)
    with ControllerClient(cluster.controller_url) as controller:
        controller.create_topic(request)
    change(cluster, topic_name, 3)
    Writer(cluster, topic_name).write()
    found = batch(options(cluster, assign=json.dumps({topic_name: [1]})))
    assert found.partitions(topic_name) == {1}
