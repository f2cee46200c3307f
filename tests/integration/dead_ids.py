"""Unused transactional ids, made by the thousand, and a record of those that changes fence."""

from __future__ import annotations

import socket
import struct
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.controller.change.protocol import Instruction
from spark_ordered_kafka.kafka.fence import TRANSACTION_STATE_TOPIC, coordinator_partition
from tests.integration.controllers import InProcess
from tests.servers import TIMEOUT

_INIT_PRODUCER_ID, _VERSION = 22, 1
_IN_FLIGHT = 200


class Fences:
    """The ids of each fence for which writers waited."""

    def __init__(self, controller: InProcess) -> None:
        self.ids: list[tuple[str, ...]] = []
        controller.before = self._note

    def _note(self, instruction: Instruction) -> None:
        if isinstance(instruction, protocol.Fence):
            self.ids.append(instruction.transactional_ids)


def make_dead_ids(bootstrap_servers: str, topic: str, count: int, *, writer: str = "dead") -> list[str]:
    """Initialise ids of the topic's writers, as producers do that are never heard of again; returns them.

    Requests are sent without waiting for the answers to others, which no client library does, to all coordinators at once.
    """
    names = [f"ordered:{topic}:{writer}:{number}" for number in range(count)]
    # The log of transactions comes into being when a client looks for its coordinator.
    first = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": names[0]})
    first.init_transactions(TIMEOUT)
    by_coordinator = _by_coordinator(bootstrap_servers, names[1:])
    with ThreadPoolExecutor(len(by_coordinator)) as pool:
        for done in [pool.submit(_initialise, *one) for one in by_coordinator.items()]:
            done.result()
    return names


def _by_coordinator(bootstrap_servers: str, names: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    found = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(
        TRANSACTION_STATE_TOPIC, TIMEOUT
    )
    partitions = found.topics[TRANSACTION_STATE_TOPIC].partitions
    coordinators: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in names:
        leader = found.brokers[partitions[coordinator_partition(name, len(partitions))].leader]
        coordinators[str(leader.host), leader.port].append(name)
    return coordinators


def _initialise(coordinator: tuple[str, int], names: Sequence[str]) -> None:
    with socket.create_connection(coordinator, TIMEOUT) as connection:
        answers = connection.makefile("rb")
        left, deadline = list(names), time.monotonic() + TIMEOUT + len(names) / 100
        while left:
            assert time.monotonic() < deadline, f"{len(left)} of {len(names)} ids could not be initialised"
            left = [
                name
                for first in range(0, len(left), _IN_FLIGHT)
                for name in _refused(connection, answers, left[first : first + _IN_FLIGHT])
            ]


def _refused(connection: socket.socket, answers: BinaryIO, names: Sequence[str]) -> list[str]:
    """Initialise some at once; those to be tried again, since another request kept the coordinator busy."""
    connection.sendall(b"".join(map(_request, names)))
    return [name for name in names if _error_code(answers) != 0]


def _request(name: str) -> bytes:
    encoded = name.encode()
    header = struct.pack(">hhih", _INIT_PRODUCER_ID, _VERSION, 0, -1)
    body = struct.pack(">h", len(encoded)) + encoded + struct.pack(">i", 60_000)
    return struct.pack(">i", len(header + body)) + header + body


def _error_code(answers: BinaryIO) -> int:
    (length,) = struct.unpack(">i", answers.read(4))
    code: int
    _, _, code = struct.unpack(">iih", answers.read(length)[:10])
    return code
