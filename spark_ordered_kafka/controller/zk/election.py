"""Who leads: kazoo's election among the controllers, and what each of them knows of the leader."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, KazooException, NoNodeError
from kazoo.recipe.lock import Lock
from kazoo.recipe.watchers import DataWatch
from kazoo.retry import KazooRetry

from spark_ordered_kafka.controller.zk.records import CandidateRecord, LeaderRecord, dump, parse
from spark_ordered_kafka.controller.zk.session import CONTROLLER, ROOT, Session, ZooKeeperError

ELECTION = f"{ROOT}/election"
_MAX_DELAY = 1.0

_log = logging.getLogger(__name__)


class Leader:
    """What the ``/controller`` znode says, as of the last news from ZooKeeper. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._record: LeaderRecord | None = None
        self._listeners: set[Callable[[], None]] = set()

    def watch(self, client: KazooClient) -> None:
        """Follow the znode from now on, through every session of ``client``."""
        DataWatch(client, CONTROLLER, self._on_data)

    @property
    def record(self) -> LeaderRecord | None:
        """Whoever leads, or is about to; None while there is no controller."""
        with self._lock:
            return self._record

    @contextmanager
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Inside the block ``listener`` is called, from other threads, with what happens to the znode or is announced."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def announce(self) -> None:
        """Let all who listen look again."""
        # With the lock held, so that nobody is called who has left.
        with self._lock:
            for listener in self._listeners:
                listener()

    def _on_data(self, data: bytes | None, _: object) -> None:
        record = None if data is None else parse(LeaderRecord, data, CONTROLLER)
        with self._lock:
            self._record = record
        self.announce()


class Election:
    """This process's candidacy. ``stop`` ends it."""

    def __init__(self, session: Session, controller_id: str, url: str, stop: threading.Event) -> None:
        self._session = session
        self._candidate = CandidateRecord(id=controller_id, url=url)
        self._stop = stop
        self._lock: _ElectionLock | None = None

    def run(self, leader_term: Callable[[LeaderRecord], None]) -> None:
        """Wait until elected, claim to be the controller, and give that up when ``leader_term`` returns.

        Returns without a leader term when ``stop`` was set or the session lost. Raises ZooKeeperError when ZooKeeper does not
        answer.
        """
        session = self._session
        session.prepare(ELECTION)
        self._lock = lock = _ElectionLock(session.client, dump(self._candidate).decode(), self._stop)
        try:
            if self._stop.is_set() or not lock.acquire():
                return
            try:
                record = session.claim(self._candidate.id, self._candidate.url, self._stop)
                if record is not None:
                    leader_term(record)
            finally:
                session.resign()
                # Not before the znode is gone: whoever is elected next need not wait for that.
                lock.release()
        except CancelledError:
            _log.debug("candidacy withdrawn")
        except KazooException as error:
            raise ZooKeeperError(f"ZooKeeper at {session.hosts}: {error!r} for {ELECTION}") from error

    def cancel(self) -> None:
        """Wake a candidate that waits, after ``stop`` was set."""
        if self._lock is not None:
            self._lock.cancel()

    def candidates(self) -> list[CandidateRecord]:
        """All controllers that lead, or would, by their ids. Raises ZooKeeperError."""
        session = self._session
        session.sync()
        try:
            candidates = session.children(ELECTION)
        except NoNodeError:
            return []
        found = [parse(CandidateRecord, data, f"{ELECTION}/{name}") for name, data in candidates.items()]
        return sorted(found, key=lambda candidate: candidate.id)


class _ElectionLock(Lock):  # type: ignore[misc] # kazoo is not typed
    """Kazoo's lock, which after an interruption asks again within a second, instead of up to a minute."""

    def __init__(self, client: Any, identifier: str, stop: threading.Event) -> None:
        super().__init__(client, ELECTION, identifier)
        self._retry = KazooRetry(
            max_tries=None, max_delay=_MAX_DELAY, interrupt=stop.is_set, sleep_func=time.sleep
        )
