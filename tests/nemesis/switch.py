"""Carries packets between network namespaces, and loses or delays some: ``python -m tests.nemesis.switch NUMBER=FD...``.

NUMBER is the last part of a host's address, FD its TUN device. Standard input has a line of JSON for each new set of
rules, ``[[from, to, loss, delay], ...]``: the part of the packets that is lost (1: all), and seconds. Every set replaces the
one before it, and is answered by a line.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import select
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

_PACKET = 1 << 16
_BURST = 64
_IPV4 = 4
_DESTINATION = 19
"""Where an IPv4 header has the last byte of the destination's address."""


class Switch:
    """Hosts, rules, and packets that are late."""

    def __init__(self, devices: dict[int, int]) -> None:
        self._devices = devices
        self._hosts = {device: host for host, device in devices.items()}
        self._rules: dict[tuple[int, int], tuple[float, float]] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._count = itertools.count()
        self._rng = random.Random()

    def run(self) -> None:
        """Until standard input ends."""
        poll = select.poll()
        for number in (0, *self._hosts):
            poll.register(number, select.POLLIN)
        text = b""
        while True:
            for ready, _ in poll.poll(self._patience()):
                if ready != 0:
                    for packet in _packets(ready):
                        self._carry(self._hosts[ready], packet)
                    continue
                data = os.read(0, _PACKET)
                if not data:
                    return
                *lines, text = (text + data).split(b"\n")
                for line in lines:
                    self._rules = {(one[0], one[1]): (one[2], one[3]) for one in json.loads(line)}
                    os.write(1, b"\n")
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self._late)
                _deliver(device, packet)

    def _patience(self) -> float | None:
        """Milliseconds until the next late packet."""
        return max(0.0, (self._late[0][0] - time.monotonic()) * 1000) if self._late else None

    def _carry(self, host: int, packet: bytes) -> None:
        device = self._devices.get(packet[_DESTINATION]) if packet[0] >> 4 == _IPV4 else None
        if device is None:
            return
        loss, delay = self._rules.get((host, packet[_DESTINATION]), (0.0, 0.0))
        if loss and self._rng.random() < loss:
            return
        if delay:
            due = time.monotonic() + delay * self._rng.uniform(0.8, 1.2)
            heapq.heappush(self._late, (due, next(self._count), device, packet))
        else:
            _deliver(device, packet)


def _packets(device: int) -> Iterator[bytes]:
    with suppress(BlockingIOError):
        for _ in range(_BURST):
            yield os.read(device, _PACKET)


def _deliver(device: int, packet: bytes) -> None:
    # A device whose queue is full loses packets, as networks do.
    with suppress(OSError):
        os.write(device, packet)


if __name__ == "__main__":
    Switch({int(host): int(device) for host, _, device in (one.partition("=") for one in sys.argv[1:])}).run()
