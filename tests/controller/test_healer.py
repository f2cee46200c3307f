"""Steps of self-healing that fail in the middle, with values in place of servers."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_ordered_kafka.controller.healing.figures import HealingFigures
from spark_ordered_kafka.controller.healing.healer import Healer
from spark_ordered_kafka.controller.healing.observation import ObservedBroker
from spark_ordered_kafka.controller.healing.rules import Rules
from spark_ordered_kafka.controller.healing.sampling import Sample
from spark_ordered_kafka.controller.state.healing import ConditionEntry, HealingEntry, HealingRecord
from spark_ordered_kafka.errors import UnavailableError
from tests.inside import healing_step

STEP = 30.0


class World:
    """A cluster whose third broker is away for long, while no plan can be made."""

    def __init__(self, record: HealingRecord) -> None:
        self.record = record
        self.now = 10_000.0
        self.answers = True
        self.figures = HealingFigures()
        self.told: list[tuple[str, Any]] = []

    def read(self) -> HealingRecord:
        return self.record

    def write(self, record: HealingRecord) -> None:
        self.record = record

    def sample(self, _: Sample | None) -> Sample:
        if not self.answers:
            raise UnavailableError("Kafka does not answer")
        return Sample(self.now, (ObservedBroker(1, hosted=1), ObservedBroker(3, alive=False, hosted=5)), 0, 0)

    def plan(self, *_: Any) -> Any:
        raise UnavailableError("Kafka does not answer")

    def send(self, _: str, event: str, fields: Mapping[str, Any]) -> None:
        self.told.append((event, fields.get("outcome")))


def healer(world: World) -> Healer:
    ended = SimpleNamespace(ended=True, state="done")
    store: Any = SimpleNamespace(read=lambda _: (ended, None), active=list)
    audit: Any = SimpleNamespace(add=lambda *_: None)
    return Healer(
        Rules(mode="act"),
        cast(Any, world),
        cast(Any, world),
        cast(Any, world),
        store,
        cast(Any, None),
        audit,
        cast(Any, world),
        world.figures,
        clock=lambda: world.now,
        changing=list,
        send=lambda: cast(Any, lambda _: None),
    )


def test_what_was_told_is_not_told_again_when_a_plan_fails() -> None:
    asked = HealingEntry(
        at=1.0, action="balance_leaders", brokers=(), outcome="requested", reason="r", request_id=7
    )
    held = HealingEntry(
        at=1.0, action="balance", brokers=(), outcome="held", held_by="cooldown", reason="uneven"
    )
    away = ConditionEntry(kind="broker_away", subject="3", since=0.0)
    world = World(
        HealingRecord(
            request_id=7,
            history=(asked, held),
            standing=(asked, held),
            conditions=(away,),
            observed_at=10_000.0 - STEP,
        )
    )
    steps = healer(world)
    for _ in range(4):
        with pytest.raises(UnavailableError):
            healing_step(steps)
        world.now += STEP
    assert world.told == [("outcome", "done"), ("outcome", "withdrawn")]
    assert steps.view().findings[0].kind == "broker_away"


def findings(world: World) -> dict[str, float]:
    """The gauge of findings, without zeros."""
    gauge = next(iter(world.figures.collect()))
    return {sample.labels["kind"]: sample.value for sample in gauge.samples if sample.value}


def test_what_is_found_is_counted_though_a_plan_fails() -> None:
    away = ConditionEntry(kind="broker_away", subject="3", since=0.0)
    world = World(HealingRecord(conditions=(away,), observed_at=10_000.0 - STEP))
    with pytest.raises(UnavailableError):
        healing_step(healer(world))
    assert findings(world) == {"broker_away": 1}


def test_what_nobody_has_seen_for_long_is_not_shown() -> None:
    away = ConditionEntry(kind="broker_away", subject="3", since=0.0)
    world = World(HealingRecord(conditions=(away,), observed_at=10_000.0 - STEP))
    steps = healer(world)
    shown = []
    for _ in range(15):
        with pytest.raises(UnavailableError):
            healing_step(steps)
        shown.append(bool(findings(world)))
        world.answers = False
        world.now += STEP
    assert shown == [True] * 11 + [False] * 4, "five minutes"
