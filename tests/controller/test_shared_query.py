"""One question for all who want to know."""

from __future__ import annotations

import threading

import pytest

from spark_ordered_kafka.controller.shared_query import Answer, SharedQuery
from spark_ordered_kafka.errors import UnavailableError
from tests.servers import TIMEOUT, await_true

MAX_AGE = 1.0


class Server:
    """Answers when it is let; ``asked`` counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 100.0
        self.away = False
        self.answers = threading.Event()
        self.answers.set()
        self.query = SharedQuery("answers", self._answer, lambda: self.now)

    def _answer(self) -> int:
        self.asked += 1
        assert self.answers.wait(TIMEOUT)
        if self.away:
            raise UnavailableError("away")
        return self.asked


def test_all_who_ask_meanwhile_wait_for_one_answer() -> None:
    server = Server()
    server.answers.clear()
    first = server.query.outcome(MAX_AGE)
    # The answer is as old as the question, which a thread begins in its own time.
    await_true(lambda: server.asked == 1, "the question has begun")
    server.now += 10 * MAX_AGE
    assert {id(server.query.outcome(MAX_AGE)) for _ in range(100)} == {id(first)}
    server.answers.set()
    assert first.result(TIMEOUT) == Answer(1, 100.0)
    assert server.asked == 1
    server.query.close()


def test_an_answer_counts_for_a_while_whatever_it_is() -> None:
    server = Server()
    for asked, away in enumerate((False, True, True, False), 1):
        server.away = away
        server.now += MAX_AGE
        assert isinstance(server.query.outcome(MAX_AGE).exception(TIMEOUT), UnavailableError) is away
        server.now += MAX_AGE / 2
        server.away = not away
        assert isinstance(server.query.outcome(MAX_AGE).exception(TIMEOUT), UnavailableError) is away
        assert server.asked == asked
    server.query.close()


def test_nothing_is_asked_after_the_end() -> None:
    server = Server()
    known = server.query.outcome(MAX_AGE).result(TIMEOUT)
    server.query.close()
    server.now += 2 * MAX_AGE
    with pytest.raises(UnavailableError, match="about to end"):
        server.query.outcome(MAX_AGE).result(TIMEOUT)
    assert (server.query.latest, server.asked) == (known, 1)


def test_an_error_does_not_replace_the_latest_answer() -> None:
    server = Server()
    assert (server.query.latest, server.query.age()) == (None, None)
    server.query.outcome().result(TIMEOUT)
    server.now += 7
    server.away = True
    assert isinstance(server.query.outcome().exception(TIMEOUT), UnavailableError)
    assert (server.query.latest, server.query.age()) == (Answer(1, 100.0), 7)
    server.query.close()
