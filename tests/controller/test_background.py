"""What a leader does again and again: its errors, its pauses, and how it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from spark_ordered_kafka.controller import background
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

    work = Background("test", "the work", lambda _: 0.0, step)
    work.start()
    assert over.wait(TIMEOUT)
    work.stop(TIMEOUT)
    return work


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Those of background work: clients of other tests may still have something to say."""
    return [one for one in caplog.records if one.name == background.__name__]


def test_an_error_is_logged_once_until_a_step_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    away = UnavailableError("away")
    run(away, away, UnavailableError("far away"), away, away, None, away)
    expected = [f"the work: not at the moment: {why}" for why in ("away", "far away", "away", "away")]
    assert [one.getMessage() for one in records(caplog)] == expected


def test_a_bug_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    run(ValueError("a bug"))
    (record,) = records(caplog)
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_a_deposed_controller_ends_it_and_may_begin_again() -> None:
    begun: list[str] = []
    entered = threading.Event()

    def step(_: threading.Event) -> None:
        begun.append(threading.current_thread().name)
        entered.set()
        raise DeposedError

    work = Background("test", "the work", lambda _: 0.0, step)
    for _ in range(2):
        work.start()
        # One that is stopped before its thread runs has no step at all.
        assert entered.wait(TIMEOUT)
        work.stop(TIMEOUT)
        entered.clear()
    assert begun == ["test", "test"]


def test_a_step_that_runs_is_told_of_the_end() -> None:
    entered = threading.Event()
    told: list[bool] = []

    def step(stop: threading.Event) -> None:
        entered.set()
        told.append(stop.wait(TIMEOUT))

    work = Background("test", "the work", every(TIMEOUT), step)
    work.start()
    assert entered.wait(TIMEOUT)
    work.begin_stop()
    work.stop(TIMEOUT)
    assert told == [True]


def test_one_subject_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def failing(error: Exception) -> Callable[[], None]:
        def fail() -> None:
            raise error

        return fail

    work = Background("test", "the work", every(1.0), lambda _: None)
    for _ in range(2):
        work.attempt("a", "topic a", failing(UnavailableError("away")))
        work.attempt("b", "topic b", failing(UnavailableError("away")))
    assert [one.getMessage() for one in records(caplog)] == ["topic a: away", "topic b: away"]
    work.attempt("a", "topic a", lambda: None)
    work.attempt("a", "topic a", failing(UnavailableError("away")))
    assert len(records(caplog)) == 3
    with pytest.raises(DeposedError):
        work.attempt("a", "topic a", failing(DeposedError()))


def test_steps_begin_at_an_interval() -> None:
    pause = every(5.0)
    assert [pause(took) for took in (0.0, 2.0, 5.0, 7.0)] == [5.0, 3.0, 0.0, 0.0]
