"""Proposes which replicas to move (drain, spread, balance, ...): values in, a plan out. PURE."""

from spark_ordered_kafka.controller.placement.planner.plans import plan
from spark_ordered_kafka.controller.placement.planner.values import (
    Broker,
    Change,
    Goal,
    Load,
    Partition,
    Plan,
    Snapshot,
)

__all__ = [
    "Broker",
    "Change",
    "Goal",
    "Load",
    "Partition",
    "Plan",
    "Snapshot",
    "plan",
]
