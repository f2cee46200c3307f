"""Which topics and partitions ``ordered-kafka topics`` shows: names and patterns, and the filters of ``kafka-topics``. PURE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from spark_ordered_kafka.parsing import compiled

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import KafkaPartitionView, KafkaTopicView

UNDER_REPLICATED = "--under-replicated-partitions"
UNAVAILABLE = "--unavailable-partitions"
UNDER_MIN_ISR = "--under-min-isr-partitions"
AT_MIN_ISR = "--at-min-isr-partitions"

Filter = Callable[["KafkaTopicView", "KafkaPartitionView"], bool]


FILTERS: dict[str, Filter] = {
    UNDER_REPLICATED: lambda _, row: len(row.isr) < len(row.replicas),
    UNAVAILABLE: lambda _, row: row.leader < 0,
    UNDER_MIN_ISR: lambda topic, row: (
        topic.min_insync_replicas is not None and (row.leader < 0 or len(row.isr) < topic.min_insync_replicas)
    ),
    AT_MIN_ISR: lambda topic, row: len(row.isr) == topic.min_insync_replicas,
}
"""By the names of their options, as ``org.apache.kafka.tools.TopicCommand`` has them; but replicas that a reassignment adds
count. A partition whose ``min.insync.replicas`` is not known is left out."""


def chosen(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Those of ``names`` that one of ``wanted`` is, or else matches as a regular expression from end to end; sorted.

    Raises ConfigError for what is no name here and no regular expression.
    """
    known = set(names)
    found: set[str] = set()
    for one in wanted:
        if one in known:
            found.add(one)
            continue
        pattern = compiled("--topic", one, "no such topic, and no regular expression")
        found |= {name for name in known if pattern.fullmatch(name)}
    return sorted(found)
