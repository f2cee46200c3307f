"""The benchmark of placement: its figures, not its speed, are tested."""

from __future__ import annotations

from itertools import count

import pytest

from spark_ordered_kafka.bench.placement import run
from spark_ordered_kafka.errors import ConfigError, RequestError


def test_figures_come_from_the_clock_and_the_plan() -> None:
    ticks = count(step=2)
    report = run(6, 3, 10, 3, repeats=2, clock=lambda: next(ticks))
    assert [plan.capacity for plan in report.plans] == ["no limits", "differing", "just enough"]
    for plan in report.plans:
        assert (plan.median_seconds, plan.max_seconds, plan.spread) == (2, 2, 1.0)
    assert (report.plans[2].most, report.plans[2].least) == (5, 5)


def test_smallest_case() -> None:
    assert [plan.most for plan in run(1, 0, 1, 1, 1).plans] == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, 0, 1, 1, 1), ConfigError, "brokers has the value 0: must be 1 or greater"),
        ((1, -1, 1, 1, 1), ConfigError, "racks has the value -1: must be 0 or greater"),
        ((2, 3, 1, 1, 1), ConfigError, "racks has the value 3: must be 2"),
        ((1, 0, 1, 1, 0), ConfigError, "repeats has the value 0"),
        ((1, 0, 0, 1, 1), RequestError, "partitions has the value 0"),
        ((1, 0, 200_001, 1, 1), RequestError, "200000 at most"),
        ((1, 0, 1, 2, 1), RequestError, "replication_factor has the value 2"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    arguments: tuple[int, int, int, int, int], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(*arguments)
