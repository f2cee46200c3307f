"""Hosts of a run: a network namespace each, joined by :mod:`tests.nemesis.switch`.

The kernels of many machines have neither ``netem`` nor ``iptables``; TUN devices and a switch of our own can lose and delay
what goes from any host to any other, in one direction too, and TCP does the rest as on real networks.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_PREFIX = "10.77.0."
_MTU = 32000
"""Bytes. Large, since every packet is carried by Python."""
INSIDE = "NEMESIS_INSIDE"
ROOT = Path(__file__).parents[2]


class Rule(NamedTuple):
    """What happens to packets from one host to another: the part that is lost, and a delay in seconds."""

    source: str
    target: str
    loss: float = 0.0
    delay: float = 0.0


def enter_namespaces(arguments: list[str]) -> int:
    """Run ``python -m`` with these arguments in network, mount and process namespaces of its own; returns its exit code.

    All its processes end with it. Who is not root becomes so in a user namespace.
    """
    flags = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *user, *flags, sys.executable, "-m", *arguments]
    return subprocess.run(command, env=os.environ | {INSIDE: "yes"}, check=False).returncode


def why_not() -> str | None:
    """Why this machine cannot run it; None: it can."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened"
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    made = subprocess.run(
        ["unshare", *user, "--net", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    return made.stderr.decode().strip() or "unshare fails" if made.returncode else None


class Network:
    """Hosts by name. ``own`` is the one of this process, in the namespace in which it is."""

    def __init__(self, own: str, others: Iterable[str]) -> None:
        names = [own, *others]
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._rules: dict[object, list[Rule]] = {}
        self._lock = threading.Lock()
        self._namespaces: dict[str, int] = {}
        devices = {own: _device(_PREFIX + "1")}
        for name in names[1:]:
            devices[name] = self._make(name)
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "tests.nemesis.switch"]
            + [f"{self._numbers[name]}={device}" for name, device in devices.items()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=tuple(devices.values()),
            cwd=ROOT,
        )
        self._apply()

    @property
    def hosts(self) -> list[str]:
        """All names."""
        return list(self._numbers)

    def address(self, host: str) -> str:
        """The host's IP address."""
        return f"{_PREFIX}{self._numbers[host]}"

    def enter(self, host: str) -> list[str]:
        """What a command begins with that is to run on the host."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespaces[host]}"]

    def disturb(self, name: object, rules: Iterable[Rule]) -> None:
        """Apply rules until :meth:`heal` of the same name."""
        with self._lock:
            self._rules[name] = list(rules)
            self._apply()

    def heal(self, name: object) -> None:
        """Take rules away."""
        with self._lock:
            self._rules.pop(name, None)
            self._apply()

    def _apply(self) -> None:
        rules: dict[tuple[int, int], tuple[float, float]] = {}
        for rule in (rule for group in self._rules.values() for rule in group):
            link = self._numbers[rule.source], self._numbers[rule.target]
            loss, delay = rules.get(link, (0.0, 0.0))
            rules[link] = max(loss, rule.loss), max(delay, rule.delay)
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(
            json.dumps([[*link, *what] for link, what in rules.items()]).encode() + b"\n"
        )
        self._switch.stdin.flush()
        assert self._switch.stdout.readline(), "the switch has ended"

    def _make(self, name: str) -> int:
        made: list[int] = []
        failed: list[BaseException] = []

        def make() -> None:
            # A thread of its own: a namespace belongs to the thread, and to the processes that it starts.
            try:
                if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "unshare")
                made.append(_device(self.address(name)))
                self._namespaces[name] = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            except BaseException as error:
                failed.append(error)
                raise

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return made[0]


def _device(address: str) -> int:
    """A TUN device with this address, in the namespace of the calling thread."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"t0", _IFF_TUN | _IFF_NO_PI))
    for command in ("link set lo up", f"addr add {address}/24 dev t0", f"link set t0 mtu {_MTU} up"):
        subprocess.run(["ip", *command.split()], check=True)
    return device
