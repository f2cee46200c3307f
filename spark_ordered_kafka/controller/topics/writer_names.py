"""Names of one-off writers, lent and released, so that few transactional ids are created (D-075)."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict, defaultdict

MAX_NAMES = 10_000
"""Lent names that are kept, and free ones."""


class WriterNames:
    """Writer names that this process has lent. Thread-safe.

    Only the number of ids depends on it: writers that share a name only fence each other, and each keeps a ledger of its
    own. So it is kept in memory, and the name of a writer that died is not lent again. Keeps at most 10,000 lent names and
    10,000 free ones, and drops the least recently used (D-075).

    Args:
        unique: part of every name; unique to the process.
    """

    def __init__(self, unique: str) -> None:
        self._unique = unique
        self._lock = threading.Lock()
        self._made = 0
        # (topic, name) -> nonce
        self._taken: OrderedDict[tuple[str | None, str], str] = OrderedDict()
        # (topic, name), the one released first in front
        self._free: OrderedDict[tuple[str | None, str], None] = OrderedDict()
        self._free_of: defaultdict[str | None, list[str]] = defaultdict(list)

    def take(self, topic: str | None) -> tuple[str, str]:
        """A name for a writer to ``topic``, and the nonce to release it with."""
        nonce = secrets.token_hex(8)
        with self._lock:
            name = self._reused(topic) or self._new()
            self._taken[(topic, name)] = nonce
            if len(self._taken) > MAX_NAMES:
                self._taken.popitem(last=False)
        return name, nonce

    def release(self, topic: str | None, name: str, nonce: str) -> None:
        """Release the name; does nothing if it was not lent with this nonce, or was released since."""
        with self._lock:
            given = self._taken.get((topic, name))
            if given is None or not secrets.compare_digest(given.encode(), nonce.encode()):
                return
            del self._taken[(topic, name)]
            self._free[(topic, name)] = None
            self._free_of[topic].append(name)
            if len(self._free) > MAX_NAMES:
                (oldest, oldest_name), _ = self._free.popitem(last=False)
                self._forget(oldest, oldest_name)

    def _reused(self, topic: str | None) -> str | None:
        # The most recently used name: Kafka will expire it last.
        names = self._free_of.get(topic)
        if not names:
            return None
        name = names[-1]
        self._forget(topic, name)
        del self._free[(topic, name)]
        return name

    def _new(self) -> str:
        self._made += 1
        return f"{self._unique}-{self._made}"

    def _forget(self, topic: str | None, name: str) -> None:
        self._free_of[topic].remove(name)
        if not self._free_of[topic]:
            del self._free_of[topic]
