"""The thread that serves what nobody else serves."""

from __future__ import annotations

import gc
import os
import threading
import time

from spark_ordered_kafka.kafka.keeper import Keeper
from tests.servers import TIMEOUT, await_true


class Counted:
    """Counts how often it is served, and by which thread."""

    def __init__(self) -> None:
        self.times = 0
        self.thread: threading.Thread | None = None

    def keep(self) -> None:
        self.thread = threading.current_thread()
        self.times += 1


def served(keeper: Keeper) -> threading.Thread:
    """The keeper's thread, which serves a newcomer, too."""
    one = Counted()
    keeper.add(one)
    await_true(lambda: one.times >= 2, "it is served again and again")
    assert one.thread is not None
    return one.thread


def test_all_are_served_by_one_thread_that_ends_with_the_last_of_them() -> None:
    keeper = Keeper(0.01)
    some = [Counted() for _ in range(3)]
    for one in some:
        keeper.add(one)
    await_true(lambda: min(one.times for one in some) >= 2, "all are served again and again")
    threads = {one.thread for one in some}
    (thread,) = threads
    assert thread is not None
    assert thread.daemon
    assert served(keeper) is thread
    some.clear()
    del one
    gc.collect()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    # And another begins with the next one.
    assert served(keeper) is not thread


def test_a_forked_process_serves_its_own_only() -> None:
    keeper = Keeper(0.01)
    parents = Counted()
    keeper.add(parents)
    await_true(lambda: parents.times > 0, "it is served")
    # The lock is held by a thread that the child does not have.
    with keeper._lock:
        child = os.fork()
        if child == 0:
            before = parents.times
            try:
                served(keeper)
                os._exit(0 if parents.times == before else 1)
            finally:
                os._exit(2)
    deadline = time.monotonic() + TIMEOUT
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
