"""Names, patterns and filters of ``topics list`` and ``topics describe``."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.cli.topic_filters import (
    AT_MIN_ISR,
    FILTERS,
    UNAVAILABLE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    chosen,
)
from spark_ordered_kafka.client.schemas import KafkaPartitionView, KafkaTopicView
from spark_ordered_kafka.errors import ConfigError

NAMES = ["a.b", "axb", "orders", "orders-eu", "(odd"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["orders"], ["orders"]),
        (["orders.*"], ["orders", "orders-eu"]),
        (["a.b"], ["a.b"]),  # a name first, a pattern second
        (["a.c|axb"], ["axb"]),
        (["rder"], []),
        (["(odd", "orders"], ["(odd", "orders"]),
        ([], []),
    ],
)
def test_a_name_is_taken_as_it_is_and_anything_else_as_a_pattern(wanted: list[str], found: list[str]) -> None:
    assert chosen(NAMES, wanted) == found


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--topic has the value '\(x': no such topic, and no regular"):
        chosen(NAMES, ["(x"])


@pytest.mark.parametrize(
    ("leader", "isr", "least", "shown"),
    [
        (1, [1, 2, 3], 2, set()),
        (1, [1, 2], 2, {UNDER_REPLICATED, AT_MIN_ISR}),
        (1, [1], 2, {UNDER_REPLICATED, UNDER_MIN_ISR}),
        (-1, [3], 1, {UNDER_REPLICATED, UNAVAILABLE, UNDER_MIN_ISR, AT_MIN_ISR}),
        (1, [1], None, {UNDER_REPLICATED}),
    ],
)
def test_filters_are_those_of_kafka_topics(
    leader: int, isr: list[int], least: int | None, shown: set[str]
) -> None:
    row = KafkaPartitionView(partition=0, leader=leader, replicas=[1, 2, 3], isr=isr)
    topic = KafkaTopicView(
        topic="t", topic_id="i", internal=False, managed=True, partitions=[row], min_insync_replicas=least
    )
    assert {name for name, matches in FILTERS.items() if matches(topic, row)} == shown
