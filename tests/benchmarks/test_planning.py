"""What planning is timed on: each goal gives something to move, and the same in every run."""

from __future__ import annotations

from benchmarks.parts.planning import cases
from spark_ordered_kafka.controller.placement.planner import plan


def test_every_goal_has_something_to_move() -> None:
    plans = {name: plan(*case) for name, case in cases(40, 400).items()}
    assert list(plans) == ["drain 1 brokers", "spread onto 1 new brokers", "balance all brokers"]
    for planned in plans.values():
        assert planned.replicas > 0
        assert planned.size is not None
        assert planned.size > 0
    name = "drain 1 brokers"
    assert plan(*cases(40, 400)[name]).size == plans[name].size
