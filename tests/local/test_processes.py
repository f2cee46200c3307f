from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local import processes
from spark_ordered_kafka.local.processes import ProcessIdentity
from tests.servers import TIMEOUT, await_true

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]
WITHOUT_MAIN_THREAD = [
    sys.executable,
    "-c",
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); print('up', flush=True);"
    " ctypes.CDLL(None).pthread_exit(None)",
]
PARENT = [
    sys.executable,
    "-c",
    f"import subprocess; child = subprocess.Popen({SLEEP!r}); child.wait()",
]
STARTER = [
    sys.executable,
    "-c",
    f"import subprocess, time; print(subprocess.Popen({SLEEP!r}, stdout=-3).pid, flush=True); time.sleep(600)",
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A cluster directory; what is marked with it is ended after the test."""
    yield tmp_path
    processes.kill(processes.marked(tmp_path))


def spawn(command: list[str], home: Path) -> ProcessIdentity:
    log = home / "log"
    identity = processes.spawn(command, directory=home, log=log, env={"EXTRA": "1"})
    await_true(lambda: "up" in log.read_text(), "the process prints something")
    return identity


def test_a_process_is_found_until_it_has_ended(home: Path) -> None:
    identity = spawn(SLEEP, home)
    process = processes.find(identity)
    assert process is not None
    assert process.pid == identity.pid
    assert process.environ()["EXTRA"] == "1"
    assert os.getsid(identity.pid) == identity.pid, "it is not in a session of its own"
    assert processes.stop([process], grace=TIMEOUT) == []
    assert processes.find(identity) is None
    assert processes.stop([process], grace=TIMEOUT) == []


def test_another_process_with_the_same_pid_is_left_alone(home: Path) -> None:
    identity = spawn(SLEEP, home)
    earlier = ProcessIdentity(pid=identity.pid, create_time=identity.create_time - 100)
    assert processes.find(earlier) is None
    assert processes.find(None) is None
    assert processes.find(identity) is not None


def test_a_child_that_ended_by_itself_is_not_found(home: Path) -> None:
    identity = processes.spawn([sys.executable, "-c", ""], directory=home, log=home / "log", env={})
    _, alive = psutil.wait_procs([psutil.Process(identity.pid)], timeout=TIMEOUT)
    assert alive == []
    assert processes.find(identity) is None


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(home: Path) -> None:
    identity = spawn(DEAF, home)
    process = processes.find(identity)
    assert process is not None
    assert processes.stop([process], grace=0.2) == [identity.pid]
    assert processes.find(identity) is None


def test_a_process_whose_living_starter_has_not_collected_it_has_ended(home: Path) -> None:
    """As where a notebook has started servers that a command stops."""
    starter = subprocess.Popen(STARTER, stdout=subprocess.PIPE, text=True)
    try:
        assert starter.stdout is not None
        child = psutil.Process(int(starter.stdout.readline()))
        identity = ProcessIdentity(pid=child.pid, create_time=child.create_time())
        assert processes.stop([child], grace=TIMEOUT) == [], "SIGTERM was enough"
        assert processes.find(identity) is None
        assert child.status() == psutil.STATUS_ZOMBIE
        processes.kill([child])
    finally:
        starter.kill()
        starter.wait()


def test_a_process_whose_main_thread_alone_has_ended_has_not(home: Path) -> None:
    """As a JVM that was killed and is still giving its memory back: its ports are in use until all threads are gone."""
    identity = spawn(WITHOUT_MAIN_THREAD, home)
    child = psutil.Process(identity.pid)
    await_true(lambda: child.status() == psutil.STATUS_ZOMBIE, "the main thread has ended")
    assert processes.find(identity) == child
    processes.kill([child])
    assert processes.find(identity) is None


def test_a_paused_process_is_found_and_ends_by_sigterm(home: Path) -> None:
    identity = spawn(SLEEP, home)
    process = processes.find(identity)
    assert process is not None
    processes.pause(process, "the process")
    assert processes.is_paused(process)
    assert processes.stop([process], grace=TIMEOUT) == []


def test_marked_processes_are_found_by_directory(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    identity = spawn(PARENT, home)
    parent = processes.find(identity)
    assert parent is not None
    assert identity.pid in {process.pid for process in processes.marked(home)}
    assert len(processes.marked(home)) == 2, "the child bears its parent's mark"
    assert processes.marked(home, besides=[parent]) == []
    assert processes.marked(tmp_path_factory.mktemp("other")) == []


def test_a_program_that_does_not_exist_is_told(home: Path) -> None:
    with pytest.raises(LocalClusterError, match="/no/such/java cannot be executed"):
        processes.spawn(["/no/such/java"], directory=home, log=home / "log", env={})


def test_sigterm_ends_a_block_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ended = []

    def block() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("it goes on")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append("all")

    with pytest.raises(SystemExit) as raised, processes.ended_by_sigterm():
        block()
    assert (raised.value.code, ended) == (143, ["all"])
    assert signal.getsignal(signal.SIGTERM) == before
