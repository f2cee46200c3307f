"""Errors and addresses, without a server."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from kafka import errors as kafka_errors

from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import coordinator_partition
from spark_ordered_kafka.kafka.requests import broker_error, is_transient, translated, was_not_executed
from tests.servers import await_true


def network_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kafka-io")}


@pytest.mark.parametrize("servers", ["", " , ", "localhost:abc", "127.0.0.1:9092,localhost:abc"])
def test_addresses_that_are_none_are_refused(servers: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        KafkaAdmin(servers, timeout=3)


def test_no_broker_at_the_address() -> None:
    before = network_threads()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        servers = f"127.0.0.1:1,127.0.0.1:{silent.getsockname()[1]}"

        def seconds() -> float:
            started = time.monotonic()
            with pytest.raises(UnavailableError, match=servers):
                KafkaAdmin(servers, timeout=1.5)
            return time.monotonic() - started

        # By the clock of a machine that may stand still meanwhile.
        await_true(lambda: seconds() < 5, "a refusal after 1.5 s")
    # Those of tests before may end meanwhile.
    await_true(lambda: network_threads() <= before, "no threads left behind")


def test_kafkas_code_is_kept() -> None:
    error = translated(broker_error(36, "it exists"), "create topic 'x'", "host:1")
    assert isinstance(error, RequestError)
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert str(error) == "TOPIC_ALREADY_EXISTS: create topic 'x': it exists"


def test_a_code_that_means_something_else_here_is_not_taken_over() -> None:
    error = translated(kafka_errors.UnsupportedForMessageFormatError("old"), "list", "host:1")
    assert isinstance(error, RequestError)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "UNSUPPORTED_FOR_MESSAGE_FORMAT: old" in str(error)
    assert "GUARD_RAILS" not in str(translated(broker_error(88), "list", "host:1"))


def test_a_code_unknown_to_the_library_is_told() -> None:
    error = translated(broker_error(12345, "new"), "list", "host:1")
    assert isinstance(error, RequestError)
    assert "new" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        broker_error(-1),
        broker_error(7),
        broker_error(14, "broker 1"),
        kafka_errors.KafkaConnectionError("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_pass_is_unavailable(error: kafka_errors.KafkaError) -> None:
    assert is_transient(error)
    assert not was_not_executed(error), "a change must not be sent again"
    found = translated(error, "list", "host:1")
    assert isinstance(found, UnavailableError)
    assert "host:1" in str(found)


# Hashes of java.lang.String.hashCode: 99162322, -1268878963 and -2147483648.
@pytest.mark.parametrize(
    ("transactional_id", "partitions", "expected"),
    [
        ("hello", 50, 22),
        ("foobar", 50, 13),
        ("polygenelubricants", 50, 0),
        ("polygenelubricants", 7, 0),
        ("", 50, 0),
        ("一", 20000, 0x4E00),
    ],
)
def test_coordinator_partition(transactional_id: str, partitions: int, expected: int) -> None:
    assert coordinator_partition(transactional_id, partitions) == expected % partitions


def test_a_request_is_sent_again_only_when_its_connection_was_refused() -> None:
    assert was_not_executed(kafka_errors.KafkaConnectionError("broker 3: 111 ECONNREFUSED"))
    assert not was_not_executed(kafka_errors.KafkaConnectionError("broker 3: Connection closed during send"))
    assert not was_not_executed(kafka_errors.KafkaConnectionError("broker 3: [Errno 104] ECONNRESET"))
