"""Threads that ask the same at the same time share answers, none of which was asked for before they came."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from spark_ordered_kafka.errors import ClosedError, LayoutChangingError, UnavailableError
from spark_ordered_kafka.kafka.shared_answers import SHARED_ANSWERS, SharedAnswer, SharedAnswers
from tests.servers import TIMEOUT

THREADS = 20


class Asked:
    """A question whose answers are numbers, each of which comes when the test lets it."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.times = count(1)

    def ask(self) -> int:
        number = next(self.times)
        self.begun.release()
        assert self.may_end.acquire(timeout=TIMEOUT)
        return number


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS + 1) as opened:
        yield opened


def test_all_that_come_during_a_question_have_the_answer_to_a_later_one(pool: ThreadPoolExecutor) -> None:
    """How many share one is seen in ``tests/integration/test_ordered_producer.py``."""
    asked, shared = Asked(), SharedAnswer[int]()
    first = pool.submit(shared.get, asked.ask)
    assert asked.begun.acquire(timeout=TIMEOUT)
    others = [pool.submit(shared.get, asked.ask) for _ in range(THREADS)]
    asked.may_end.release(THREADS + 1)
    assert first.result(TIMEOUT) == 1
    assert all(one.result(TIMEOUT) >= 2 for one in others)


def test_no_answer_is_older_than_its_question(pool: ThreadPoolExecutor) -> None:
    """The register of a linearizability check: what was written before a read began is read."""
    shared, written, writing = SharedAnswers(), [0], threading.Lock()

    def read() -> int:
        found = written[0]
        # Others write and ask meanwhile.
        time.sleep(0)
        return found

    def work(_: int) -> list[tuple[int, int]]:
        found = []
        for _ in range(200):
            with writing:
                written[0] += 1
                mine = written[0]
            found.append((mine, shared.get("register", read)))
        return found

    for pairs in pool.map(work, range(THREADS)):
        older = [(mine, found) for mine, found in pairs if found < mine]
        assert older == [], f"{older} were asked for before"


def test_an_error_is_shared_too_and_everyone_has_an_object_of_its_own(pool: ThreadPoolExecutor) -> None:
    asked, shared = Asked(), SharedAnswer[int]()

    def refused() -> int:
        raise LayoutChangingError(f"t-{asked.ask()}", 0.5)

    def error_of(ask: Callable[[], int]) -> LayoutChangingError:
        with pytest.raises(LayoutChangingError) as raised:
            shared.get(ask)
        return raised.value

    coming = [pool.submit(error_of, refused) for _ in range(THREADS)]
    asked.may_end.release(THREADS)
    errors = [one.result(TIMEOUT) for one in coming]
    assert len(set(map(id, errors))) == THREADS
    assert {(error.topic[:2], error.retry_after, error.retriable) for error in errors} == {("t-", 0.5, True)}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ClosedError("the client is closed")])
def test_what_ends_the_thread_that_asks_is_no_answer_for_others(
    pool: ThreadPoolExecutor, error: BaseException
) -> None:
    """Another producer, whose client was closed for example."""
    asked, shared = Asked(), SharedAnswer[int]()

    def ended() -> int:
        asked.ask()
        raise error

    first = pool.submit(shared.get, ended)
    assert asked.begun.acquire(timeout=TIMEOUT)
    others = [pool.submit(shared.get, lambda: 7) for _ in range(THREADS)]
    asked.may_end.release()
    with pytest.raises(type(error)):
        first.result(TIMEOUT)
    assert [one.result(TIMEOUT) for one in others] == [7] * THREADS


def test_others_ask_again_after_an_error_that_is_no_answer(pool: ThreadPoolExecutor) -> None:
    """The second question, for which all but the first wait, ends with it."""
    asked, shared, questions = Asked(), SharedAnswer[int](), count(1)

    def ask() -> int:
        if next(questions) == 2:
            raise ClosedError("the client is closed")
        return asked.ask()

    def outcome() -> int | ClosedError:
        try:
            return shared.get(ask)
        except ClosedError as error:
            return error

    first = pool.submit(outcome)
    assert asked.begun.acquire(timeout=TIMEOUT)
    others = [pool.submit(outcome) for _ in range(THREADS)]
    asked.may_end.release(THREADS)
    assert first.result(TIMEOUT) == 1
    assert sum(isinstance(one.result(TIMEOUT), ClosedError) for one in others) == 1


def test_a_question_that_hangs_is_not_waited_for(pool: ThreadPoolExecutor) -> None:
    """Its client may not know yet that a controller hangs; before there was sharing, each found that out alone."""
    asked, shared = Asked(), SharedAnswer[int]()
    slow = pool.submit(shared.get, asked.ask)
    assert asked.begun.acquire(timeout=TIMEOUT)
    others = [pool.submit(shared.get, lambda: 7) for _ in range(THREADS)]
    assert [one.result(TIMEOUT) for one in others] == [7] * THREADS
    assert not slow.done()
    asked.may_end.release()
    assert slow.result(TIMEOUT) == 1


def test_other_questions_do_not_wait(pool: ThreadPoolExecutor) -> None:
    asked, shared = Asked(), SharedAnswers()
    slow = pool.submit(shared.get, "slow", asked.ask)
    assert asked.begun.acquire(timeout=TIMEOUT)
    assert shared.get("other", lambda: 5) == 5
    asked.may_end.release()
    assert slow.result(TIMEOUT) == 1


def test_nothing_is_kept_of_a_question_that_has_been_answered() -> None:
    shared = SharedAnswers()
    for number in range(3):
        assert shared.get(number, lambda number=number: number) == number  # type: ignore[misc]

        def fail() -> int:
            raise UnavailableError("away")

        with pytest.raises(UnavailableError, match="away"):
            shared.get("fails", fail)
    assert len(shared) == 0


def test_a_forked_process_waits_for_no_question_of_its_parent(pool: ThreadPoolExecutor) -> None:
    asked = Asked()
    waiting = pool.submit(SHARED_ANSWERS.get, "question", asked.ask)
    assert asked.begun.acquire(timeout=TIMEOUT)
    child = os.fork()
    if child == 0:
        os._exit(SHARED_ANSWERS.get("question", lambda: 3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    asked.may_end.release()
    assert waiting.result(TIMEOUT) == 1
