"""Figures of an ordered consumer's partitions, for metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_ordered_kafka.client.counts import PartitionFigures
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress

SeenEnd = Callable[[str, int, Progress], int]
"""``seen_end(topic, partition, progress)``: an offset that the log has reached."""


def partition_figures(topics: Mapping[str, TopicProgress], seen_end: SeenEnd) -> list[PartitionFigures]:
    """Of all partitions. Copies what another thread may change meanwhile."""
    return [
        PartitionFigures(
            name,
            p,
            max(0, seen_end(name, p, progress) - progress.reached),
            progress.limit < progress.validated,
        )
        for name, topic in list(topics.items())
        for p, progress in list(topic.own.items())
    ]
