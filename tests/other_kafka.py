"""Tests on another Kafka than the newest: ``TEST_KAFKA=3.9.2``, or ``3.9.2-zookeeper`` for brokers without KRaft.

It holds for clusters that a test's own process starts. A secured cluster has KRaft in any case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import cluster, servers
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS
from spark_ordered_kafka.local.launcher import Launcher
from spark_ordered_kafka.local.plan import Parameters, new_state
from spark_ordered_kafka.local.state import ClusterState, Server

LAST_WITH_ZOOKEEPER = "3.9.2"
_OF_KRAFT = ("process.", "node.", "controller.", "metadata.", "broker.heartbeat.", "broker.session.")
CHROOT = "/of-brokers"
with_kraft = servers.kafka_properties
"""Properties of a node of a cluster that needs no ZooKeeper."""
_format = Launcher._format

_CREATED_AGAIN = (
    "the name of a deleted topic is free some time later only (TOPIC_ALREADY_EXISTS, marked for deletion)"
)
_MOVED = "a topic does not grow while one of its partitions moves (REASSIGNMENT_IN_PROGRESS)"
_CHECKED_LATE = "brokers do not look at values of configurations before they create the topic"
_PREVIEW = {
    "test_members_of_the_consumer_protocol_are_known": "groups of KIP-848 are a preview, and are not switched on",
    "test_share_groups_are_no_consumer_groups": "there are no share groups",
    **dict.fromkeys(
        (
            "test_nothing_is_placed_on_a_cordoned_broker_unless_it_is_named",
            "test_plans_leave_a_cordoned_broker_as_it_is_and_empty_it_on_request",
            "test_no_replica_is_moved_into_a_cordoned_log_directory",
        ),
        "brokers cannot be cordoned (KIP-1066)",
    ),
}
DIFFERENT = {
    "3.9.2": _PREVIEW,
    "3.9.2-zookeeper": {
        **_PREVIEW,
        "test_a_hung_broker_is_told_after_the_timeout": "a creation that is not done in time is refused again (UNKNOWN_SERVER_ERROR)",
        "test_what_is_wrong_for_one_topic_is_done_for_the_others": "Kafka words the refusal otherwise",
        "test_partitions_of_several_topics_and_what_is_wrong_with_some": "another error for a partition that is not there",
        "test_cancelled_ones_stay_where_they_were": "a move to a broker that is away is over once it is cancelled",
        "test_a_broker_that_is_down_keeps_no_topic_from_growing": "no replica is made on a broker that is down",
        **dict.fromkeys(("test_topics_kafka_refuses", "test_every_chunk_is_validated"), _CHECKED_LATE),
        **dict.fromkeys(
            (
                "test_deleted_partition_gives_replicas_away_and_gets_them_back",
                "test_added_partitions_get_the_replicas_that_are_given",
                "test_it_grows_while_its_replicas_are_moved",
                "test_it_grows_while_its_replicas_wait_for_a_broker",
            ),
            _MOVED,
        ),
        **dict.fromkeys(
            (
                "test_a_namesake_made_outside_survives",
                "test_a_topic_made_again_elsewhere_is_left_out",
                "test_tasks_keep_their_numbers",
                "test_adoption_replaces_what_is_left_of_a_recreated_topic",
                "test_a_change_in_progress_does_not_outlive_its_topic",
                "test_layouts_are_not_taken_for_those_of_a_topic_that_was_replaced",
                "test_creation_in_the_place_of_a_deleted_topic_is_ended_when_it_was_cut_off",
                "test_every_broker_knows_a_topic_once_it_is_created",
                "test_names_end_no_line_of_the_log",
                "test_another_topic_of_the_same_name_is_not_what_was_meant",
                "test_a_topic_created_again_is_not_taken_for_the_old_one",
                "test_a_topic_that_was_created_again",
                "test_a_log_that_really_ends_before_is_lost",
                "test_a_look_at_many_topics_is_one_request",
                "test_topics_of_every_kind",
                "test_topics_that_were_made_again_are_waited_for_together",
                "test_what_a_member_commits_of_a_deleted_topic_is_not_taken_for_the_new_ones",
                "test_writers_that_were_idle_while_another_tool_deleted_their_topic_are_fenced",
            ),
            _CREATED_AGAIN,
        ),
    },
}
"""By Kafka the tests that are left out, and what is different there."""


def choose(kafka: str) -> None:
    """Start clusters of this Kafka from now on, where a test names none.

    Raises:
        ConfigError: there is no such Kafka.
    """
    version, _, mode = kafka.partition("-")
    if version not in KAFKA_VERSIONS or mode not in {"", "zookeeper"}:
        known = ", ".join([*KAFKA_VERSIONS, f"{LAST_WITH_ZOOKEEPER}-zookeeper"])
        raise ConfigError("TEST_KAFKA", kafka, f"give one of {known}")
    if mode and version != LAST_WITH_ZOOKEEPER:
        raise ConfigError(
            "TEST_KAFKA", kafka, f"{LAST_WITH_ZOOKEEPER} is the last one that runs without KRaft"
        )

    def chosen(parameters: Parameters, ports: Iterator[int]) -> ClusterState:
        named = parameters.kafka_version or version
        state = new_state(dataclasses.replace(parameters, kafka_version=named), ports)
        if mode and named == LAST_WITH_ZOOKEEPER and not state.secure:
            state.servers = [server for server in state.servers if server.kind != "kraft"]
            for broker in state.of("broker"):
                broker.internal_ports = []
        return state

    patch = pytest.MonkeyPatch()
    patch.setattr(cluster, "new_state", chosen)
    patch.setattr(servers, "kafka_properties", _kafka_properties)
    patch.setattr(Launcher, "_format", _format_kraft)


def _has_kraft(state: ClusterState) -> bool:
    return any(node.internal_ports for node in state.of("broker", "kraft"))


def _kafka_properties(directory: Path, state: ClusterState, node: Server) -> dict[str, str]:
    return with_kraft(directory, state, node) if _has_kraft(state) else with_zookeeper(directory, state, node)


def with_zookeeper(directory: Path, state: ClusterState, broker: Server) -> dict[str, str]:
    """Properties of a broker whose cluster's metadata is in ZooKeeper."""
    if any((path / "meta.properties").is_file() for path in servers.log_dirs(directory, broker)):
        _forget(state, broker)
    found = with_kraft(directory, state, broker)
    return {name: value for name, value in found.items() if not name.startswith(_OF_KRAFT)} | {
        "broker.id": str(broker.id),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        "zookeeper.connect": f"{state.zookeeper}{CHROOT}",
        "zookeeper.session.timeout.ms": "4000",
        "zookeeper.connection.timeout.ms": "60000",
    }


def _forget(state: ClusterState, broker: Server) -> None:
    """A broker cannot start again while the session lives in which it was killed."""
    client = KazooClient(hosts=state.zookeeper)
    client.start(timeout=60.0)
    try:
        with suppress(NoNodeError):
            client.delete(f"{CHROOT}/brokers/ids/{broker.id}")
    finally:
        client.stop()
        client.close()


def _format_kraft(launcher: Launcher, nodes: Sequence[Server]) -> None:
    if _has_kraft(launcher._state):
        _format(launcher, nodes)
