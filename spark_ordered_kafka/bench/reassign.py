"""Reassignments: planning for a very large cluster, moving beside Kafka's own tool, asking how far a large one is."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException

from spark_ordered_kafka.bench.execution import Execution, ExecutionBench, KafkaTool
from spark_ordered_kafka.bench.planning import PlanningReport, measure_planning
from spark_ordered_kafka.bench.requests import TIMEOUT
from spark_ordered_kafka.bench.status import Status, measure_status
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.clients import translate


@dataclass(frozen=True)
class ReassignPlan:
    """How much :func:`run` measures.

    Plans are made for ``brokers`` and ``partitions``; ``moved_partitions`` with ``moved_megabytes`` in all are moved there and
    back; the status is asked of a request of ``status_replicas``. All but the last ``repeats`` times.

    Raises ConfigError: a number is too small, or odd where it must be even.
    """

    brokers: int = 1_000
    partitions: int = 200_000
    moved_partitions: int = 100
    moved_megabytes: int = 1_000
    status_replicas: int = 10_000
    repeats: int = 3

    def __post_init__(self) -> None:
        least = {"brokers": 40, "status_replicas": 2}
        for name in (
            "brokers",
            "partitions",
            "moved_partitions",
            "moved_megabytes",
            "status_replicas",
            "repeats",
        ):
            if (value := getattr(self, name)) < least.get(name, 1):
                raise ConfigError(name, value, f"must be {least.get(name, 1)} or greater")
        if self.status_replicas % 2:
            raise ConfigError(
                "status_replicas", self.status_replicas, "must be even: partitions get two each"
            )


@dataclass(frozen=True)
class ReassignReport:
    """What was measured."""

    plan: ReassignPlan
    planning: PlanningReport
    execution: Execution
    status: Status


def run(
    connection: Connection,
    tool: KafkaTool,
    plan: ReassignPlan,
    say: Callable[[str], None] = lambda _: None,
) -> ReassignReport:
    """Measure on running servers with three brokers, where nothing else goes on; the topics created for it stay.

    :param connection: the cluster and its controller.
    :param tool: runs Kafka's tools.
    :param say: is told of each step.
    :raises UnavailableError: a server did not answer in time; or the error of what failed.
    """
    name = f"bench-{uuid.uuid4().hex[:10]}"
    say(f"planning for {plan.brokers} brokers and {plan.partitions} partitions")
    planning = measure_planning(plan.brokers, plan.partitions, plan.repeats)
    admin = KafkaAdmin(connection.kafka, timeout=TIMEOUT)
    try:
        execution = ExecutionBench(connection, admin, tool).measure(
            f"{name}-moved", plan.moved_partitions, 1_000_000 * plan.moved_megabytes, plan.repeats, say
        )
        status = measure_status(connection, admin, f"{name}-status", plan.status_replicas, say)
    except KafkaException as error:
        raise translate(error.args[0], f"measuring on {connection.bootstrap_servers}") from error
    finally:
        admin.close()
    return ReassignReport(plan, planning, execution, status)
