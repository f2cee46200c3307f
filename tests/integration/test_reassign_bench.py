"""Moves on real servers, tiny: all of it goes back to where it was, and nothing goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench import Bench, connection_to
from benchmarks.figures import OURS
from benchmarks.parts.reassign import reassign
from benchmarks.scale import TINY
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT


@pytest.mark.long
def test_moves_and_the_status_of_a_request_are_measured(three_brokers: LocalCluster, tmp_path: Path) -> None:
    admin = KafkaAdmin(connection_to(three_brokers).kafka, timeout=TIMEOUT)
    try:
        before = set(admin.describe_topics())
        with Bench(tmp_path, TINY, lambda _: None) as bench:
            bench.three_brokers = three_brokers
            moves, at_once, *status = reassign(bench)
        assert Reassignments(admin.requests, timeout=TIMEOUT).all_ongoing() == {}
        made = [found for topic, found in admin.describe_topics().items() if topic not in before]
    finally:
        admin.close()
    for found in (moves, at_once):
        assert {name: len(samples) for name, samples in found.samples.items()} == {
            OURS: 1,
            "kafka-reassign-partitions": 1,
            "kafka-reassign-partitions, with its start": 1,
        }
        _, without, with_start = (samples[0].value for samples in found.samples.values())
        assert without < with_start
    assert [len(found.samples[OURS]) > 0 for found in status] == [True, True]
    *moved, asked = sorted(made, key=lambda topic: len(topic.partitions))
    assert sorted([TINY.moved_partitions, TINY.moved_at_once]) == [len(topic.partitions) for topic in moved]
    for topic in moved:
        assert {tuple(row.replicas) for row in topic.partitions} == {tuple(topic.partitions[0].replicas)}
    assert len(asked.partitions) == 100
