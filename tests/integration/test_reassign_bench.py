"""The benchmark of reassignments on real servers, tiny: its figures, not their size, are tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from spark_ordered_kafka.bench.execution import ExecutionBench
from spark_ordered_kafka.bench.reassign import ReassignPlan, run
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.tools import kafka_tool
from tests.servers import TIMEOUT, unique_name

TINY = ReassignPlan(
    brokers=40, partitions=300, moved_partitions=3, moved_megabytes=3, status_replicas=200, repeats=1
)


@pytest.fixture
def connection(three_brokers: LocalCluster) -> Connection:
    return Connection({"bootstrap.servers": three_brokers.bootstrap_servers}, three_brokers.controller_url)


@pytest.fixture
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield admin
    admin.close()


@pytest.mark.long
def test_all_is_measured(connection: Connection, admin: KafkaAdmin) -> None:
    told: list[str] = []
    before = set(admin.describe_topics())
    report = run(connection, kafka_tool, TINY, told.append)
    made = {t.rpartition("-")[2]: found for t, found in admin.describe_topics().items() if t not in before}

    execution, status = report.execution, report.status
    assert (execution.partitions, execution.bytes) == (3, 3_000_000)
    for spread in (execution.ordered, execution.kafka, execution.kafka_with_start, execution.ratio):
        assert 0 < spread.min <= spread.median <= spread.max
    assert execution.kafka.median < execution.kafka_with_start.median
    assert execution.ratio.median == execution.ordered.median / execution.kafka.median
    assert (execution.goal, status.goal, report.planning.goal_seconds) == (1.1, 200, 10)
    assert status.replicas == 200
    assert 0 < status.running.min <= status.ended.max
    assert report.planning.brokers == 40
    # All went back to where it was, and nothing goes on.
    assert [row.replicas for row in made["moved"].partitions] == [(1,), (1,), (1,)]
    assert len(made["status"].partitions) == 100
    assert Reassignments(admin.requests, timeout=TIMEOUT).all_ongoing() == {}
    assert [line.split()[0] for line in told] == ["planning", "writing", "move", "asking"]
    assert asdict(report)["execution"]["ratio"]["median"] == execution.ratio.median


def test_what_kafkas_tool_says_against_it_is_told(connection: Connection, admin: KafkaAdmin) -> None:
    def refusing(tool: str, *args: str) -> CompletedProcess[str]:
        assert tool == "kafka-reassign-partitions"
        assert Path(args[args.index("--reassignment-json-file") + 1]).read_text().startswith('{"version": 1')
        return CompletedProcess([tool, *args], 1, "Error: no such broker\n", "")

    bench = ExecutionBench(connection, admin, refusing)
    with pytest.raises(OrderedKafkaError, match="kafka-reassign-partitions failed: Error: no such broker"):
        bench.measure(unique_name("bench"), 1, 1, 1, lambda _: None)
