"""What a query shows of its topics in its progress, and in the log."""

from __future__ import annotations

import json
import logging

import pytest

from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.ordering import Layout, LayoutHistory, readable
from spark_ordered_kafka.ordering.routing import Routing
from spark_ordered_kafka.spark import logs
from spark_ordered_kafka.spark.progress import TopicProgress, layout_lines, report


def layouts(*of_history: Layout, topic: str = "orders") -> TopicLayouts:
    history = LayoutHistory(of_history[0].count, of_history)
    routings = tuple(Routing("murmur3", history.initial_count, one.count) for one in of_history)
    return TopicLayouts(topic, "id", history, routings)


# 2 -> 4 -> 3 partitions
GROWN = layouts(Layout(0, 2, (0, 0)), Layout(1, 4, (10, 20, 0, 0)), Layout(2, 3, (15, 25, 5, 7)))


def progress(
    positions: dict[int, int], ends: dict[int, int], reached: dict[int, int] | None = None
) -> TopicProgress:
    gate = readable(GROWN.history, positions, ends)
    return TopicProgress(GROWN, positions, gate, gate if reached is None else reached, ends)


def test_a_query_at_the_ends_is_behind_by_nothing() -> None:
    ends = {0: 30, 1: 40, 2: 9, 3: 7}
    assert report({"orders": progress(ends, ends)}) == {
        "offsetsBehindLatest": 0,
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 0,
        "avgOffsetsBehindLatest": 0.0,
        "topics": {
            "orders": {
                "layoutEpoch": 2,
                "partitions": 3,
                "offsetsBehindLatest": 0,
                "minOffsetsBehindLatest": 0,
                "maxOffsetsBehindLatest": 0,
                "avgOffsetsBehindLatest": 0.0,
                "partitionsHeldBack": 0,
            }
        },
    }


def test_what_the_gate_holds_back_says_what_it_waits_for() -> None:
    """Partition 2 has keys that were in 0 until there were four; 0 is not limited by the gate, but by the trigger."""
    ends = {0: 30, 1: 25, 2: 9, 3: 7}
    found = report({"orders": progress({0: 4, 1: 25, 2: 0, 3: 7}, ends, {0: 6, 1: 25, 2: 0, 3: 7})})
    assert (found["offsetsBehindLatest"], found["maxOffsetsBehindLatest"]) == (33, 24)
    assert (found["minOffsetsBehindLatest"], found["avgOffsetsBehindLatest"]) == (0, 8.2)
    topic = found["topics"]["orders"]
    assert topic["mostBehind"] == {"0": 24, "2": 9}
    assert (topic["partitionsHeldBack"], topic["offsetsHeldBack"]) == (1, 9)
    assert topic["oldestUnreadLayoutEpoch"] == 0
    assert topic["heldBack"] == {
        "2": {"at": 0, "layoutEpoch": 1, "waitsFor": [{"partition": 0, "position": 4, "toReach": 10}]}
    }


def test_why_there_is_no_progress_is_said_beside_what_was_known() -> None:
    ends = {0: 30, 1: 25, 2: 9, 3: 7}
    found = report({"orders": progress(ends, ends)}, "no broker answers")
    assert found["noProgress"] == "no broker answers"
    assert found["topics"]["orders"]["offsetsBehindLatest"] == 0
    assert report({}, "no broker answers") == {"topics": {}, "noProgress": "no broker answers"}


def test_the_report_stays_small_however_many_partitions_and_topics_there_are() -> None:
    many = layouts(Layout(0, 5_000, [0] * 5_000), Layout(1, 10_000, [7] * 5_000 + [0] * 5_000))
    zeros, ends = dict.fromkeys(range(10_000), 0), {p: 10 + p for p in range(10_000)}
    gate = readable(many.history, zeros, ends)
    one = TopicProgress(many, zeros, gate, gate, ends)
    found = report({f"topic-{number:03}": one for number in range(60)})
    topic = found["topics"]["topic-059"]
    assert (topic["partitionsHeldBack"], len(topic["heldBack"]), len(topic["mostBehind"])) == (5_000, 3, 5)
    assert topic["heldBack"]["9999"]["waitsFor"] == [{"partition": 4_999, "position": 0, "toReach": 7}]
    assert (len(found["topics"]), found["topicsNotShown"]) == (50, 10)
    assert len(json.dumps(topic)) < 1_000


def test_each_layout_is_one_line() -> None:
    assert layout_lines(GROWN, 0) == [
        "topic 'orders': layout epoch 1, 4 partitions, before 2; it begins at 0: 10, 1: 20, 2: 0, 3: 0",
        "topic 'orders': layout epoch 2, 3 partitions, before 4; it begins at 0: 15, 1: 25, 2: 5, 3: 7",
    ]
    assert layout_lines(GROWN, 2) == []
    assert layout_lines(GROWN, None) == ["topic 'orders': the query begins with layout epoch 2, 3 partitions"]
    folded = layouts(Layout(7, 2, (3, 4)))
    assert layout_lines(folded, 4) == [
        "topic 'orders': layout epoch 7, 2 partitions; it begins at 0: 3, 1: 4"
    ]
    many = layouts(*(Layout(epoch, 1, (epoch,)) for epoch in range(30)))
    first, *lines = layout_lines(many, 4)
    assert first == "topic 'orders': 5 layouts before the following ones"
    assert [line.split()[4] for line in lines] == [f"{epoch}," for epoch in range(10, 30)]
    wide = layouts(Layout(0, 12, (0,) * 12), Layout(1, 13, (1,) * 12 + (0,)))
    (line,) = layout_lines(wide, 0)
    assert line.endswith("9: 1 and 3 more")


def test_information_is_printed_where_nobody_has_set_up_logging(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package = logging.getLogger("spark_ordered_kafka")
    monkeypatch.setattr(package, "handlers", [])
    monkeypatch.setattr(package, "level", package.level)
    logs.show_information()
    assert package.handlers == []  # pytest has its own handlers at the root
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logs.show_information()
    logs.show_information()
    assert len(package.handlers) == 1
    logging.getLogger("spark_ordered_kafka.spark.stream").info("a line")
    assert capfd.readouterr().err.endswith(" INFO spark_ordered_kafka.spark.stream: a line\n")
