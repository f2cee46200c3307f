"""What a piece of work took, as the kernel counts it."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from benchmarks.usage import Usage
from tests.servers import await_true

BURN = "import time\nwhile time.process_time() < 0.3: pass"
WHEN_TOLD = "import time\ninput()\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def burn() -> None:
    # Of this thread: others of the process, as of clients that other tests have left, have processors of their own.
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass


def others() -> list[int]:
    """Process ids of what other tests of this process may have left to the next ones: brokers, Spark's JVM."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


def test_own_processor_time_is_counted_and_no_broker() -> None:
    sample = Usage(others()).timed(burn, 100)
    assert sample.records == 100
    assert 0 < sample.value < 100 / 0.3
    assert sample.cpu is not None
    assert sample.cpu >= 0.25
    assert (sample.broker_cpu, sample.worker_mb, sample.jvm_mb) == (None, None, None)


def test_children_that_have_ended_are_counted_and_servers_are_not() -> None:
    def wait_for_child() -> float:
        subprocess.run([sys.executable, "-c", BURN], check=True)
        return 1.0

    sample = Usage(others()).watched(wait_for_child, 0)
    assert sample.cpu is not None
    assert sample.cpu >= 0.25

    server = subprocess.Popen([sys.executable, "-c", WHEN_TOLD], stdin=subprocess.PIPE, text=True)

    def wait_for_server() -> float:
        # Not before it is watched.
        assert server.stdin is not None
        server.stdin.write("\n")
        server.stdin.close()
        process = psutil.Process(server.pid)
        await_true(lambda: process.status() == psutil.STATUS_ZOMBIE, "the child has ended")
        return 1.0

    before = time.process_time()
    try:
        served = Usage(others(), server.pid).watched(wait_for_server, 0)
    finally:
        server.wait()
    own = time.process_time() - before
    assert served.broker_cpu is not None
    assert served.broker_cpu >= 0.2
    assert served.cpu is not None
    # Two figures, in ticks of a hundredth of a second.
    assert served.cpu <= own + 0.02, "what the server took is not among it"
