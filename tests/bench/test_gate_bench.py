"""The gate's benchmark: its figures, not its speed, are tested."""

from __future__ import annotations

from itertools import count

import pytest

from spark_ordered_kafka.bench.gate import run
from spark_ordered_kafka.errors import ConfigError


def test_figures_come_from_the_clock_given() -> None:
    ticks = count(step=0.002)
    timing = run(3, 2, repeats=4, clock=lambda: next(ticks))
    assert timing.caught_up.median_ms == pytest.approx(2)
    assert timing.straggler.max_ms == pytest.approx(2)
    assert (timing.partitions, timing.epochs, timing.repeats) == (3, 2, 4)


def test_smallest_case() -> None:
    assert run(1, 1, 1).lagging.median_ms >= 0


@pytest.mark.parametrize(("partitions", "epochs", "repeats"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_numbers_below_one_are_refused(partitions: int, epochs: int, repeats: int) -> None:
    with pytest.raises(ConfigError, match="has the value 0: must be 1 or greater"):
        run(partitions, epochs, repeats)
