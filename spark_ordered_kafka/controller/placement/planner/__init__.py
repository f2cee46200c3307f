"""Proposes which replicas to move (drain, spread, balance, ...): values in, a plan out. PURE."""

from spark_ordered_kafka.controller.placement.planner.plans import plan
from spark_ordered_kafka.controller.placement.planner.values import (
    Broker,
    Change,
    FurtherGoal,
    Goal,
    GoalKind,
    Load,
    Partition,
    Plan,
    Snapshot,
    Status,
)

__all__ = [
    "Broker",
    "Change",
    "FurtherGoal",
    "Goal",
    "GoalKind",
    "Load",
    "Partition",
    "Plan",
    "Snapshot",
    "Status",
    "plan",
]
