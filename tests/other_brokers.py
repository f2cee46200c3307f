"""Tests on brokers that are set up otherwise: ``TEST_BROKERS=defaults``, ``expiring``, ``logs``, ``far`` or ``ipv6``.

It holds for clusters that a test's own process starts; what a test itself sets stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import servers
from spark_ordered_kafka.local.state import ClusterState, Server
from tests import far_brokers

SETTINGS: Mapping[str, Mapping[str, str]] = {
    # Kafka's own values where local servers have quicker ones. Connections end as after an hour in which nothing happens.
    "defaults": {
        "broker.heartbeat.interval.ms": "2000",
        "broker.session.timeout.ms": "9000",
        "connections.max.idle.ms": "1500",
        "controlled.shutdown.retry.backoff.ms": "5000",
        "group.initial.rebalance.delay.ms": "3000",
        "group.min.session.timeout.ms": "6000",
        "log.segment.delete.delay.ms": "60000",
        "max.incremental.fetch.session.cache.slots": "0",
        "metadata.max.idle.interval.ms": "500",
        "offsets.topic.num.partitions": "50",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
        "transaction.state.log.num.partitions": "50",
    },
    # What brokers forget after a day or a week they forget after seconds, or a minute, which is the least for offsets.
    "expiring": {
        "offsets.retention.check.interval.ms": "1000",
        "offsets.retention.minutes": "1",
        "producer.id.expiration.check.interval.ms": "500",
        "producer.id.expiration.ms": "3000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
        "transactional.id.expiration.ms": "3000",
    },
    # Logs are kept in another way than clients have written them.
    "logs": {
        "compression.type": "zstd",
        "log.flush.interval.messages": "1",
        "log.index.interval.bytes": "512",
        "log.message.timestamp.type": "LogAppendTime",
        "log.segment.bytes": "1048576",
        "max.incremental.fetch.session.cache.slots": "1",
    },
}
_Properties = Callable[[ClusterState, Server], Mapping[str, str]]


def _alike(settings: Mapping[str, str]) -> _Properties:
    return lambda state, node: settings


def _ipv6(state: ClusterState, node: Server) -> Mapping[str, str]:
    if node.kind != "broker" or state.secure:
        return {}
    controller = [f"CONTROLLER://127.0.0.1:{port}" for port in node.internal_ports]
    return {
        # It takes both kinds of addresses.
        "listeners": ",".join([f"PLAINTEXT://[::]:{node.port}", *controller]),
        "advertised.listeners": f"PLAINTEXT://[::1]:{node.port}",
    }


PROPERTIES: Mapping[str, _Properties] = {
    **{name: _alike(settings) for name, settings in SETTINGS.items()},
    "far": far_brokers.properties,
    "ipv6": _ipv6,
}
"""What each choice sets for a broker."""
_LATER = "records have the broker's time"
DIFFERENT: Mapping[str, Mapping[str, str]] = {
    "far": {"test_cluster": "clients reach brokers at other ports than those they begin with"},
    "ipv6": dict.fromkeys(
        (
            "test_cluster",
            "test_members_of_the_consumer_protocol_are_known",
            "test_partition_of_a_grown_topic_waits_until_its_parent_is_read",
        ),
        "brokers show another address than the one that they are reached by first",
    ),
    "expiring": {"test_many_producers_are_counted": "brokers forget producers before they are counted"},
    "logs": {
        "test_bytes_that_are_copied_and_that_are_to_be": "compression leaves less than was written",
        **dict.fromkeys(
            (
                "test_a_refused_record_says_which_setting_of_the_topic_refuses_it",
                "test_a_timestamp_that_the_topic_does_not_take",
                "test_a_timestamp_without_headers",
                "test_all_parts_of_a_record",
                "test_timestamps_are_kept_when_that_is_asked_for",
            ),
            _LATER,
        ),
    },
}
"""By settings the tests that are left out, and what is different there."""


def choose(name: str, patch: pytest.MonkeyPatch | None = None) -> None:
    """Start brokers with these settings from now on, or until ``patch`` is undone.

    Raises:
        ConfigError: there are no such settings.
    """
    if name not in PROPERTIES:
        raise ConfigError("TEST_BROKERS", name, f"give one of {', '.join(PROPERTIES)}")
    usual = servers.kafka_properties

    def chosen(directory: Path, state: ClusterState, node: Server) -> dict[str, str]:
        own = PROPERTIES[name](state, node)
        return {**usual(directory, state, node), **own, **state.broker_config}

    (patch or pytest.MonkeyPatch()).setattr(servers, "kafka_properties", chosen)
