"""What clients do while no broker answers."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.kafka.client_log import NoiseFilter
from spark_ordered_kafka.kafka.properties import client_properties, consumer_properties
from tests.servers import TIMEOUT

CLIENTS: dict[str, Callable[[str], Any]] = {
    "consumer": lambda servers: Consumer(consumer_properties({"bootstrap.servers": servers})),
    "producer": lambda servers: Producer(client_properties({"bootstrap.servers": servers})),
    "admin": lambda servers: AdminClient(client_properties({"bootstrap.servers": servers})),
}


class Deaf:
    """A server that ends every connection, and knows when each came."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.attempts: list[float] = []
        self._came = threading.Condition()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Deaf:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.close()
                with self._came:
                    self.attempts.append(time.monotonic())
                    self._came.notify_all()

    def await_attempts(self, count: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: len(self.attempts) >= count, TIMEOUT), (
                f"{len(self.attempts)} attempts"
            )


@pytest.fixture
def server() -> Iterator[Deaf]:
    with Deaf() as server:
        yield server


@pytest.mark.parametrize(
    "kind", [kind if kind == "consumer" else pytest.param(kind, marks=pytest.mark.long) for kind in CLIENTS]
)
def test_a_client_that_nobody_polls_asks_less_and_less_often(server: Deaf, kind: str) -> None:
    client = CLIENTS[kind](server.address)
    server.await_attempts(8)
    del client
    # Beginning with 20 ms. Each attempt leaves lines in a queue that only poll() empties.
    first, last = server.attempts[0], server.attempts[7]
    assert last - first > 1.0, "the pauses grow"


def record(*args: str) -> logging.LogRecord:
    return logging.LogRecord("spark_ordered_kafka.librdkafka", logging.ERROR, "", 0, "%s [%s] %s", args, None)


def test_what_is_repeated_is_logged_once_in_half_a_minute() -> None:
    now = 100.0
    noise_filter = NoiseFilter(lambda: now)
    said = [record("FAIL", "c#1", f"Connection refused (after {ms}ms in state CONNECT)") for ms in (0, 3, 7)]
    assert [noise_filter.filter(one) for one in said] == [True, False, False]
    assert noise_filter.filter(record("FAIL", "c#2", "Connection refused (after 0ms in state CONNECT)"))
    assert noise_filter.filter(record("FAIL", "c#1", "Disconnected (after 0ms in state UP)"))
    now = 129.0
    assert not noise_filter.filter(said[0])
    now = 130.0
    assert [noise_filter.filter(one) for one in said] == [True, False, False]


def test_what_is_said_of_a_fenced_producer_is_no_news() -> None:
    assert not NoiseFilter().filter(record("TXNERR", "p#1", "fenced"))


def test_what_is_said_of_properties_for_another_kind_of_client_is_no_news() -> None:
    """A reader's properties are those of its admin client, too."""
    name, place = "rdkafka#producer-1", "[thrd:app]: "
    text = "Configuration property session.timeout.ms is a consumer property and will be ignored by this producer instance"
    assert not NoiseFilter().filter(record("CONFWARN", name, place + text))
    assert NoiseFilter().filter(
        record("CONFWARN", name, place + "Configuration property request.timeout.ms is deprecated")
    )
