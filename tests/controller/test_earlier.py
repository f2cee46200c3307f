"""What writers of a compacted topic are told of its earlier layouts, and how often Kafka is asked for the policy."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from spark_ordered_kafka.client.schemas import EarlierLayout
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.topics.compaction import POLICY_AGE, EarlierLayouts
from spark_ordered_kafka.controller.topics.earlier import earlier_layouts
from spark_ordered_kafka.errors import UnavailableError


def layout(count: int, *starts: int, ordered: bool = True) -> LayoutRecord:
    return LayoutRecord(
        undeleted_partition_count=count,
        starts=list(starts),
        leader_epochs=[0] * len(starts),
        committed_at=0.0,
        ordered_delivery=ordered,
    )


def told(initial: int, *layouts: LayoutRecord) -> dict[int, list[int]]:
    return {entry.undeleted_partition_count: entry.ends for entry in earlier_layouts(initial, layouts)}


def test_the_ends_of_a_count_are_those_of_its_latest_epoch() -> None:
    history = [
        layout(2, 0, 0),
        layout(4, 10, 11, 0, 0),
        layout(2, 12, 13, 3, 4),
        layout(4, 20, 21, 3, 4),
        layout(3, 22, 23, 5, 6),
    ]
    assert told(2, *history[:1]) == {}
    assert told(2, *history[:2]) == {2: [10, 11]}
    assert told(2, *history[:3]) == {4: [0, 0, 3, 4]}, "partitions 0 and 1 have lost no key"
    assert told(2, *history[:4]) == {2: [20, 21]}
    assert told(2, *history) == {2: [20], 4: [0, 0, 0, 6]}


def test_an_unordered_epoch_ends_where_the_next_ordered_one_begins() -> None:
    history = [layout(1, 0), layout(1, 5, ordered=False), layout(2, 7, 0, ordered=False), layout(2, 9, 4)]
    assert told(1, *history) == {1: [9]}, "a writer may have held to one partition for long"
    assert told(1, layout(1, 0), layout(2, 5, 0), layout(2, 6, 1, ordered=False), layout(2, 9, 4)) == {1: [5]}
    assert told(1, *history[:3], layout(1, 9, 4)) == {2: [0, 4]}


def test_what_was_never_written_is_left_out() -> None:
    assert told(1, layout(1, 0), layout(2, 0, 0)) == {}
    assert told(1, layout(1, 0), layout(3, 0, 0, 0), layout(2, 4, 4, 0)) == {}


class Configs:
    def __init__(self) -> None:
        self.asked = 0
        self.policy = "delete"
        self.error: Exception | None = None
        self.answering = threading.Event()
        self.answering.set()

    def describe(self, topic: str) -> dict[str, str]:
        self.asked += 1
        assert self.answering.wait(30)
        if self.error is not None:
            raise self.error
        return {"cleanup.policy": self.policy}


class Asking:
    def __init__(self, *, timeout: float = 30.0) -> None:
        self.now = 0.0
        self.configs = Configs()
        self.read = 0
        self.history = [layout(1, 0), layout(2, 5, 0)]
        self._earlier = EarlierLayouts(cast(Any, self.configs), lambda: self.now, timeout)

    def __call__(
        self, *, epoch: int = 1, ordered: bool = True, topic_id: str = "id", management: int = 1
    ) -> list[EarlierLayout]:
        record = TopicRecord(
            topic_id=topic_id,
            initial_partition_count=1,
            undeleted_partition_count=2,
            layout_epoch=epoch,
            hash="murmur3",
            ordered_delivery=ordered,
        ).under(management)
        return self._earlier.of("t", record, self.layouts)

    def layouts(self) -> list[LayoutRecord]:
        self.read += 1
        return self.history


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete, compact"])
def test_a_compacted_topic_is_told(policy: str) -> None:
    ask = Asking()
    ask.configs.policy = policy
    assert ask() == ask() == [EarlierLayout(undeleted_partition_count=1, ends=[5])]
    assert (ask.configs.asked, ask.read) == (1, 1)


def test_kafka_is_not_asked_where_the_answer_is_known() -> None:
    ask = Asking()
    assert ask(epoch=0) == ask(ordered=False) == []
    assert ask.configs.asked == 0
    assert ask() == []
    assert (ask.configs.asked, ask.read) == (1, 0), "of another topic the layouts are not read either"


def test_the_policy_is_asked_for_again_after_a_while() -> None:
    ask = Asking()
    assert ask() == []
    ask.configs.policy = "compact"
    ask.now = POLICY_AGE - 0.1
    assert ask() == []
    ask.now = POLICY_AGE
    assert ask() != []
    assert ask(topic_id="another") != [], "a topic made anew is another topic"
    assert ask.configs.asked == 3


def test_a_topic_that_is_adopted_again_has_other_earlier_layouts() -> None:
    """Kafka's topic id is the same, and the epoch may be."""
    ask = Asking()
    ask.configs.policy = "compact"
    assert ask() == [EarlierLayout(undeleted_partition_count=1, ends=[5])]
    ask.history = [layout(1, 0), layout(2, 9, 0)]
    assert ask(management=2) == [EarlierLayout(undeleted_partition_count=1, ends=[9])]


def test_an_error_is_told_and_not_kept() -> None:
    ask = Asking()
    ask.configs.error = UnavailableError("no broker")
    for _ in range(2):
        with pytest.raises(UnavailableError, match="no broker"):
            ask()
    ask.configs.error, ask.configs.policy = None, "compact"
    assert ask() != []
    assert ask.configs.asked == 3


def test_many_writers_at_once_ask_once_also_when_kafka_is_slow() -> None:
    ask = Asking()
    ask.configs.policy = "compact"
    ask.configs.answering.clear()
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask) for _ in range(8)]
        ask.now = 10 * POLICY_AGE
        answers += [pool.submit(ask) for _ in range(8)]
        ask.configs.answering.set()
        assert all(answer.result(30) for answer in answers)
    assert ask.configs.asked <= 2, "the second one by who came after an answer that was old by then"


def test_who_waits_for_another_ones_question_gives_up_in_time() -> None:
    ask = Asking(timeout=0.01)
    ask.configs.answering.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask)
        while ask.configs.asked == 0:
            assert not first.done()
        with pytest.raises(UnavailableError, match="'t' is not known yet"):
            ask()
        ask.configs.answering.set()
        assert first.result(30) == []
