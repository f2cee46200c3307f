"""What brokers tell is doubted until all may have heard of the newest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import (
    StaleMetadata,
    View,
    all_show,
    contradicted,
    replicas_of,
)
from spark_ordered_kafka.controller.reassign.requests.validation import Known
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.kafka.values import PartitionDescription, PartitionId, TopicDescription

PLACE = ("t", 0)


def described(*replicas: Sequence[int]) -> dict[str, TopicDescription]:
    rows = tuple(PartitionDescription(p, r[0], 0, tuple(r), tuple(r)) for p, r in enumerate(replicas))
    return {"t": TopicDescription("t", "id", False, rows)}


def moved(before: Sequence[int], after: Sequence[int]) -> dict[PartitionId, Move]:
    return {PLACE: Move(topic="t", partition=0, before=tuple(before), after=tuple(after), state="done")}


class Told:
    """Tells what a test says in place of all brokers; counts the questions to the brokers."""

    def __init__(self, done: Mapping[PartitionId, Move] | None = None, *, agreeing: bool = True) -> None:
        self.done = done or {}
        self.agreeing = agreeing
        self.questions = 0

    def moved(self, tps: Collection[PartitionId]) -> Mapping[PartitionId, Move]:
        return {tp: move for tp, move in self.done.items() if tp in tps}

    def agree(self, known: Known, names: Collection[str]) -> bool:
        self.questions += 1
        return self.agreeing


def doubt(told: Told, *times: float) -> StaleMetadata:
    clock: Iterator[float] = iter([0.0, *times])
    return StaleMetadata(cast(Any, told), lambda: next(clock))


def known(*replicas: Sequence[int]) -> Known:
    return Known(topics=described(*replicas), alive={1, 2, 3})


class TestDoubt:
    def test_nobody_is_asked_about_what_is_taken(self) -> None:
        told = Told(agreeing=False)
        assert not doubt(told, 0.0, 0.0).remains(known([1]), {PLACE}, refused=False)
        assert told.questions == 0

    def test_a_refusal_is_believed_once_all_agree_for_a_while(self) -> None:
        told = Told()
        assert doubt(told, 0.1, 0.1).remains(known([1]), {PLACE}, refused=True)
        assert told.questions == 0
        assert not doubt(told, 1.1, 1.1).remains(known([1]), {PLACE}, refused=True)
        assert told.questions == 1

    @pytest.mark.parametrize(("after", "remains"), [(1.1, True), (4.9, True), (5.1, False)])
    def test_brokers_that_differ_have_some_seconds(self, after: float, remains: bool) -> None:
        told = Told(agreeing=False)
        assert doubt(told, after, after).remains(known([1]), {PLACE}, refused=True) is remains

    @pytest.mark.parametrize("refused", [True, False])
    def test_what_an_earlier_request_has_changed_was_not_heard_of(self, refused: bool) -> None:
        told = Told(moved([1, 2], [1]))
        assert doubt(told, 0.1, 0.1).remains(known([1, 2]), {PLACE}, refused=refused)
        assert not doubt(told, 0.1, 0.1).remains(known([1]), {PLACE}, refused=False)
        # Somebody else may have put it back.
        assert not doubt(told, 5.1, 5.1).remains(known([1, 2]), {PLACE}, refused=False)


def test_contradicted() -> None:
    assert contradicted({PLACE: (1, 2)}, moved([1, 2], [2, 1]))
    assert not contradicted({PLACE: (2, 1)}, moved([1, 2], [2, 1]))
    assert not contradicted({PLACE: (3,)}, moved([1, 2], [2, 1]))
    assert not contradicted({}, moved([1, 2], [2, 1]))
    # Kafka shows old and new replicas together during a move.
    assert contradicted({PLACE: (3, 1, 2)}, moved([1, 2], [3, 1]))
    assert contradicted({PLACE: (2, 1)}, moved([1, 2], [2]))
    assert not contradicted({PLACE: (3, 1)}, moved([1, 2], [3, 1]))
    assert not contradicted({PLACE: (1, 2, 3)}, moved([1, 2], [1, 2, 3]))
    # Moved between log directories only.
    assert not contradicted({PLACE: (1, 2)}, moved([1, 2], [1, 2]))


def test_replicas_of_places_that_exist() -> None:
    found = replicas_of(described([1], [2, 3]), [("t", 1), ("t", 2), ("t", -1), ("u", 0)])
    assert found == {("t", 1): (2, 3)}


class TestAgreement:
    SAME: View = ({1, 2, 3}, {"t": {0: (1, 2), 1: (3,)}})

    def test_brokers_agree_when_each_shows_what_is_known(self) -> None:
        assert all_show([self.SAME] * 3, known([1, 2], [3]), ["t"])
        # A topic that no broker knows is known to be missing.
        assert all_show([self.SAME], known([1, 2], [3]), ["t", "u"])

    @pytest.mark.parametrize(
        "other",
        [
            ({1, 2}, {"t": {0: (1, 2), 1: (3,)}}),
            ({1, 2, 3, 4}, {"t": {0: (1, 2), 1: (3,)}}),
            ({1, 2, 3}, {"t": {0: (2, 1), 1: (3,)}}),
            ({1, 2, 3}, {"t": {0: (1, 2)}}),
            ({1, 2, 3}, {"t": {0: (1, 2), 1: (3,), 2: (3,)}}),
            ({1, 2, 3}, {}),
        ],
    )
    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_one_broker_that_differs_is_enough(self, other: View, position: int) -> None:
        views = [self.SAME, self.SAME]
        views.insert(position, other)
        assert not all_show(views, known([1, 2], [3]), ["t"])
