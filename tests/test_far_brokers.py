"""The long way to a broker that is far away."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from spark_ordered_kafka.local.ports import HOST
from tests.far_brokers import ONE_WAY, Way
from tests.servers import TIMEOUT

SENT = bytes(range(256)) * 8192


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """It listens; a test that closes it has a broker that is down."""
    with socket.create_server((HOST, 0)) as listening:
        yield listening


@pytest.fixture
def way(server: socket.socket) -> Iterator[Way]:
    way = Way(server.getsockname()[1], set())
    yield way
    way.close()


def _echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)


def _client(way: Way) -> socket.socket:
    return socket.create_connection((HOST, way.listened), TIMEOUT)


def test_what_is_sent_arrives_whole_and_late(server: socket.socket, way: Way) -> None:
    echo = threading.Thread(target=_echo, args=(server,), daemon=True)
    echo.start()
    with _client(way) as client, client.makefile("rb") as found:
        begun = time.monotonic()
        threading.Thread(target=client.sendall, args=(SENT,), daemon=True).start()
        first = found.read(1)
        # Never sooner, however busy the machine is.
        assert time.monotonic() - begun >= 2 * ONE_WAY
        assert first + found.read(len(SENT) - 1) == SENT
    echo.join(TIMEOUT)
    assert not echo.is_alive(), "the other side hears of the end"


def test_a_broker_that_is_down_ends_every_connection(server: socket.socket, way: Way) -> None:
    server.close()
    with _client(way) as client:
        assert client.recv(1) == b""
