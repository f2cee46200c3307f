"""Where a history may begin; ``tests/properties/test_folding.py`` shows that nothing is lost by it."""

from __future__ import annotations

from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.controller.topics.folding import foldable


def layouts(*starts: list[int], unordered: tuple[int, ...] = (), first: int = 0) -> dict[int, LayoutRecord]:
    return {
        epoch: LayoutRecord(
            undeleted_partition_count=1,
            starts=list(of),
            leader_epochs=[0] * len(of),
            committed_at=0.0,
            ordered_delivery=epoch not in unordered,
        )
        for epoch, of in enumerate(starts, first)
    }


HISTORY = layouts([0, 0], [10, 0], [10, 5, 0], [30, 5, 7])


def test_every_log_must_begin_at_or_behind_the_starts() -> None:
    assert foldable(HISTORY, {0: 0, 1: 0, 2: 0}) == 0
    assert foldable(HISTORY, {0: 9, 1: 99, 2: 99}) == 0
    assert foldable(HISTORY, {0: 10, 1: 0, 2: 0}) == 1
    assert foldable(HISTORY, {0: 10, 1: 5, 2: 0}) == 2
    assert foldable(HISTORY, {0: 30, 1: 5, 2: 6}) == 2
    assert foldable(HISTORY, {2: 7, 0: 30, 1: 5}) == 3
    assert foldable(HISTORY, {0: 99, 1: 99, 2: 99, 3: 0}) == 3


def test_a_partition_whose_log_is_not_known_keeps_what_it_may_hold() -> None:
    assert foldable(HISTORY, {0: 99, 1: 99}) == 2
    assert foldable(HISTORY, {0: 99, 2: 99}) == 1
    assert foldable(HISTORY, {}) == 0


def test_what_was_folded_before_counts() -> None:
    later = layouts([10, 5, 0], [30, 5, 7], first=2)
    assert foldable(later, {0: 10, 1: 5, 2: 0}) == 2
    assert foldable(later, {0: 30, 1: 5, 2: 7}) == 3
    assert foldable(layouts([7], first=9), {0: 0}) == 9


def test_an_empty_topic_keeps_its_newest_layout_alone() -> None:
    assert foldable(layouts([0], [0, 0], [0, 0, 0]), {0: 0, 1: 0, 2: 0}) == 2


def test_no_history_begins_between_two_unordered_epochs() -> None:
    """The writers of the first are fenced only when the next ordered one begins."""
    logs = {0: 99, 1: 99, 2: 99}
    for unordered, expected in (
        ((3,), 3),
        ((2, 3), 2),
        ((1, 2, 3), 1),
        ((0, 1, 2, 3), 0),
        ((1, 2), 3),
        ((2,), 3),
    ):
        history = layouts([0, 0], [10, 0], [10, 5, 0], [30, 5, 7], unordered=unordered)
        assert foldable(history, logs) == expected, unordered
