"""What ``ordered-kafka doctor`` makes of answers."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.cli.findings import (
    Finding,
    of_brokers,
    of_clock,
    of_controllers,
    of_hanging,
    of_partitions,
    of_rights,
    of_topic,
    of_zookeeper,
    worst,
)
from spark_ordered_kafka.client.schemas import (
    BrokerList,
    BrokerView,
    Diagnostics,
    HangingTransactionList,
    HangingTransactionView,
    KafkaPartitionView,
    KafkaTopicView,
    TopicView,
    TransactionalIds,
    ZooKeeperServer,
)
from spark_ordered_kafka.updates import updated

URL = "http://c1:8090"
SERVERS = [
    ZooKeeperServer(address=f"z{number}:2181", mode="leader" if number == 1 else "follower", version="3.8.4")
    for number in (1, 2, 3)
]
REPORT = Diagnostics(
    id="c1",
    url=URL,
    role="leader",
    version="1.0",
    python="3.11.7",
    libraries={},
    time=0.0,
    settings={"review.required": "False"},
    zookeeper=SERVERS,
    znodes_open=False,
    unknown_znodes=[],
    missing_rights=[],
)


def statuses(findings: list[Finding]) -> list[str]:
    assert all(bool(one.advice) == (one.status != "ok") for one in findings), findings
    return [one.status for one in findings]


def test_the_worst_counts() -> None:
    fine, bad, broken = (Finding("c", status, "m") for status in ("ok", "warning", "error"))
    assert [worst([]), worst([fine]), worst([bad, fine]), worst([broken, bad])] == [
        "ok",
        "ok",
        "warning",
        "error",
    ]


def test_controllers_should_be_alike() -> None:
    both = {URL: REPORT, "http://c2:8090": updated(REPORT, url="http://c2:8090", role="follower")}
    (one,) = of_controllers(both, URL, "1.0")
    assert (one.status, one.message) == ("ok", f"2 of version 1.0, with one configuration; {URL} leads")
    (one,) = of_controllers(both, URL, "1.1")
    assert "(this command has 1.1)" in one.message
    assert statuses(of_controllers(both, None, "1.0")) == ["error"]
    both["http://c2:8090"] = updated(REPORT, version="1.1", settings={"review.required": "True"})
    versions, settings = of_controllers(both, URL, "1.1")
    assert statuses([versions, settings]) == ["warning", "warning"]
    assert versions.message == f"versions differ: {URL} 1.0, http://c2:8090 1.1"
    assert settings.message.startswith(f"review.required differs ({URL}: False, http://c2:8090: True)")


@pytest.mark.parametrize(
    ("skew", "error", "status"),
    [
        (0.9, 0.1, "ok"),
        (-0.9, 0.1, "ok"),
        (3.0, 4.0, "ok"),
        (3.0, 0.1, "warning"),
        (-31.0, 0.1, "error"),
        (31.0, 4.0, "warning"),
    ],
)
def test_clocks_differ_by_more_than_the_question_took(skew: float, error: float, status: str) -> None:
    assert of_clock(URL, skew, skew, error).status == status
    assert of_clock(URL, skew, None, error).status == status


@pytest.mark.parametrize(("counted", "status"), [(0.5, "ok"), (600.0, "error"), (-5.0, "warning")])
def test_a_controller_goes_by_the_clock_at_its_start(counted: float, status: str) -> None:
    """As after a correction, or on a machine that was suspended."""
    found = of_clock(URL, 0.0, counted, 0.1)
    assert found.status == status
    assert ("start that controller again" in found.advice) == (status != "ok")
    wrong_both = of_clock(URL, 40.0, counted, 0.1)
    assert "chronyc" in wrong_both.advice


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({}, ["ok"], "z1:2181 leader 3.8.4"),
        (
            {"zookeeper": [*SERVERS[:2], ZooKeeperServer(address="z3:2181", error="refused")]},
            ["error"],
            "refused",
        ),
        ({"zookeeper": SERVERS[1:]}, ["warning"], "0 of the servers"),
        ({"zookeeper": [SERVERS[0], SERVERS[0]]}, ["warning"], "2 of the servers"),
        (
            {"zookeeper": [ZooKeeperServer(address="z1:2181", mode="standalone")]},
            ["warning"],
            "a single server",
        ),
        ({"znodes_open": True}, ["warning"], "may alter"),
        ({"unknown_znodes": ["/ordered-kafka/x"]}, ["warning"], "/ordered-kafka/x"),
    ],
)
def test_an_ensemble_has_one_leader_and_all_answer(
    change: dict[str, Any], status: list[str], words: str
) -> None:
    found = of_zookeeper(updated(REPORT, **change), is_production=True)
    assert statuses(found) == status
    assert words in found[0].message


def test_one_server_is_enough_for_one_broker() -> None:
    alone = updated(REPORT, zookeeper=[ZooKeeperServer(address="z1:2181", mode="standalone")])
    assert statuses(of_zookeeper(alone, is_production=False)) == ["ok"]


def test_rights_that_lack_are_named() -> None:
    assert of_rights(REPORT).status == "ok"
    missing = [f"READ on topic t{number}" for number in range(7)]
    found = of_rights(updated(REPORT, missing_rights=missing))
    assert (found.status, "READ on topic t4 and 2 more" in found.message) == ("error", True)


def test_brokers_that_are_down_are_named() -> None:
    def view(broker: int, alive: bool) -> BrokerView:
        return BrokerView(id=broker, rack=None, alive=alive, hosted=1, max_partitions=9, capacity=8, excess=0)

    assert statuses(of_brokers(BrokerList(brokers=[view(1, True)]))) == ["ok"]
    (found,) = of_brokers(BrokerList(brokers=[view(1, True), view(2, False)]))
    assert (found.status, found.advice.endswith("--drain 2")) == ("error", True)


def test_a_partition_is_counted_once() -> None:
    def row(partition: int, leader: int, isr: list[int]) -> KafkaPartitionView:
        return KafkaPartitionView(partition=partition, leader=leader, replicas=[1, 2, 3], isr=isr)

    rows = [row(0, 1, [1, 2, 3]), row(1, 1, [1, 2]), row(2, 1, [1]), row(3, -1, [1])]
    topic = KafkaTopicView(
        topic="t", topic_id="i", internal=False, managed=False, partitions=rows, min_insync_replicas=2
    )
    found = of_partitions([topic])
    assert [(one.status, one.message.rpartition(": ")[2]) for one in found] == [
        ("error", "t-3"),
        ("error", "t-2"),
        ("warning", "t-1"),
    ]
    assert statuses(of_partitions([updated(topic, partitions=rows[:1])])) == ["ok"]
    # Kafka writes what has all of its replicas in sync.
    assert statuses(of_partitions([updated(topic, partitions=rows[:1], min_insync_replicas=4)])) == ["ok"]


def test_what_hangs_comes_with_the_command_that_ends_it() -> None:
    def found(transactional_id: str | None, is_certain: bool) -> Finding:
        row = HangingTransactionView(
            partition=2,
            start_offset=7,
            producer_id=9,
            last_timestamp=-1,
            transactional_id=transactional_id,
            is_certain=is_certain,
        )
        return of_hanging(HangingTransactionList(topic="t", transactions=[row]), "b:9092")[0]

    known, expired, unseen = found("x", True), found(None, True), found(None, False)
    assert [one.status for one in (known, expired, unseen)] == ["error", "error", "warning"]
    assert "t-2: the transaction of x (producer id 9) from offset 7 hangs" in known.message
    assert "t-2: the transaction (producer id 9) from offset 7 hangs" in expired.message
    command = "kafka-transactions --bootstrap-server b:9092 abort --topic t --partition 2 --start-offset 7"
    assert known.advice.startswith(command)
    # It may still be written to, so it is not to be aborted.
    assert "abort" not in unseen.advice
    assert "find-hanging --topic t --partition 2" in unseen.advice


def test_strays_and_many_ids_of_a_topic() -> None:
    view = TopicView(
        topic="t", topic_id="i", cluster_id="c", initial_partition_count=1, undeleted_partition_count=1,
        layout_epoch=0, hash="murmur3", ordered_delivery=True, change=None, partitions=[],
    )  # fmt: skip
    assert list(of_topic(view, None)) == []
    many = TransactionalIds(known=20_000, idle=19_000, fenced=3)
    found = list(of_topic(updated(view, stray_partitions=[4, 5], transactional_ids=many), None))
    assert statuses(found) == ["warning", "warning"]
    assert "beyond its layout: 4, 5" in found[0].message
