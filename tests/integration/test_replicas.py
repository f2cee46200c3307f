"""Explicit replicas and replication factors on three brokers, one of which goes down and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import Hold, InProcess, errors, free_port, in_process, served, several
from tests.integration.reassigning import await_brokers, await_placed
from tests.servers import TIMEOUT, await_true, unique_name

COUNTS, FACTORS = "/v1/partition-counts", "/v1/replication-factors"
WAIT = {"params": {"wait": TIMEOUT}}


@pytest.fixture(scope="module")
def controller(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers, retire_interval=0.1, retire_replication_factor=1) as running:
        yield running


def placed(controller: InProcess, *brokers: int) -> str:
    """A topic of one partition with replicas on these brokers."""
    topic = unique_name("placed")
    answer = controller.http.post("/v1/topics", json={"topic": topic, "assignments": {"0": brokers}})
    assert answer.status_code == 201, answer.text
    await_placed(controller.service.admin, topic, [brokers])
    return topic


def replicas(controller: InProcess, topic: str) -> list[list[int]]:
    return [row.replicas for row in controller.topic(topic).partitions]


def await_replicas(controller: InProcess, topic: str, wanted: list[int]) -> None:
    """Wait until partitions have so many replicas."""
    deadline = time.monotonic() + TIMEOUT
    while [len(brokers) for brokers in replicas(controller, topic)] != wanted:
        assert time.monotonic() < deadline, replicas(controller, topic)
        time.sleep(0.05)


def refused(controller: InProcess, path: str, item: dict[str, Any], error: str, words: str) -> None:
    for validate_only in (True, False):
        ((_, found, message),) = several(controller, path, [item], validate_only=validate_only)
        assert found == error, (item, found, message)
        assert words in message


@pytest.mark.long
def test_added_partitions_get_the_replicas_that_are_given(controller: InProcess) -> None:
    topic, other = placed(controller, 3, 1), placed(controller, 3, 1)
    item = {"topic": topic, "partition_count": 3, "assignments": {"1": [2, 3], "2": [1, 2]}}
    plain = {"topic": other, "partition_count": 2}
    rows = several(
        controller, COUNTS, [item, plain, {"topic": "a b", "partition_count": 2}], validate_only=True
    )
    assert errors(rows) == ["NONE", "NONE", "INVALID_TOPIC_EXCEPTION"]
    assert len(replicas(controller, topic)) == 1
    assert errors(several(controller, COUNTS, [item, plain, item], **WAIT)) == [
        "INVALID_REQUEST",
        "NONE",
        "INVALID_REQUEST",
    ]
    assert errors(several(controller, COUNTS, [item], **WAIT)) == ["NONE"]
    await_placed(controller.service.admin, topic, [[3, 1], [2, 3], [1, 2]])

    # Only what Kafka does not have yet is given, also when removed partitions, with fewer replicas, are taken up again.
    assert controller.alter(topic, 1).error == "NONE"
    await_replicas(controller, topic, [2, 1, 1])
    again = {"topic": topic, "partition_count": 4, "assignments": {"3": [1, 3]}}
    refused(
        controller,
        COUNTS,
        {**again, "assignments": {"2": [1, 3], "3": [1, 3]}},
        "INVALID_REPLICA_ASSIGNMENT",
        "3 to 3",
    )
    assert several(controller, COUNTS, [again], **WAIT) == [(topic, "NONE", "")]
    await_true(lambda: replicas(controller, topic)[3:] == [[1, 3]], "the new partition as it was given")


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"assignments": {}}, "INVALID_REPLICA_ASSIGNMENT", "1 to 2"),
        ({"assignments": {"1": [2, 3]}}, "INVALID_REPLICA_ASSIGNMENT", "1 to 2"),
        ({"assignments": {"0": [2, 3], "1": [2, 3], "2": [2, 3]}}, "INVALID_REPLICA_ASSIGNMENT", "1 to 2"),
        ({"assignments": {"1": [2, 3], "2": [2]}}, "INVALID_REPLICA_ASSIGNMENT", "the topic has 2"),
        ({"assignments": {"1": [2, 3], "2": [2, 2]}}, "INVALID_REPLICA_ASSIGNMENT", "distinct"),
        ({"assignments": {"1": [2, 3], "2": [2, 9]}}, "UNKNOWN_MEMBER_ID", "broker 9"),
        ({"assignments": {"1": [2, 3], "2": [2, 10**30]}}, "UNKNOWN_MEMBER_ID", str(10**30)),
        ({"partition_count": 1, "assignments": {"1": [2, 3]}}, "INVALID_PARTITIONS", "already"),
        ({"partition_count": 0}, "INVALID_PARTITIONS", "value 0"),
        ({"partition_count": -1}, "INVALID_PARTITIONS", "value -1"),
        ({"partition_count": 2**31}, "INVALID_PARTITIONS", "at most"),
        ({"partition_count": 10**30}, "INVALID_PARTITIONS", "at most"),
    ],
)
def test_wrong_partition_counts(
    controller: InProcess, two_replicas: str, fields: dict[str, Any], error: str, words: str
) -> None:
    refused(controller, COUNTS, {"topic": two_replicas, "partition_count": 3, **fields}, error, words)


@pytest.fixture(scope="module")
def two_replicas(controller: InProcess) -> str:
    """A topic of one partition with replicas on brokers 3 and 1, which nobody changes."""
    return placed(controller, 3, 1)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({}, "INVALID_REQUEST", "replication_factor or assignments"),
        ({"replication_factor": 2, "assignments": {"0": [1, 2]}}, "INVALID_REQUEST", "one of the two"),
        ({"replication_factor": 0}, "INVALID_REPLICATION_FACTOR", "value 0"),
        ({"replication_factor": -1}, "INVALID_REPLICATION_FACTOR", "value -1"),
        ({"replication_factor": 4}, "INVALID_REPLICATION_FACTOR", "between 1 and 3"),
        ({"replication_factor": 2**31}, "INVALID_REPLICATION_FACTOR", "value 2147483648"),
        ({"replication_factor": 10**30}, "INVALID_REPLICATION_FACTOR", str(10**30)),
        ({"assignments": {}}, "INVALID_REPLICA_ASSIGNMENT", "is empty"),
        ({"assignments": {"1": [1]}}, "INVALID_REPLICA_ASSIGNMENT", "the topic has 0 to 0"),
        ({"assignments": {"0": []}}, "INVALID_REPLICA_ASSIGNMENT", "distinct"),
        ({"assignments": {"0": [1, 1]}}, "INVALID_REPLICA_ASSIGNMENT", "distinct"),
        ({"assignments": {"0": [1, 7]}}, "UNKNOWN_MEMBER_ID", "broker 7"),
        ({"assignments": {"0": [1, -1]}}, "UNKNOWN_MEMBER_ID", "broker -1"),
        ({"topic": "no-such-topic", "replication_factor": 2}, "INVALID_TOPIC_EXCEPTION", "does not exist"),
        ({"topic": "__consumer_offsets", "replication_factor": 2}, "INVALID_TOPIC_EXCEPTION", "internal"),
    ],
)
def test_wrong_replication_factors(
    controller: InProcess, two_replicas: str, fields: dict[str, Any], error: str, words: str
) -> None:
    refused(controller, FACTORS, {"topic": two_replicas, **fields}, error, words)


@pytest.mark.long
def test_replication_factor_up_and_down(controller: InProcess) -> None:
    topic = controller.create(3, replication_factor=1)
    leaders = [brokers[0] for brokers in replicas(controller, topic)]
    item = {"topic": topic, "replication_factor": 3}

    def is_whole(factor: int) -> bool:
        rows = controller.topic(topic).partitions
        return (
            [len(row.replicas) for row in rows] == [factor] * 3
            and [row.replicas[0] for row in rows] == leaders
            and all(set(row.isr) == set(row.replicas) for row in rows)
        )

    for fields in ({"validate_only": True}, {}, {}):  # the third finds nothing left to do
        assert errors(several(controller, FACTORS, [item], **fields, **WAIT)) == ["NONE"]
        # Brokers learn of the end one after another.
        await_true(partial(is_whole, 1 if fields else 3), "replicas behind the same leaders, all in sync")
    # A change that comes after it goes by the new factor.
    assert controller.alter(topic, 5).error == "NONE"
    await_replicas(controller, topic, [3] * 5)
    found = several(
        controller,
        FACTORS,
        [{"topic": topic, "assignments": {str(p): [2, 3] for p in range(5)}}, item, {"topic": "x/y"}],
        **WAIT,
    )
    assert errors(found) == ["INVALID_REQUEST", "INVALID_REQUEST", "INVALID_REQUEST"]
    uneven = {"topic": topic, "assignments": {"4": [2, 3]}}
    refused(controller, FACTORS, uneven, "INVALID_REPLICA_ASSIGNMENT", "all must have as many")
    given = {"topic": topic, "assignments": {str(p): [2, 3] for p in range(5)}}
    assert errors(several(controller, FACTORS, [given], **WAIT)) == ["NONE"]
    await_placed(controller.service.admin, topic, [[2, 3]] * 5)

    # Deleted partitions keep what retire.replication.factor leaves them.
    assert controller.alter(topic, 3).error == "NONE"
    await_replicas(controller, topic, [2, 2, 2, 1, 1])
    assert errors(several(controller, FACTORS, [item], **WAIT)) == ["NONE"]
    await_replicas(controller, topic, [3, 3, 3, 1, 1])


def test_nothing_is_altered_amid_a_change(controller: InProcess) -> None:
    topic = controller.create(1, replication_factor=1)
    with Hold(p.ReadBoundaries) as hold:
        controller.before = hold
        controller.alter(topic, 2, wait=False)
        hold.await_reached()
        rows = several(controller, FACTORS, [{"topic": topic, "replication_factor": 2}])
        assert errors(rows) == ["PARTITION_CHANGE_IN_PROGRESS"]
    assert controller.await_end(topic).outcome == "done"


@pytest.mark.long
def test_given_replicas_outlive_the_controller(three_brokers: LocalCluster) -> None:
    chroot, wanted = unique_name("resumed"), [[3, 1], [2, 3], [1, 2]]
    with in_process(three_brokers, chroot=chroot) as first:
        topic = placed(first, 3, 1)
        with Hold(p.CreatePartitions) as hold:
            first.before = hold
            item = {"topic": topic, "partition_count": 3, "assignments": {"1": wanted[1], "2": wanted[2]}}
            assert errors(several(first, COUNTS, [item])) == ["NONE"]
            hold.await_reached()
            first.service.begin_stop()
        first.service.stop()
    with in_process(three_brokers, chroot=chroot) as second:
        assert second.await_end(topic).outcome == "done"
        await_placed(second.service.admin, topic, wanted)


@pytest.mark.long
def test_a_broker_that_is_down(three_brokers: LocalCluster, controller: InProcess) -> None:
    """It gets nothing, it keeps what it has, and what waits for it goes on when it is back."""
    topic = placed(controller, 1, 3)
    moving = placed(controller, 1)
    three_brokers.kill("broker-3")
    try:
        await_brokers(controller.service.admin, 1, 2)
        refused(
            controller,
            FACTORS,
            {"topic": topic, "replication_factor": 3},
            "INVALID_REPLICATION_FACTOR",
            "with 2 brokers up",
        )
        item: dict[str, Any] = {"topic": moving, "assignments": {"0": [1, 3]}}
        refused(controller, FACTORS, item, "UNKNOWN_MEMBER_ID", "broker 3")
        counts = {"topic": topic, "partition_count": 2, "assignments": {"1": [1, 3]}}
        refused(controller, COUNTS, counts, "UNKNOWN_MEMBER_ID", "broker 3")
        # Kafka itself takes it, and waits for the broker.
        admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
        try:
            Reassignments(admin.requests, timeout=TIMEOUT).start(moving, {0: [1, 3]})
        finally:
            admin.close()
        for fields in (
            {"replication_factor": 1},
            {"assignments": {"0": [1]}},
            {"assignments": {"0": [3, 1]}},
        ):
            item = {"topic": moving, **fields}
            refused(controller, FACTORS, item, "REASSIGNMENT_IN_PROGRESS", "partition 0")
        # What it is doing already may be asked for again.
        for fields in ({"replication_factor": 2}, {"assignments": {"0": [1, 3]}}):
            item = {"topic": moving, **fields}
            assert errors(several(controller, FACTORS, [item])) == ["NONE"]
            ((_, error, message),) = several(controller, FACTORS, [item], params={"wait": 0.1})
            assert (error, "Kafka continues" in message) == ("REQUEST_TIMED_OUT", True), message
        # Who has a replica there may keep it, or give it up.
        order = {"topic": topic, "assignments": {"0": [3, 1]}}
        assert errors(several(controller, FACTORS, [order], **WAIT)) == ["NONE"]
        fewer = {"topic": topic, "replication_factor": 1}
        assert errors(several(controller, FACTORS, [fewer], **WAIT)) == ["NONE"]
        await_placed(controller.service.admin, topic, [[1]])
    finally:
        three_brokers.start("broker-3")
        await_brokers(controller.service.admin, 1, 2, 3)
    await_replicas(controller, moving, [2])
    deadline = time.monotonic() + TIMEOUT
    while set(controller.topic(moving).partitions[0].isr) != {1, 3}:
        assert time.monotonic() < deadline, "the replica on broker 3 is not in sync"
        time.sleep(0.1)


class Held:
    """Holds all requests before their first step, until :attr:`go_on`."""

    def __init__(self) -> None:
        self.begins, self.go_on = threading.Event(), threading.Event()

    def __call__(self, step: str) -> None:
        if step == "load" and self.begins.is_set():
            assert self.go_on.wait(TIMEOUT), "nobody released the request"


def test_more_replicas_can_be_asked_for_again_and_cancelled(three_brokers: LocalCluster) -> None:
    before = Held()
    with in_process(three_brokers, before_step=before) as controller:
        topic = placed(controller, 1)
        item = {"topic": topic, "assignments": {"0": [1, 2]}}
        before.begins.set()
        assert errors(several(controller, FACTORS, [item])) == ["NONE"]
        ((_, error, message),) = several(controller, FACTORS, [item], params={"wait": 0.1})
        assert (error, "reassignment 1 continues" in message) == ("REQUEST_TIMED_OUT", True), message
        ((_, error, message),) = several(controller, FACTORS, [{"topic": topic, "replication_factor": 3}])
        assert (error, "or cancel reassignment 1" in message) == ("REASSIGNMENT_IN_PROGRESS", True), message
        cancelled = controller.http.delete("/v1/reassignments/latest").json()
        assert cancelled["partitions"][0]["error"] == "NONE"
        before.go_on.set()
        queries = controller.service.reassignment_queries
        await_true(lambda: queries.view(1).complete, "the end of the request")
        assert (queries.view(1).state, replicas(controller, topic)) == ("cancelled", [[1]])
        with pytest.raises(RequestError, match=f"partition {topic}-0 of reassignment 1 cancelled"):
            queries.ended(1, topic)


@pytest.mark.long
@pytest.mark.parametrize("option", [("--replication-factor", "2"), ("--replica-assignment", "1:2")])
def test_the_command_ends_with_its_cancelled_reassignment(
    three_brokers: LocalCluster, option: tuple[str, str]
) -> None:
    before, port = Held(), free_port()
    url = f"http://127.0.0.1:{port}"
    with in_process(three_brokers, before_step=before, url=url) as controller, served(controller, port):
        topic = placed(controller, 1)
        before.begins.set()
        command = [
            sys.executable,
            "-m",
            "spark_ordered_kafka.cli",
            "topics",
            "alter",
            "--topic",
            topic,
            *option,
        ]
        environment = os.environ | {"ORDERED_KAFKA_CONTROLLER": url}
        watching = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            queries = controller.service.reassignment_queries
            await_true(lambda: queries.summaries() != [], "the request", 4 * TIMEOUT)
            assert controller.http.delete("/v1/reassignments/1").status_code == 200
            before.go_on.set()
            _, told = watching.communicate(timeout=4 * TIMEOUT)
        finally:
            before.go_on.set()
            watching.kill()
            watching.wait(TIMEOUT)
    assert watching.returncode == 1, told
    assert told.splitlines()[-1] == "error: request 1 has ended as cancelled"
