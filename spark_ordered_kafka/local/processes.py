"""Starting, recognising and ending operating system processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import psutil
from pydantic import BaseModel

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local.java import file_names
from spark_ordered_kafka.signals import handled

MARKER = "ORDERED_KAFKA_LOCAL_DIR"
"""Environment variable of every process of a local cluster: the cluster's directory. It identifies processes whose
starter died before it stored the pid (D-205)."""

# Tolerance in seconds between two readings of a process's start time: it is computed from the time of boot, which moves
# when the system clock is set.
_CLOCK_TOLERANCE = 2.0
# Seconds for a process to stop, and between two checks: the system reports only one's own children.
_PAUSE_TIMEOUT, _POLL_INTERVAL = 10.0, 0.005
# Seconds between two looks whether a process has ended that another one started.
_COLLECT_INTERVAL = 0.05

# Kept because a discarded Popen never collects a child that still runs.
_started: list[subprocess.Popen[bytes]] = []


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block by SystemExit, as ctrl-C does by KeyboardInterrupt: what it has started is ended first.

    For the main thread. A further SIGTERM does not interrupt the end.
    """

    def end(number: int, _: FrameType | None) -> None:
        # No SIG_IGN, which child processes would inherit.
        signal.signal(number, lambda *_: None)
        raise SystemExit(128 + number)

    with handled([signal.SIGTERM], end):
        yield


class ProcessIdentity(BaseModel, frozen=True):
    """Tells a process from a later one with the same pid. ``create_time`` is in seconds since the epoch."""

    pid: int
    create_time: float


def spawn(command: Sequence[str], *, directory: Path, log: Path, env: Mapping[str, str]) -> ProcessIdentity:
    """Start ``command`` in a session of its own, marked as belonging to the cluster in ``directory``.

    A session of its own: ctrl-C at the terminal does not reach it. Its output is appended to ``log``; ``env`` is added
    to this process's environment, and what Java needs for the names of files.

    Raises:
        LocalClusterError: the program cannot be executed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **file_names(), **env, MARKER: str(directory)},
            )
        except OSError as error:
            raise LocalClusterError(f"{command[0]} cannot be executed: {error}") from error
    _started.append(child)
    return ProcessIdentity(pid=child.pid, create_time=psutil.Process(child.pid).create_time())


def find(identity: ProcessIdentity | None) -> psutil.Process | None:
    """The process if it still runs (or is paused), else None; never another process with its pid."""
    if identity is None:
        return None
    _collect_dead_children()
    try:
        process = psutil.Process(identity.pid)
        same = abs(process.create_time() - identity.create_time) <= _CLOCK_TOLERANCE
    except psutil.NoSuchProcess:
        return None
    return process if same and not _has_ended(process) else None


def running(identities: Iterable[ProcessIdentity | None]) -> list[psutil.Process]:
    """Those of the processes that :func:`find` finds."""
    return [process for identity in identities if (process := find(identity)) is not None]


def is_paused(process: psutil.Process) -> bool:
    """Whether the process is stopped by SIGSTOP."""
    return _status(process) == psutil.STATUS_STOPPED


def pause(process: psutil.Process, name: str) -> None:
    """SIGSTOP, and wait until the process is stopped, which may take a moment when busy. Raises LocalClusterError."""
    process.suspend()
    deadline = time.monotonic() + _PAUSE_TIMEOUT
    while not is_paused(process):
        if time.monotonic() >= deadline:
            raise LocalClusterError(f"{name} did not stop within {_PAUSE_TIMEOUT:g} s")
        time.sleep(_POLL_INTERVAL)  # the kernel reports a stop to the parent alone


def marked(directory: Path, *, besides: Collection[psutil.Process] = ()) -> list[psutil.Process]:
    """All processes marked as belonging to the cluster in ``directory``, without ``besides`` and their children."""
    _collect_dead_children()
    excluded = {os.getpid()}
    for process in besides:
        try:
            excluded |= {process.pid, *(child.pid for child in process.children(recursive=True))}
        except psutil.NoSuchProcess:
            continue
    return [
        process
        for process in psutil.process_iter(["environ"])
        # The environment of other users' processes cannot be read: psutil gives None.
        if process.pid not in excluded and (process.info["environ"] or {}).get(MARKER) == str(directory)
    ]


def stop(processes: Iterable[psutil.Process], *, grace: float) -> list[int]:
    """Terminate the processes together: SIGTERM, and SIGKILL to those that still run after ``grace`` seconds.

    Returns:
        The pids that needed SIGKILL.

    Raises:
        LocalClusterError: a process outlived SIGKILL by 10 seconds.
    """
    waited_for = list(processes)
    for process in waited_for:
        # A paused process handles SIGTERM only after SIGCONT.
        _send(process, signal.SIGTERM)
        _send(process, signal.SIGCONT)
    alive = _outlive(waited_for, grace)
    kill(alive)
    return [process.pid for process in alive]


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL the processes and wait until they have ended.

    Raises:
        LocalClusterError: a process outlived SIGKILL by 10 seconds.
    """
    waited_for = list(processes)
    for process in waited_for:
        _send(process, signal.SIGKILL)
    alive = _outlive(waited_for, 10.0)
    if alive:
        raise LocalClusterError(f"processes {[p.pid for p in alive]} still run 10 s after SIGKILL")


def _outlive(processes: Collection[psutil.Process], seconds: float) -> list[psutil.Process]:
    """The processes that still run after so many seconds."""
    deadline = time.monotonic() + seconds
    alive = list(processes)
    while True:
        # psutil waits until the starter has collected a process, and that may be a notebook that does something else.
        _, alive = psutil.wait_procs(alive, timeout=min(_COLLECT_INTERVAL, seconds))
        alive = [process for process in alive if not _has_ended(process)]
        if not alive or time.monotonic() >= deadline:
            return alive


def _has_ended(process: psutil.Process) -> bool:
    return _status(process) in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def _status(process: psutil.Process) -> str:
    try:
        status = str(process.status())
        # Linux shows a process as a zombie when its main thread has ended. While others still end it keeps its ports.
        is_ending = status == psutil.STATUS_ZOMBIE and process.num_threads() > 1
        return str(psutil.STATUS_RUNNING) if is_ending else status
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        # psutil compares the start time again before it signals.
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _collect_dead_children() -> None:
    _started[:] = [child for child in _started if child.poll() is None]
