"""A topic grows while its replicas are moved, and while a broker is down that nobody needs, as with Kafka's own tool."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, errors, in_process, several
from tests.integration.reassigning import PACE, SIZE, Judge, Mover, Row, cleaned
from tests.integration.test_replicas import COUNTS, WAIT, placed
from tests.servers import TIMEOUT, await_true, unique_name


@pytest.fixture(scope="module")
def controller(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers, retire_interval=0.1, retire_replication_factor=1) as running:
        yield running


@contextmanager
def broker_away(cluster: LocalCluster, judge: Judge) -> Iterator[None]:
    cluster.kill("broker-3")
    try:
        judge.await_brokers(1, 2)
        yield
    finally:
        cluster.start("broker-3")
        judge.await_brokers(1, 2, 3)


def adopted(controller: InProcess, judge: Judge, *replicas: list[int], size: int = 0) -> str:
    topic = judge.create(*replicas, size=size)
    answer = controller.http.post(f"/v1/topics/{topic}/adopt", json={"force": True})
    assert answer.status_code == 200, answer.text
    return topic


@contextmanager
def full(controller: InProcess, brokers: list[int]) -> Iterator[None]:
    """Brokers that may take no more replicas, also while those of topics of earlier tests are removed."""

    def limit(broker: int, most: int | None) -> None:
        path = f"/v1/brokers/{broker}/guard-rails"
        assert controller.http.put(path, json={"max_partitions": most}).status_code == 200

    try:
        for broker in brokers:
            limit(broker, 0)
        yield
    finally:
        for broker in brokers:
            limit(broker, None)


def counts(judge: Judge, topic: str) -> list[int]:
    return [len(brokers) for brokers in judge.replicas(topic)]


@pytest.mark.long
def test_it_grows_while_its_replicas_are_moved(controller: InProcess, judge: Judge) -> None:
    topic = adopted(controller, judge, [1], [1], size=SIZE)
    with cleaned(Mover(controller)) as mover:
        request = mover.submit(Row(topic, 0, [2]), Row(topic, 1, [2]), throttle=PACE)
        mover.moving(request)
        item = {"topic": topic, "partition_count": 3}
        assert errors(several(controller, COUNTS, [item], validate_only=True)) == ["NONE"]
        # One that is given its replicas, as any, gets no others.
        for count, given in ((3, {"2": [3]}), (5, None)):
            item = {"topic": topic, "partition_count": count, "assignments": given}
            assert errors(several(controller, COUNTS, [item], **WAIT)) == ["NONE"]
        await_true(lambda: counts(judge, topic) == [2, 2, 1, 1, 1], "one replica of each new partition")
        assert judge.replicas(topic)[2] == (3,)
        assert set(judge.ongoing(topic)) == {0, 1}
        # Where Kafka's condition cannot be met, the request is refused at once, with the reason and what to do.
        with full(controller, [1, 2, 3]):
            item = {"topic": topic, "partition_count": 6}
            ((_, error, message),) = several(controller, COUNTS, [item])
            assert error == "GUARD_RAILS", message
        with full(controller, [1, 2]):
            ((_, error, message),) = several(controller, COUNTS, [item])
            assert error == "REASSIGNMENT_IN_PROGRESS", message
            assert "partition 0, 1" in message
            assert "wait for the end of the reassignment, or cancel it" in message
        mover.throttle(request, throttle=None)
        mover.ended(request)
    await_true(lambda: judge.replicas(topic)[:2] == [(2,), (2,)], "the moves have ended")


@pytest.mark.long
def test_it_grows_while_its_replicas_wait_for_a_broker(three_brokers: LocalCluster, judge: Judge) -> None:
    """Also where the controller dies between the creation of partitions and the reduction of their replicas."""
    chroot = unique_name("growing")
    with in_process(three_brokers, chroot=chroot) as first:
        topic = adopted(first, judge, [1], [1])
        with broker_away(three_brokers, judge):
            judge.reassignments.start(topic, {0: [3], 1: [3]})
            judge.await_replicas(topic, [(3, 1), (3, 1)])
            died = threading.Event()

            def dies(instruction: p.Instruction) -> None:
                if isinstance(instruction, p.CreatePartitions):
                    died.set()
                    raise DeposedError

            first.before = dies
            item = {"topic": topic, "partition_count": 4}
            assert errors(several(first, COUNTS, [item])) == ["NONE"]
            assert died.wait(TIMEOUT)
            first.service.stop()
            # What it leaves when it has created partitions with as many replicas as Kafka demands, and dies then.
            admin = AdminClient({"bootstrap.servers": three_brokers.bootstrap_servers})
            new = NewPartitions(topic, 4, replica_assignment=[[2, 1], [1, 2]])
            admin.create_partitions([new])[topic].result(TIMEOUT)
            with in_process(three_brokers, chroot=chroot) as second:
                assert second.await_end(topic).outcome == "done"
            judge.await_replicas(topic, [(3, 1), (3, 1), (2,), (1,)])
    judge.await_replicas(topic, [(3,), (3,), (2,), (1,)])


@pytest.mark.long
def test_a_broker_that_is_down_keeps_no_topic_from_growing(
    three_brokers: LocalCluster, controller: InProcess, judge: Judge
) -> None:
    topic = placed(controller, 1, 2, 3)
    item = {"topic": topic, "partition_count": 2, "assignments": {"1": [2, 1, 3]}}
    assert errors(several(controller, COUNTS, [item], **WAIT)) == ["NONE"]
    assert controller.alter(topic, 1).error == "NONE"
    judge.await_replicas(topic, [(1, 2, 3), (2,)])
    with broker_away(three_brokers, judge):
        for count in (2, 4):
            result = controller.alter(topic, count)
            assert result.error == "NONE", result
        await_true(lambda: counts(judge, topic) == [3] * 4, "as many replicas of each")
        assert min(judge.leaders(topic)) >= 0
        in_sync = [{1, 2}] * 4
        await_true(lambda: judge.in_sync(topic) == in_sync, "what is up is in sync")
    await_true(
        lambda: judge.in_sync(topic) == [{1, 2, 3}] * 4, "the broker that is back is, too", 2 * TIMEOUT
    )
