"""The plain Python clients beside confluent-kafka's own, and what producers feel of a partition change."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException

from spark_ordered_kafka.bench.figures import Comparison
from spark_ordered_kafka.bench.pauses import Pauses, measure_pauses
from spark_ordered_kafka.bench.rates import GOAL, Workload, compare_consumers, compare_producers
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.clients import translate

# A run of fewer is over with its first call.
_LEAST_RECORDS = 100


@dataclass(frozen=True)
class ClientsPlan:
    """How much :func:`run` measures.

    ``records``, of ``value_bytes`` bytes each, are written and read ``repeats`` times by each client, on topics of
    ``partitions`` partitions; then ``producers`` producers are open while the partition count changes ``changes`` times.

    Raises ConfigError: a number is too small.
    """

    records: int = 500_000
    value_bytes: int = 100
    partitions: int = 4
    repeats: int = 7
    producers: int = 50
    changes: int = 6

    def __post_init__(self) -> None:
        if self.records < _LEAST_RECORDS:
            raise ConfigError("records", self.records, f"must be {_LEAST_RECORDS} or greater")
        for name in ("value_bytes", "partitions", "repeats", "producers", "changes"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(name, value, "must be 1 or greater")


@dataclass(frozen=True)
class ClientsReport:
    """What was measured: records per second of producers and of consumers, and pauses at changes."""

    plan: ClientsPlan
    producer: Comparison
    consumer: Comparison
    pauses: Pauses


def run(
    connection: Connection, plan: ClientsPlan, say: Callable[[str], None] = lambda _: None
) -> ClientsReport:
    """Measure on running servers; the topics created for it stay.

    :param connection: the cluster and its controller.
    :param say: is told of each run as it ends.
    :raises UnavailableError: a server did not answer in time; or the error of a client or a change that failed.
    """
    name = f"bench-{uuid.uuid4().hex[:10]}"
    plain, ordered, changing = f"{name}-plain", f"{name}-ordered", f"{name}-changing"
    with ControllerClient.of(connection) as controller:
        for topic in (plain, ordered, changing):
            controller.create_topic(
                CreateTopicRequest(topic=topic, partitions=plan.partitions, replication_factor=1)
            )
    load = Workload(plan.records, plan.value_bytes, plan.repeats)
    try:
        return ClientsReport(
            plan,
            Comparison.of(compare_producers(connection, (plain, ordered), load, say), GOAL),
            Comparison.of(compare_consumers(connection, ordered, load, say), GOAL),
            measure_pauses(
                connection,
                changing,
                producers=plan.producers,
                changes=plan.changes,
                value_bytes=plan.value_bytes,
                say=say,
            ),
        )
    except KafkaException as error:
        raise translate(error.args[0], f"measuring on {connection.bootstrap_servers}") from error
