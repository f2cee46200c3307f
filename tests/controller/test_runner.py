"""How long a change waits for Kafka while it holds writers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spark_ordered_kafka.controller.change.job import Job
from spark_ordered_kafka.controller.change.protocol import (
    Boundary,
    Change,
    CheckLogEnds,
    Ending,
    Failed,
    Instruction,
    ReadBoundaries,
)
from spark_ordered_kafka.controller.change.runner import Runner
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.errors import UnavailableError

LEFT = 3.0
"""Seconds to the deadline."""
CHANGE = Change("c1", "t", "expand", 2, 4, 2, 0.0, step="fencing")
STARTS = (Boundary(0, 0),) * 4


class HangingKafka:
    """Answers as long as ``answers`` are left, and then keeps the deadlines of what it is asked."""

    def __init__(self, answers: int) -> None:
        self.requests = None
        self.left = answers
        self.deadlines: list[float | None] = []

    def describe_topics(
        self, topics: Sequence[str], *, deadline: float | None = None
    ) -> dict[str, SimpleNamespace]:
        self._ask(deadline)
        return {topic: SimpleNamespace(topic_id="id", partitions=[None] * 4) for topic in topics}

    def log_ends(self, topic: str, partitions: Sequence[int], *, deadline: float | None = None) -> None:
        self._ask(deadline)

    def _ask(self, deadline: float | None) -> None:
        if self.left == 0:
            self.deadlines.append(deadline)
            raise UnavailableError("no answer")
        self.left -= 1


def runner_of(kafka: HangingKafka) -> Runner:
    layout = LayoutRecord(undeleted_partition_count=2, starts=[0, 0], leader_epochs=[0, 0], committed_at=0.0)
    record = TopicRecord(
        topic_id="id",
        initial_partition_count=2,
        undeleted_partition_count=2,
        layout_epoch=0,
        hash="murmur3",
        ordered_delivery=True,
    )
    znodes = SimpleNamespace(await_claim=lambda _: None, topic=lambda _: record, layouts=lambda *_: [layout])
    admin: Any = kafka
    unused: Any = None
    return Runner(admin, znodes, Timing(), time.monotonic, unused, unused)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("instruction", "answers"),
    [
        pytest.param(ReadBoundaries(4, 0.0), 0, id="the description"),
        pytest.param(ReadBoundaries(4, 0.0), 1, id="log ends"),
        pytest.param(CheckLogEnds(STARTS, 0.0), 0, id="log ends again"),
    ],
)
def test_kafka_is_waited_for_until_the_change_must_have_closed(
    instruction: ReadBoundaries | CheckLogEnds, answers: int
) -> None:
    kafka = HangingKafka(answers)
    job = Job(CHANGE, "id", threading.Event())
    until: Instruction = replace(instruction, deadline=time.monotonic() + LEFT)
    event = runner_of(kafka)._attempt(job, until)
    assert isinstance(event, Failed)
    assert event.retriable
    (deadline,) = kafka.deadlines
    assert deadline is not None
    assert deadline <= time.monotonic() + LEFT


@pytest.mark.parametrize(("step", "bounded"), [("fencing", True), ("creating", False)])
def test_a_message_does_not_hold_writers(step: Any, bounded: bool) -> None:
    """How many partitions were made is told if Kafka answers at once."""
    kafka = HangingKafka(0)
    change = replace(CHANGE, step=step)
    job = Job(change, "id", threading.Event())
    ending = runner_of(kafka)._with_partitions(job, change, Ending("failed", None, "why"))
    assert ending.message == "why; whether partitions were created in Kafka by then is not known"
    assert [deadline is not None for deadline in kafka.deadlines] == [bounded]
