"""A change that is refused because something else writes to the topic: nothing is created, nothing is hidden."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import Hold, InProcess, in_process
from tests.integration.foreign_clients import RunningProducer
from tests.servers import TIMEOUT, await_true, create_topic, unique_name


def kafka_partitions(cluster: LocalCluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return len(admin.list_topics(topic, TIMEOUT).topics[topic].partitions)


def adopted(controller: InProcess, cluster: LocalCluster, partitions: int) -> str:
    topic = create_topic(cluster.bootstrap_servers, unique_name("foreign"), partitions)
    answer = controller.http.post(f"/v1/topics/{topic}/adopt", json={"hash": "murmur2", "force": True})
    assert answer.status_code in (200, 201), answer.text
    return topic


@pytest.mark.parametrize("target", [5, 2], ids=["expand", "shrink"])
def test_a_running_producer_refuses_a_change_before_anything_is_done_to_kafka(
    controller: InProcess, kafka_cluster: LocalCluster, target: int
) -> None:
    topic = adopted(controller, kafka_cluster, 3)
    if target < 3:
        topic = controller.create(2)
        assert controller.alter(topic, 3).error == "NONE"
    steps: list[type] = []
    with RunningProducer(kafka_cluster, topic) as foreign:
        foreign.await_written(10)
        controller.before = lambda instruction: steps.append(type(instruction))
        for fields in ({"validate_only": True}, {}):
            result = controller.alter(topic, target, **fields)
            assert result.error == "ACTIVE_FOREIGN_PRODUCERS"
            told = result.error_message or ""
            assert "a producer without idempotence has just written offset" in told
            assert "stop that producer, or use force" in told
        assert ("nothing was changed in Kafka" in told) == (target > 3)
        assert set(steps) == {p.DetectForeignProducers, p.RollBack, p.Finish}
        foreign.await_written(10)
        assert kafka_partitions(kafka_cluster, topic) == 3
    assert foreign.partitions == {0, 1, 2}
    # The advice works: it has stopped.
    assert controller.alter(topic, target).error == "NONE"
    assert controller.topic(topic).undeleted_partition_count == target


def test_force_goes_on_beside_a_running_producer(controller: InProcess, kafka_cluster: LocalCluster) -> None:
    topic = adopted(controller, kafka_cluster, 3)
    with RunningProducer(kafka_cluster, topic) as foreign:
        foreign.await_written(5)
        assert controller.alter(topic, 4, force=True).error == "NONE"


@pytest.mark.parametrize("pause", [0.0, 0.2], ids=["many records", "five a second"])
def test_a_producer_that_begins_later_leaves_partitions_that_the_error_names_and_a_layout_covers(
    kafka_cluster: LocalCluster, pause: float
) -> None:
    with in_process(kafka_cluster, retire_interval=0.2) as controller:
        refuse_late(controller, kafka_cluster, pause)


def refuse_late(controller: InProcess, kafka_cluster: LocalCluster, pause: float) -> None:
    topic = controller.create(3)
    with Hold(p.Persist) as hold, ThreadPoolExecutor() as pool:
        controller.before = hold
        change = pool.submit(controller.alter, topic, 5)
        hold.await_reached()  # the look is over
        with RunningProducer(kafka_cluster, topic, pause) as foreign:
            foreign.await_written(3)
            hold.release()
            result = change.result(TIMEOUT)
            assert result.error == "ACTIVE_FOREIGN_PRODUCERS"
            assert "Kafka has 5 partitions by now, 2 more than before" in (result.error_message or "")
            foreign.await_written(10)
    await_true(lambda: len(controller.layout(topic).layouts) == 2, "a covering layout")
    layouts = controller.layout(topic).layouts
    assert [(one.undeleted_partition_count, len(one.starts)) for one in layouts] == [(3, 3), (3, 5)]
    assert layouts[1].stray_from == 3
