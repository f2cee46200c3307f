"""How many producer instances a process has at once: each has threads, connections and open files of its own."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.ranges import LogRanges

# The rest is the application's, and of instances that begin or end.
_SHARE = 0.75
_LEAST = 4
# Files of an instance and of the consumer that it begins with: their own, and those for each broker of the cluster.
_OWN_FILES, _BROKER_FILES = 10, 6


def _file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _key_limit() -> int:
    found = os.sysconf("SC_THREAD_KEYS_MAX")
    return sys.maxsize if found < 0 else found


class OpenInstances:
    """Places for the instances of all OrderedProducers of a process, which share its limits (D-471, D-488).

    A producer that needs one while all are taken waits for those that give up idle ones, see :attr:`is_short`.
    ``brokers``: of the largest cluster. ``file_limit``: open files that the process may have, which it may change.
    ``key_limit``: thread-local keys that it may have.
    """

    def __init__(
        self, file_limit: Callable[[], int] = _file_limit, key_limit: Callable[[], int] = _key_limit
    ) -> None:
        self.file_limit = file_limit
        self.key_limit = key_limit
        self.brokers = 1
        self.reset()

    def reset(self) -> None:
        """All places are free: those of a process that has forked this one are not this one's."""
        self._changed = threading.Condition()
        self._taken = self._waiting = 0

    @property
    def most(self) -> int:
        """How many there are."""
        return max(_LEAST, min(self._by_files, self._by_keys))

    @property
    def why(self) -> str:
        """Why there are no more, and what helps."""
        if self._by_files > self._by_keys:
            return f"each takes one of its {self.key_limit()} thread-local keys: use several processes"
        return f"it may open {self.file_limit()} files: raise that limit (ulimit -n)"

    @property
    def _by_files(self) -> int:
        return int(self.file_limit() * _SHARE) // (_OWN_FILES + _BROKER_FILES * self.brokers)

    @property
    def _by_keys(self) -> int:
        return int(self.key_limit() * _SHARE)

    @property
    def is_short(self) -> bool:
        """Whether a producer waits for one."""
        return self._waiting > 0

    def take(self) -> bool:
        """Take a place, if there is one."""
        with self._changed:
            found = self._taken < self.most
            self._taken += found
            return found

    def await_one(self, timeout: float) -> bool:
        """Take a place, if there is one within ``timeout`` seconds."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._taken < self.most, timeout)
            finally:
                self._waiting -= 1
            return self.take()

    def give_back(self) -> None:
        """Give up a place."""
        with self._changed:
            self._taken -= 1
            self._changed.notify()


OPEN_INSTANCES = OpenInstances()
os.register_at_fork(after_in_child=OPEN_INSTANCES.reset)


def met_cluster(connection: Connection) -> str:
    """The id of the cluster; its brokers count for :data:`OPEN_INSTANCES` from now on.

    Raises UnavailableError when no broker answers.
    """
    with LogRanges(connection) as ranges:
        cluster = ranges.cluster()
    OPEN_INSTANCES.brokers = max(OPEN_INSTANCES.brokers, len(cluster.nodes))
    return str(cluster.cluster_id)
