"""What processes take: processor time, and the most memory they had, as the kernel counts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.figures import Sample

_RESET_PEAK = "5"
# Of what the process that took most took.
_BUSY = 0.05
_WORKER = ["pyspark.daemon", "pyspark.worker"]
_TIMEOUT = 10.0


def resident_mb(pid: int | None = None) -> float:
    """Resident memory of a process, by default of this one, in MB (10^6 bytes)."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


class Usage:
    """Watches this process with all it has started, apart from servers, and a Kafka broker.

    Args:
        servers: process ids of servers, which are not counted as part of the work.
        broker: that of the broker.
    """

    def __init__(self, servers: Iterable[int] = (), broker: int | None = None) -> None:
        self._servers = frozenset(servers)
        self._broker = [] if broker is None else [psutil.Process(broker)]

    def timed(self, work: Callable[[], object], records: int, *, workers: bool = True) -> Sample:
        """Do the work; records per second, and what it took. ``workers``: whether Python workers do some of it."""

        def rate() -> float:
            begun = time.perf_counter()
            work()
            return records / (time.perf_counter() - begun)

        return self.watched(rate, records, workers=workers)

    def watched(self, work: Callable[[], float], records: int, *, workers: bool = True) -> Sample:
        """Do the work, which gives the value of the sample itself; otherwise as :meth:`timed`."""
        for process in self._tree():
            _reset_peak(process)
        before, broker = _spent(self._tree()), _total(_spent(self._broker))
        value = work()
        tree = self._tree()
        spent = _spent(tree)
        took = {pid: seconds - before.get(pid, 0.0) for pid, seconds in spent.items()}
        # Workers and the JVM stay, and have their memory, when they have nothing to do.
        busy = [process for process in tree if took.get(process.pid, 0.0) > _BUSY * max(took.values())]
        return Sample(
            value,
            records,
            # A process that has ended is counted by the parent that has waited for it.
            max(0.0, _total(spent) - _total(before)),
            _total(_spent(self._broker)) - broker if self._broker else None,
            max(_peaks_mb(process for process in busy if workers and _is_worker(process)), default=None),
            max(_peaks_mb(process for process in busy if _name(process) == "java"), default=None),
        )

    def end_workers(self) -> None:
        """End the Python workers of Spark, which starts new ones: those keep no memory of earlier work."""
        workers = [process for process in self._tree() if _is_worker(process)]
        for process in workers:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(workers, timeout=_TIMEOUT)

    def _tree(self) -> list[psutil.Process]:
        own = psutil.Process()
        return [own, *(child for child in own.children(recursive=True) if child.pid not in self._servers)]


def processor_time(work: Callable[[], object], rounds: int, *, per_second: float = 1.0) -> list[Sample]:
    """Processor time of each of ``rounds`` runs of work that waits for nothing; ``per_second``: units in a second."""
    samples = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        samples.append(Sample(per_second * (time.process_time() - begun)))
    return samples


def _spent(processes: Iterable[psutil.Process]) -> dict[int, float]:
    """Processor seconds of processes, by id, with those of the children that they have waited for."""
    seconds = {}
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # Linux and macOS count the children.
        children = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        seconds[process.pid] = times.user + times.system + children
    return seconds


def _total(seconds: Mapping[int, float]) -> float:
    return sum(seconds.values())


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


def _peaks_mb(processes: Iterable[psutil.Process]) -> Iterator[float]:
    """The most resident memory of each since its last reset, where the kernel tells."""
    for process in processes:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                yield int(line.split()[1]) * 1024 / 1e6
