"""One question to Kafka for all who want to know whether it answers."""

from __future__ import annotations

import threading

import pytest

from spark_ordered_kafka.controller.monitoring.probing import MAX_AGE, Probe
from spark_ordered_kafka.errors import UnavailableError
from tests.servers import TIMEOUT


class Server:
    """Answers when it is let; ``asked`` counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 100.0
        self.away = False
        self.answers = threading.Event()
        self.answers.set()
        self.probe = Probe(self._answer, lambda: self.now)

    def _answer(self) -> None:
        self.asked += 1
        assert self.answers.wait(TIMEOUT)
        if self.away:
            raise UnavailableError("away")


def test_all_who_ask_meanwhile_wait_for_one_answer() -> None:
    server = Server()
    server.answers.clear()
    first = server.probe.outcome()
    server.now += 10 * MAX_AGE
    assert {id(server.probe.outcome()) for _ in range(100)} == {id(first)}
    server.answers.set()
    assert first.result(TIMEOUT) is None
    assert server.asked == 1
    server.probe.close()


def test_an_answer_counts_for_a_while_whatever_it_is() -> None:
    server = Server()
    for asked, away in enumerate((False, True, True, False), 1):
        server.away = away
        server.now += MAX_AGE
        assert isinstance(server.probe.outcome().exception(TIMEOUT), UnavailableError) is away
        server.now += MAX_AGE / 2
        server.away = not away
        assert isinstance(server.probe.outcome().exception(TIMEOUT), UnavailableError) is away
        assert server.asked == asked
    server.probe.close()


def test_nothing_is_asked_after_the_end() -> None:
    server = Server()
    server.probe.close()
    with pytest.raises(UnavailableError, match="about to end"):
        server.probe.outcome()
