"""How answers about something that goes on are shown, and when nobody waits any longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from spark_ordered_kafka.cli.follow import Show, follow, lines
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

AWAY = UnavailableError("no controller answers")


def scripted(*answers: int | OrderedKafkaError) -> Callable[[], int]:
    left = iter(answers)

    def ask() -> int:
        answer = next(left)
        if isinstance(answer, OrderedKafkaError):
            raise answer
        return answer

    return ask


@contextmanager
def into(shown: list[int | None]) -> Iterator[Show[int]]:
    yield shown.append


def followed(ask: Callable[[], int], shown: list[int | None], *, seconds: float = 0.0) -> int:
    """Until an answer is 9; each pause takes ``seconds``."""
    pauses: list[float] = []
    return follow(
        ask,
        into(shown),
        lambda _, now: now == 9,
        unfinished="it goes on",
        clock=lambda: seconds * len(pauses),
        sleep=pauses.append,
    )


def test_each_answer_is_shown_and_the_last_is_returned() -> None:
    shown: list[int | None] = []
    assert followed(scripted(1, AWAY, 1, 2, 9), shown) == 9
    assert shown == [1, None, 1, 2, 9]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([1] * 20, "nothing has changed for 600 s"),
        ([1, *[AWAY] * 20], "no controller answers"),
        ([AWAY] * 20, "no controller answers"),
    ],
)
def test_what_makes_no_progress_is_given_up(answers: list[int | OrderedKafkaError], reason: str) -> None:
    with pytest.raises(UnavailableError, match=f"^{reason}; it goes on$"):
        followed(scripted(*answers), [], seconds=100.0)


def test_what_makes_progress_is_followed_for_as_long_as_it_takes() -> None:
    slow = [number for number in range(100, 130) for _ in range(3)]
    assert followed(scripted(*slow, 9), [], seconds=100.0) == 9


def test_what_asking_again_cannot_mend_is_raised() -> None:
    gone = RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
    with pytest.raises(RequestError, match="gone"):
        followed(scripted(1, gone), [])


def written(answers: list[int | None], *, seconds: float) -> list[str]:
    """The lines of ``answers``, of which each comes so many seconds after the one before."""
    told: list[str] = []
    now = 0.0
    with lines("at {}".format, told.append, lambda: now) as show:
        for answer in answers:
            show(answer)
            now += seconds
    return told


def test_lines_come_at_the_beginning_the_end_and_now_and_then() -> None:
    assert written([0, 1, 2, 3, 4, 5, None, 7, 8], seconds=2.0) == [
        "at 0",
        "at 3",
        "waiting for a controller",
        "at 8",
    ]


def test_lines_are_not_repeated_while_nothing_changes() -> None:
    assert written([1, 1, 1, 1], seconds=10.0) == ["at 1"]
