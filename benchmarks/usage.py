"""What processes take: processor time, and the most memory they had, as the kernel counts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from benchmarks.figures import Sample

_RESET_PEAK = "5"
_WORKER = ["pyspark.daemon", "pyspark.worker"]


class Usage:
    """Watches this process with all it has started, apart from servers, and a Kafka broker.

    Args:
        servers: process ids of servers, which are not counted as part of the work.
        broker: that of the broker.
    """

    def __init__(self, servers: Iterable[int] = (), broker: int | None = None) -> None:
        self._servers = frozenset(servers)
        self._broker = None if broker is None else psutil.Process(broker)

    def timed(self, work: Callable[[], object], records: int) -> Sample:
        """Do the work; records per second, and what it took."""

        def rate() -> float:
            begun = time.perf_counter()
            work()
            return records / (time.perf_counter() - begun)

        return self.watched(rate, records)

    def watched(self, work: Callable[[], float], records: int) -> Sample:
        """Do the work, which gives the value of the sample itself."""
        for process in self._tree():
            _reset_peak(process)
        cpu, broker = _spent(self._tree()), self._broker_spent()
        value = work()
        tree = self._tree()
        workers = [_peak_mb(process) for process in tree if _is_worker(process)]
        jvms = [_peak_mb(process) for process in tree if _name(process) == "java"]
        return Sample(
            value,
            records,
            # A worker that ended was counted by its parent when that had waited for it, and by itself before.
            max(0.0, _spent(tree) - cpu),
            None if broker is None else (self._broker_spent() or broker) - broker,
            max((mb for mb in workers if mb is not None), default=None),
            max((mb for mb in jvms if mb is not None), default=None),
        )

    def _tree(self) -> list[psutil.Process]:
        own = psutil.Process()
        return [own, *(child for child in own.children(recursive=True) if child.pid not in self._servers)]

    def _broker_spent(self) -> float | None:
        return None if self._broker is None else _spent([self._broker])


def _spent(processes: Iterable[psutil.Process]) -> float:
    """Processor seconds of processes and of those children that they have waited for."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        # Linux and macOS have these.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _is_worker(process: psutil.Process) -> bool:
    """Whether it runs tasks of Spark: a child of the daemon, which is a copy of it."""
    try:
        parent = process.parent()
        command = process.cmdline()
        return parent is not None and command[-2:] == _WORKER and parent.cmdline() == command
    except psutil.NoSuchProcess:
        return False


def _reset_peak(process: psutil.Process) -> None:
    try:
        Path(f"/proc/{process.pid}/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        # Another system, a process that has ended: the peak is then not known, or that of its life.
        return


def _peak_mb(process: psutil.Process) -> float | None:
    """The most resident memory since the last reset; None where the kernel does not tell."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return None
