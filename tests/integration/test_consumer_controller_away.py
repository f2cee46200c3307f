"""A consumer whose controller goes away: what it cannot deliver stays in Kafka, and comes once a controller answers."""

from __future__ import annotations

import sys

from spark_ordered_kafka.local import LocalCluster
from tests.integration.gateway import gateway_to
from tests.integration.members import Room, all_of, exact
from tests.streams import NumberedWriter, create

CALLS = 10
PER_CALL = 1_000


def test_what_waits_for_a_layout_waits_in_kafka(room: Room, cluster: LocalCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name, step=2_000)
    with gateway_to(cluster) as gateway:
        gateway.left = sys.maxsize
        member = room.member(topic_name, controller_url=gateway.url)
        writer.write()
        all_of(member, writer.written)
        gateway.left = 0
        writer.write(2)
        delivery = member.consumer._assignment.delivery
        peak = 0
        for _ in range(CALLS):
            assert member.read(timeout=0.1, count=PER_CALL) == []
            peak = max(peak, delivery.held)
        assert peak <= PER_CALL
        gateway.left = sys.maxsize
        all_of(member, writer.written)
    exact(member.messages, writer.written)
