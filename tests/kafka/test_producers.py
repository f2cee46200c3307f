"""What a refusal says of foreign producers, without a server."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.kafka.producers import ForeignProducer, refusal

NOW = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (1_700_000_000_000, "last write 2023-11-14 22:13:20 UTC (0 s ago)"),
        (1_699_999_955_400, "(45 s ago)"),
        (1_699_999_000_000, "(16.7 min ago)"),
        (1_699_990_000_000, "(2.8 h ago)"),
        (1_699_800_000_000, "last write 2023-11-12 14:40:00 UTC (2.3 d ago)"),
        (0, "last write 1970-01-01 00:00:00 UTC"),
        (-1, "last write at an unknown time"),
        (1_700_000_060_000, "last write 2023-11-14 22:14:20 UTC (by its own clock)"),
        # Microseconds by mistake, and the largest there is.
        (1_700_000_000_000_000, "last write with timestamp 1700000000000000"),
        (2**63 - 1, "last write with timestamp 9223372036854775807"),
    ],
)
def test_time_of_the_last_write(milliseconds: int, words: str) -> None:
    told = refusal("t", [ForeignProducer(7, (3,), milliseconds, None)], NOW)
    assert "topic 't': producer id 7 in partition 3, last write " in told
    assert words in told


def test_long_lists_are_cut() -> None:
    producers = [ForeignProducer(number, tuple(range(10_000)), 0, f"id-{number}") for number in range(12)]
    told = refusal("t", producers, NOW)
    assert told.count("producer id ") == 5
    assert "producer id 0 of transactional id 'id-0' in partitions 0, 1, 2, 3, 4 and 9995 more, " in told
    assert "; and 7 more. They" in told
    assert "more. They" not in refusal("t", producers[:5], NOW)
    assert len(told) < 1500
