"""Names of one-off writers, handed out again once they were given back, so that few transactional ids come into being."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict, defaultdict

_REMEMBERED = 10_000


class WriterNames:
    """What this process has handed out; safe to share between threads.

    Nothing but the number of ids depends on it: writers that share a name only fence each other, and each keeps a ledger of
    its own. So it is kept in memory, and a name whose writer has died is not handed out again. At most 10,000 names are
    remembered as handed out, and as many as free; those that were touched first are forgotten.

    Args:
        unique: in every name; no other process has the same.
    """

    def __init__(self, unique: str) -> None:
        self._unique = unique
        self._lock = threading.Lock()
        self._made = 0
        # (topic, name) -> nonce
        self._taken: OrderedDict[tuple[str | None, str], str] = OrderedDict()
        # (topic, name), the one that was given back first in front
        self._free: OrderedDict[tuple[str | None, str], None] = OrderedDict()
        self._free_of: defaultdict[str | None, list[str]] = defaultdict(list)

    def take(self, topic: str | None) -> tuple[str, str]:
        """A name for a writer to ``topic``, and the nonce to give it back with."""
        nonce = secrets.token_hex(8)
        with self._lock:
            name = self._reused(topic) or self._new()
            self._taken[(topic, name)] = nonce
            if len(self._taken) > _REMEMBERED:
                self._taken.popitem(last=False)
        return name, nonce

    def release(self, topic: str | None, name: str, nonce: str) -> None:
        """Take the name back; nothing happens if it was not handed out with this nonce, or was given back since."""
        with self._lock:
            given = self._taken.get((topic, name))
            if given is None or not secrets.compare_digest(given.encode(), nonce.encode()):
                return
            del self._taken[(topic, name)]
            self._free[(topic, name)] = None
            self._free_of[topic].append(name)
            if len(self._free) > _REMEMBERED:
                (oldest, its_name), _ = self._free.popitem(last=False)
                self._forget(oldest, its_name)

    def _reused(self, topic: str | None) -> str | None:
        # The one given back last: Kafka has heard of it last, and it expires last.
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
