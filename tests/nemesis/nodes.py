"""Processes of a run: servers and clients, each on a host of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from tests.nemesis.journal import Journal
from tests.nemesis.network import ROOT, Network

_LAST = 60.0
"""Seconds for a process to end after SIGTERM."""
_AGAIN = 2.0
"""Seconds after which a process that has ended by itself is started again."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Node:
    """A process that may be killed, paused and started again, any number of times.

    Args:
        name: also that of its host.
        command: makes the command of the n-th start, counted from 1.
        env: environment variables in addition to this process's.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        journal: Journal,
        log: Path,
        command: Callable[[int], list[str]],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.starts = 0
        self.wanted = False
        self.process: psutil.Popen | None = None
        # One that stands still, and that ``process`` has the place of; and which start it was of.
        self._former: tuple[psutil.Popen, int] | None = None
        self._network = network
        self._journal = journal
        self._command = command
        self._env = {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}
        self._env |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})}
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether there is a process, if only a paused one."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Does nothing if it runs."""
        with self._lock:
            self.wanted = True
            if self.running:
                return
            self.starts += 1
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                command = [*self._network.enter(self.name), *self._command(self.starts)]
                self.process = psutil.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, cwd=ROOT
                )
            self._journal.note("start", node=self.name, number=self.starts, pid=self.process.pid)

    def kill(self) -> None:
        """``kill -9``, with all its children."""
        with self._lock:
            self.wanted = False
            if self._former is not None:
                _send(self._former[0], signal.SIGKILL)
            if not self.running:
                return
            assert self.process is not None
            family = [*self.process.children(recursive=True), self.process]
            for one in family:
                _send(one, signal.SIGKILL)
            self.process.wait(_LAST)
            self._journal.note("killed", node=self.name, number=self.starts)

    def stop(self) -> bool:
        """SIGTERM; whether it ended within a minute, else it is killed."""
        with self._lock:
            self.wanted = False
            if not self.running:
                return True
            assert self.process is not None
            self.process.terminate()
            try:
                code = self.process.wait(_LAST)
            except psutil.TimeoutExpired:
                self._journal.note("stuck", node=self.name, number=self.starts)
                self.kill()
                return False
            self._journal.note("stopped", node=self.name, number=self.starts, code=code)
            return True

    def pause(self) -> None:
        """SIGSTOP, with all its children."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def replace(self) -> None:
        """SIGSTOP, and another process in its place, as when a machine is taken for dead."""
        with self._lock:
            if not self.running:
                return
            assert self.process is not None
            self.pause()
            self._former, self.process = (self.process, self.starts), None
            self._journal.note("replaced", node=self.name, number=self.starts)
            self.start()

    def resume_former(self) -> None:
        """SIGCONT of the process that was replaced, which has to find that out, and to end."""
        if self._former is None:
            return
        former, number = self._former
        _send(former, signal.SIGCONT)
        try:
            code = former.wait(_LAST)
        except psutil.TimeoutExpired:
            what = f"{self.name}.{number}, whose place another process has, ends"
            self._journal.note("overdue", what=what, seconds=_LAST, state="it runs")
            _send(former, signal.SIGKILL)
            code = former.wait(_LAST)
        self._former = None
        self._journal.note("ended", node=self.name, number=number, code=code, tail=self.tail(600))

    def look(self) -> None:
        """Start it again if it has ended by itself."""
        with self._lock:
            if not self.wanted or self.running:
                return
            code = None if self.process is None else self.process.poll()
            self._journal.note("ended", node=self.name, number=self.starts, code=code, tail=self.tail(600))
            self.start()

    def tail(self, size: int = 3000) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self.running:
                assert self.process is not None
                for one in (self.process, *self.process.children(recursive=True)):
                    _send(one, number)


def always(command: list[str]) -> Callable[[int], list[str]]:
    """The same command for each start of a node."""
    return lambda _: command


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


class Supervisor:
    """Starts nodes again that have ended by themselves, as systemd would."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._thread.join(_LAST)

    def _run(self) -> None:
        ended: dict[str, float] = {}
        while not self._closing.wait(0.2):
            for node in list(self._nodes.values()):
                if not node.wanted or node.running:
                    ended.pop(node.name, None)
                elif time.monotonic() - ended.setdefault(node.name, time.monotonic()) >= _AGAIN:
                    ended.pop(node.name)
                    node.look()
