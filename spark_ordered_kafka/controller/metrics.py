"""What the controller counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.topics import Topics
from spark_ordered_kafka.errors import ErrorCode, RequestError

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """Counters of one controller process; they begin at 0 with it."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._registry = CollectorRegistry()
        self._misrouted = Counter(
            "ordered_kafka_misrouted_records",
            "Records that readers found in a partition their key does not belong to; read again, they count again.",
            ["topic"],
            registry=self._registry,
        )

    def count_misrouted(self, topic: str, report: schemas.MisroutedReport) -> None:
        """Count what a task of a reader found.

        Raises RequestError: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_REQUEST for a number below 1.
        """
        self._topics.record(topic)
        if report.records < 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"records has the value {report.records}: at least 1 is needed"
            )
        self._misrouted.labels(topic).inc(report.records)

    def exposition(self) -> bytes:
        """All counters in Prometheus' text format."""
        return generate_latest(self._registry)
