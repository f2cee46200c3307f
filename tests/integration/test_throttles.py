"""Throttles on three real brokers: confluent-kafka's AdminClient says what Kafka has."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Producer

from spark_ordered_kafka.controller.reassign.throttle.policy import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    Need,
)
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.throttling import (
    Changes,
    Controller,
    DiedError,
    Operator,
    both,
    controller,
    eventually,
    move,
    plus,
)
from tests.servers import TIMEOUT, unique_name


@pytest.fixture
def operator(three_brokers: LocalCluster) -> Iterator[Operator]:
    """What is set for brokers is taken back at the end."""
    operator = Operator(three_brokers)
    before = operator.configs()
    yield operator
    for name, values in operator.configs().items():
        if values != before[name]:
            operator.set(int(name), {**dict.fromkeys(values), **before[name]})


@pytest.fixture(scope="module")
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


@pytest.fixture
def tree(three_brokers: LocalCluster) -> str:
    """ZooKeeper, below a znode of the test's own."""
    return f"{three_brokers.zookeeper}/{unique_name('throttles')}"


def test_everybodys_values_come_back_exactly(operator: Operator, admin: KafkaAdmin, tree: str) -> None:
    mine, listed, all_ = operator.create([1, 2], [2, 3]), operator.create([1]), operator.create([1])
    operator.set(1, {LEADER_RATE: "7777777"})
    operator.set(3, {LOG_DIRS_RATE: "9999999"})
    operator.set(listed, {LEADER_REPLICAS: "5:1, 0:1,4:3", "retention.ms": "12345678", FOLLOWER_REPLICAS: ""})
    operator.set(all_, {LEADER_REPLICAS: "*"})
    before = operator.configs(mine, listed, all_)
    placed = Move(
        topic=mine,
        partition=1,
        before=(2, 3),
        after=(2, 3),
        before_log_dirs=("/a", "/a"),
        after_log_dirs=(None, "/b"),
    )
    moves = (
        move(mine, 0, (1, 2), (3, 2)),
        placed,
        move(listed, 0, (1,), (2,)),
        move(all_, 0, (1,), (2,)),
        move("no-such-topic", 0, (1,), (2,)),
    )
    with controller(tree, admin) as running:
        assert running.reconcile({1: Need(None, None, moves)}) == []
        assert operator.configs(mine, listed, all_) == before
        assert not running.recorded()

        during = plus(
            before,
            {
                1: both(5_000_000),
                2: both(5_000_000),
                3: both(5_000_000) | {LOG_DIRS_RATE: "6000000"},
                mine: {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
                listed: {LEADER_REPLICAS: "5:1,0:1,4:3", FOLLOWER_REPLICAS: "0:2"},
                all_: {FOLLOWER_REPLICAS: "0:2"},
            },
        )
        for _ in range(2):
            assert running.reconcile({1: Need(5_000_000, 6_000_000, moves)}) == []
            assert not running.throttles.unfinished
            assert running.recorded()
            # Any broker may be asked for topics: they learn of it one after another.
            eventually(lambda: operator.configs(mine, listed, all_) == during)
        assert running.reconcile({}) == []
        eventually(lambda: operator.configs(mine, listed, all_) == before)
        assert not running.recorded()
        assert not running.throttles.unfinished


@pytest.mark.long
def test_several_requests_and_throttles_that_change(operator: Operator, admin: KafkaAdmin, tree: str) -> None:
    topic = operator.create([1], [2])
    before = operator.configs(topic)
    first, second = (move(topic, 0, (1,), (2,)),), (move(topic, 1, (2,), (3,)),)
    one: Changes = {topic: {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:2"}}
    two: Changes = {topic: {LEADER_REPLICAS: "0:1,1:2", FOLLOWER_REPLICAS: "0:2,1:3"}}
    with controller(tree, admin) as running:

        def comes_to(needs: Mapping[int, Need], changes: Changes) -> None:
            assert running.reconcile(needs) == []
            eventually(lambda: operator.configs(topic) == plus(before, changes))

        comes_to({1: Need(100_000, None, first)}, {1: both(100_000), 2: both(100_000), **one})
        both_run = {1: Need(100_000, None, first), 2: Need(200_000, None, second)}
        comes_to(both_run, {1: both(100_000), 2: both(200_000), 3: both(200_000), **two})
        both_run[1] = Need(300_000, None, first)
        comes_to(both_run, {1: both(300_000), 2: both(200_000), 3: both(200_000), **two})
        both_run[2] = Need(None, None, second)
        comes_to(both_run, {1: both(300_000), 2: both(300_000), **one})
        both_run[2] = Need(400_000, None, second)
        comes_to(both_run, {1: both(300_000), 2: both(400_000), 3: both(400_000), **two})
        comes_to(
            {2: both_run[2]},
            {2: both(400_000), 3: both(400_000), topic: {LEADER_REPLICAS: "1:2", FOLLOWER_REPLICAS: "1:3"}},
        )
        comes_to({}, {})
        comes_to({3: Need(500_000, None, first)}, {1: both(500_000), 2: both(500_000), **one})
        comes_to({}, {})
        assert not running.recorded()


def test_what_an_operator_changes_meanwhile_stays(operator: Operator, admin: KafkaAdmin, tree: str) -> None:
    topic = operator.create([1])
    clean = operator.configs(topic)
    operator.set(1, {FOLLOWER_RATE: "123456"})
    needs = {1: Need(100_000, None, (move(topic, 0, (1,), (2,)),))}
    with controller(tree, admin) as running:
        running.reconcile(needs)
        theirs: Changes = {
            1: {LEADER_RATE: "222222", FOLLOWER_RATE: None},
            topic: {FOLLOWER_REPLICAS: "*"},
        }
        for resource, values in theirs.items():
            operator.set(resource, values)
        during = operator.configs(topic)
        assert during["2"] == clean["2"] | both(100_000)
        running.clock.ahead += 60
        warnings = running.reconcile(needs)
        assert sorted(warnings) == [
            f"{FOLLOWER_RATE} of broker 1 was changed by somebody else, and stays deleted",
            f"{FOLLOWER_REPLICAS} of topic {topic} was changed by somebody else, and stays *",
            f"{LEADER_RATE} of broker 1 was changed by somebody else, and stays 222222",
        ]
        assert running.reconcile(needs) == warnings
        # Another rate is for what is still ours.
        needs[1] = Need(300_000, None, needs[1].moves)
        assert running.reconcile(needs) == warnings
        eventually(lambda: operator.configs(topic) == plus(during, {2: both(300_000)}))
        assert running.reconcile({}) == []
        eventually(lambda: operator.configs(topic) == plus(clean, theirs))
        assert not running.recorded()


@pytest.mark.parametrize("dies", ["before", "after", "later"])
def test_what_a_dead_controller_left_is_swept(
    operator: Operator, admin: KafkaAdmin, tree: str, dies: str
) -> None:
    topic = operator.create([1])
    operator.set(2, {FOLLOWER_RATE: "123456"})
    before = operator.configs(topic)
    during = plus(
        before,
        {
            1: both(100_000),
            2: both(100_000),
            topic: {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:2"},
        },
    )
    needs = {1: Need(100_000, None, (move(topic, 0, (1,), (2,)),))}

    def dies_at(running: Controller, asked: Mapping[int, Need]) -> None:
        running.throttles.dies = dies
        if dies == "later":
            running.reconcile(asked)
            return
        with pytest.raises(DiedError):
            running.reconcile(asked)

    with controller(tree, admin) as first:
        dies_at(first, needs)
        assert first.recorded()
        eventually(lambda: operator.configs(topic) == (before if dies == "before" else during))
    with controller(tree, admin) as second:
        second.reconcile(needs)
        eventually(lambda: operator.configs(topic) == during)
        dies_at(second, {})
    with controller(tree, admin) as third:
        assert third.reconcile({}) == []
        eventually(lambda: operator.configs(topic) == before)
        assert not third.recorded()


@pytest.mark.long
def test_a_broker_that_is_down_gets_its_own_value_back_later(
    operator: Operator, admin: KafkaAdmin, tree: str, three_brokers: LocalCluster
) -> None:
    topic, doomed = operator.create([1], [2]), operator.create([1])
    clean = operator.configs(topic)
    operator.set(3, {LEADER_RATE: "7777777"})
    before = operator.configs(topic)
    moves = (move(topic, 0, (1,), (3,)), move(topic, 1, (2,), (1,)), move(doomed, 0, (1,), (3,)))
    needs = {1: Need(100_000, None, moves)}
    told = [
        "broker 3 does not answer (BROKER_NOT_AVAILABLE): its throttles are set, or put back, as soon as it does"
    ]
    with controller(tree, admin) as running:
        assert running.reconcile(needs) == []
        operator.admin.delete_topics([doomed])[doomed].result(TIMEOUT)
        three_brokers.kill("broker-3")
        try:
            eventually(lambda: {broker.id for broker in admin.brokers()} == {1, 2})
            # It cannot be told of another rate, the others can.
            needs[1] = Need(200_000, None, moves)
            assert running.reconcile(needs) == told
            alive = operator.configs(topic, brokers=(1, 2))
            assert alive["1"] == alive["2"] == both(200_000)
            assert running.reconcile({}) == told
            assert running.throttles.unfinished
            eventually(
                lambda: operator.configs(topic, brokers=(1, 2)) == {n: clean[n] for n in ("1", "2", topic)}
            )
            assert running.recorded()
        finally:
            three_brokers.start("broker-3")

        def finished() -> bool:
            running.reconcile({})
            return not running.throttles.unfinished

        eventually(finished)
        assert not running.recorded()
        eventually(lambda: operator.configs(topic) == before)


def test_long_lists(operator: Operator, admin: KafkaAdmin, tree: str) -> None:
    """Kafka takes the longest list that is sent, and ``*`` where it would be longer."""
    topic = operator.create([1])
    before = operator.configs(topic)
    many = tuple(
        Move(topic=topic, partition=partition, before=(1,), after=(2, 3), state="moving")
        for partition in range(10_000)
    )
    with controller(tree, admin) as running:
        everything = {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}
        running.reconcile({1: Need(10**9, None, many)})
        eventually(lambda: operator.configs(topic)[topic] == before[topic] | everything)
        running.reconcile({1: Need(10**9, None, many), 2: Need(10**9, None, many[:1])})
        running.reconcile({1: Need(10**9, None, many[:4800])})
        longest = {LEADER_REPLICAS: ",".join(f"{partition}:1" for partition in range(4800))}
        eventually(lambda: operator.configs(topic)[topic] == before[topic] | everything | longest)
        running.reconcile({})
        eventually(lambda: operator.configs(topic) == before)


@pytest.mark.long
def test_a_throttled_reassignment_is_slow(operator: Operator, admin: KafkaAdmin, tree: str) -> None:
    rate, seconds = 1_000_000, 4.0
    topic = operator.create([1])
    producer = Producer({"bootstrap.servers": ",".join(f"{b.host}:{b.port}" for b in admin.brokers())})
    # Twenty-four seconds at that rate: a test that stands still for some of them still finds it under way.
    for _ in range(480):
        producer.produce(topic, os.urandom(50_000))
    assert producer.flush(TIMEOUT) == 0
    log_dirs = LogDirs(admin.requests, timeout=TIMEOUT)
    reassignments = Reassignments(admin.requests, timeout=TIMEOUT)

    def copied() -> int:
        dirs = log_dirs.describe([2], {topic: [0]})[2]
        assert isinstance(dirs, list)
        return sum(replica.size for one in dirs for replica in one.replicas)

    needs = {1: Need(rate, None, (move(topic, 0, (1,), (2,)),))}
    with controller(tree, admin) as running:
        running.reconcile(needs)
        started = time.monotonic()
        assert reassignments.alter({(topic, 0): [2]}) == {}
        while time.monotonic() < started + seconds or copied() == 0:
            assert time.monotonic() < started + TIMEOUT, "nothing is copied"
            time.sleep(0.2)
        size = copied()
        assert 0 < size < 2 * rate * (time.monotonic() - started)
        assert reassignments.all_ongoing()[topic, 0].adding == (2,)
        running.reconcile({})
        eventually(lambda: (topic, 0) not in reassignments.all_ongoing())
        assert copied() > 24_000_000
