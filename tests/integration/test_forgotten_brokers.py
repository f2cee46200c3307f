"""Clients whose brokers have all gone, while others of ``bootstrap.servers`` are there (KIP-899)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.seeds import fresh_seeds
from tests.servers import TIMEOUT, await_true, create_topic, unique_name


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "restore"),
    [(LocalCluster.kill, LocalCluster.start), (LocalCluster.pause, LocalCluster.resume)],
)
def test_a_cluster_is_found_again_by_the_servers_that_were_given(
    three_brokers: LocalCluster,
    end: Callable[[LocalCluster, str], object],
    restore: Callable[[LocalCluster, str], object],
) -> None:
    brokers = three_brokers
    topic = create_topic(brokers.bootstrap_servers, unique_name("forgotten"))
    admin = KafkaAdmin(brokers.bootstrap_servers, timeout=TIMEOUT)
    assert len(admin.describe_at_each(topic)) == 3
    for broker in ("broker-1", "broker-2"):
        brokers.stop(broker)
    # Having lost its connections to those, the client asks the third one for what there is.
    await_true(lambda: len(admin.describe_at_each(topic)) == 1, "one broker is known")
    for broker in ("broker-1", "broker-2"):
        brokers.start(broker)
    end(brokers, "broker-3")
    try:
        assert topic in admin.describe_topics([topic])
    finally:
        restore(brokers, "broker-3")
        admin.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", fresh_seeds(__name__))
def test_any_broker_that_lives_is_found(three_brokers: LocalCluster, seed: int) -> None:
    """Brokers stop, die and come back, and one of them lives at all times."""
    chance = random.Random(seed)
    topic = create_topic(three_brokers.bootstrap_servers, unique_name("forgotten"))
    # Also over what a client forgets while it asks nothing.
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=5.0)
    alive = {1, 2, 3}
    try:
        for _ in range(30):
            broker = chance.randint(1, 3)
            if broker not in alive:
                three_brokers.start(f"broker-{broker}")
                alive.add(broker)
            elif len(alive) > 1:
                chance.choice([LocalCluster.stop, LocalCluster.kill])(three_brokers, f"broker-{broker}")
                alive.remove(broker)
            if chance.random() < 0.6:
                assert topic in admin.describe_topics([topic])
    finally:
        admin.close()
        for broker in {1, 2, 3} - alive:
            three_brokers.start(f"broker-{broker}")
