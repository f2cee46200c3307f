"""Results that one controller leaves to the next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_ordered_kafka.client.schemas import TopicResult
from spark_ordered_kafka.client.takeover import settled
from spark_ordered_kafka.errors import ErrorCode, UnavailableError

DONE, LEFT, REFUSED = 0, ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST


class Asked:
    """Plays what controllers answer, one after another; its clock moves with its sleeps."""

    def __init__(self, *answers: Sequence[int] | Exception) -> None:
        self._answers = list(answers)
        self.now = 0.0
        self.asked: list[tuple[list[int], float | None]] = []

    def __call__(self, items: Sequence[int], wait: float | None) -> list[TopicResult]:
        self.asked.append((list(items), wait))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [
            TopicResult(topic=str(item), error_code=code) for item, code in zip(items, answer, strict=True)
        ]

    def settled(self, count: int, wait: float | None) -> list[tuple[str, int]]:
        found = settled(self, count, wait, lambda: self.now, self._sleep)
        return [(item.topic, item.error_code) for item in found]

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def test_what_is_settled_is_not_asked_again() -> None:
    asked = Asked([DONE, REFUSED])
    assert asked.settled(2, 5.0) == [("0", DONE), ("1", REFUSED)]
    assert asked.asked == [([0, 1], 5.0)]


def test_only_what_was_left_is_asked_again_for_the_rest_of_the_time() -> None:
    asked = Asked([LEFT, REFUSED, LEFT], [DONE, LEFT], [REFUSED])
    assert asked.settled(3, 5.0) == [("0", DONE), ("1", REFUSED), ("2", REFUSED)]
    assert [items for items, _ in asked.asked] == [[0, 1, 2], [0, 2], [2]]
    assert [wait for _, wait in asked.asked] == pytest.approx([5.0, 4.9, 4.8])


@pytest.mark.parametrize("wait", [None, 3.0])
def test_asking_ends(wait: float | None) -> None:
    asked = Asked([LEFT])
    assert asked.settled(1, wait) == [("0", LEFT)]
    assert asked.now == pytest.approx(15.0 if wait is None else wait)
    assert all((one is None) == (wait is None) for _, one in asked.asked)


def test_what_is_known_is_told_when_nobody_answers_any_more() -> None:
    asked = Asked([LEFT, DONE], UnavailableError("gone"))
    assert asked.settled(2, 5.0) == [("0", LEFT), ("1", DONE)]


def test_the_first_question_may_fail() -> None:
    with pytest.raises(UnavailableError, match="gone"):
        Asked(UnavailableError("gone")).settled(1, 5.0)
