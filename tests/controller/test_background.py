"""What a leader does again and again: its errors, its pauses, and how it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from spark_ordered_kafka.controller.background import Background, every
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import UnavailableError
from tests.servers import TIMEOUT


def run(*steps: Exception | None) -> Background:
    """All ``steps``, of which some raise; returns after the last one."""
    left: Iterator[Exception | None] = iter(steps)
    over = threading.Event()

    def step(_: threading.Event) -> None:
        error = next(left, over)
        if error is over:
            over.set()
        elif isinstance(error, Exception):
            raise error

    background = Background("test", "the work", lambda _: 0.0, step)
    background.start()
    assert over.wait(TIMEOUT)
    background.stop(TIMEOUT)
    return background


def test_an_error_is_logged_once_until_a_step_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    away = UnavailableError("away")
    run(away, away, UnavailableError("far away"), away, away, None, away)
    expected = [f"the work: not at the moment: {why}" for why in ("away", "far away", "away", "away")]
    assert [one.getMessage() for one in caplog.records] == expected


def test_a_bug_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    run(ValueError("a bug"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_a_deposed_controller_ends_it_and_may_begin_again() -> None:
    begun: list[str] = []
    deposed = threading.Event()

    def step(_: threading.Event) -> None:
        begun.append(threading.current_thread().name)
        if len(begun) == 2:
            deposed.set()
        raise DeposedError

    background = Background("test", "the work", lambda _: 0.0, step)
    background.start()
    background.stop(TIMEOUT)
    background.start()
    assert deposed.wait(TIMEOUT)
    background.stop(TIMEOUT)
    assert begun == ["test", "test"]


def test_a_step_that_runs_is_told_of_the_end() -> None:
    entered = threading.Event()
    told: list[bool] = []

    def step(stop: threading.Event) -> None:
        entered.set()
        told.append(stop.wait(TIMEOUT))

    background = Background("test", "the work", every(TIMEOUT), step)
    background.start()
    assert entered.wait(TIMEOUT)
    background.begin_stop()
    background.stop(TIMEOUT)
    assert told == [True]


def test_one_subject_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def failing(error: Exception) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    background = Background("test", "the work", every(1.0), lambda _: None)
    for _ in range(2):
        background.attempt("a", "topic a", failing(UnavailableError("away")))
        background.attempt("b", "topic b", failing(UnavailableError("away")))
    assert [one.getMessage() for one in caplog.records] == ["topic a: away", "topic b: away"]
    background.attempt("a", "topic a", lambda: None)
    background.attempt("a", "topic a", failing(UnavailableError("away")))
    assert len(caplog.records) == 3
    with pytest.raises(DeposedError):
        background.attempt("a", "topic a", failing(DeposedError()))


def test_steps_begin_at_an_interval() -> None:
    pause = every(5.0)
    assert [pause(took) for took in (0.0, 2.0, 5.0, 7.0)] == [5.0, 3.0, 0.0, 0.0]
