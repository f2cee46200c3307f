"""Clients whose brokers have all gone, while others of ``bootstrap.servers`` are there (KIP-899)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true, create_topic, unique_name


@pytest.mark.parametrize(
    ("end", "restore"), [(LocalCluster.kill, LocalCluster.start), (LocalCluster.pause, LocalCluster.resume)]
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
