"""Clients that describe topics end at any time: librdkafka crashes the process if one ends while its answer is handled."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable

import pytest

from spark_ordered_kafka.kafka.descriptions import Descriptions
from spark_ordered_kafka.local import LocalCluster
from tests.seeds import fresh_seeds
from tests.servers import TIMEOUT

_CLIENTS = 5_000
_QUESTIONS = 20


def close(made: list[Descriptions]) -> None:
    made[0].close()
    made[0].close()


def forget(made: list[Descriptions]) -> None:
    made.clear()


@pytest.mark.parametrize("end", [close, forget])
def test_who_ends_cuts_off_no_answer(
    kafka_cluster: LocalCluster, make_topic: Callable[..., str], end: Callable[[list[Descriptions]], None]
) -> None:
    topic = make_topic()
    made = [Descriptions({"bootstrap.servers": kafka_cluster.bootstrap_servers})]
    made[0].cluster(TIMEOUT).result(TIMEOUT)
    kafka_cluster.pause("broker-1")
    try:
        described = made[0].topic(topic, TIMEOUT)
        end(made)
        assert not described.done()
    finally:
        kafka_cluster.resume("broker-1")
    assert described.result(TIMEOUT).name == topic


def end_in_the_middle(servers: str, topic: str, seed: int) -> None:
    """Clients, each of which ends at about the time of its answers."""
    moments = random.Random(seed)
    for _ in range(_CLIENTS):
        descriptions = Descriptions({"bootstrap.servers": servers, "log_level": "0"})
        descriptions.cluster(TIMEOUT).result(TIMEOUT)
        for _ in range(_QUESTIONS):
            descriptions.topic(topic, TIMEOUT)
        time.sleep(moments.uniform(0.0, 0.001))
        descriptions.close()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_process_outlives_clients_that_end_while_they_are_answered(
    kafka_cluster: LocalCluster, make_topic: Callable[..., str]
) -> None:
    (seed,) = fresh_seeds("moments")
    arguments = (kafka_cluster.bootstrap_servers, make_topic(), seed)
    process = multiprocessing.get_context("spawn").Process(target=end_in_the_middle, args=arguments)
    process.start()
    process.join(500)
    assert process.exitcode == 0, f"seed {seed}"
