"""The benchmark of reassignments without servers: its figures and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.bench.figures import Spread
from spark_ordered_kafka.bench.planning import measure_planning
from spark_ordered_kafka.bench.reassign import ReassignPlan
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.errors import ConfigError


def test_plans_are_timed_by_the_clock_and_move_something() -> None:
    ticks = count(step=2)
    report = measure_planning(200, 4_000, 2, clock=lambda: next(ticks))
    assert [timing.goal for timing in report.timings] == [
        "drain 2 brokers",
        "spread onto 2 new brokers",
        "balance all brokers",
    ]
    for timing in report.timings:
        assert timing.seconds == Spread(2, 2, 2)
        assert timing.replicas > 0
        assert timing.bytes is not None
        assert timing.bytes > 0
    assert measure_planning(200, 4_000, 1).timings[0].bytes == report.timings[0].bytes


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("brokers", 39, "must be 40 or greater"),
        ("partitions", 0, "must be 1 or greater"),
        ("moved_partitions", 0, "must be 1 or greater"),
        ("moved_megabytes", 0, "must be 1 or greater"),
        ("status_replicas", 0, "must be 2 or greater"),
        ("status_replicas", 3, "must be even: partitions get two each"),
        ("repeats", 0, "must be 1 or greater"),
    ],
)
def test_numbers_that_cannot_be_are_refused(field: str, value: int, right: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} has the value {value}: {right}"):
        replace(ReassignPlan(), **{field: value})


def test_the_command_refuses_before_it_starts_servers() -> None:
    done = CliRunner().invoke(app, ["bench", "reassign", "--repeats", "0"])
    assert done.exit_code == 2
    assert "repeats has the value 0: must be 1 or greater" in done.output
