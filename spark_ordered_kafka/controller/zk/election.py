"""Leader election: kazoo's election among the controllers, and each controller's view of the leader."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, KazooException, NoNodeError
from kazoo.recipe.lock import Lock
from kazoo.recipe.watchers import DataWatch
from kazoo.retry import KazooRetry

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.zk.records import CandidateRecord, LeaderRecord, dump, parse
from spark_ordered_kafka.controller.zk.session import CONTROLLER, ROOT, Session, ZooKeeperError

ELECTION = f"{ROOT}/election"
_MAX_DELAY = 1.0

_log = logging.getLogger(__name__)


class Leader:
    """The ``/controller`` znode's content, as last received from ZooKeeper. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._record: LeaderRecord | None = None
        self._listeners: set[Callable[[], None]] = set()

    def watch(self, client: KazooClient) -> None:
        """Follow the znode from now on, through every session of ``client``."""
        DataWatch(client, CONTROLLER, self._on_data)

    @property
    def record(self) -> LeaderRecord | None:
        """The leader, or the controller that becomes it; None without one."""
        with self._lock:
            return self._record

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Inside the block, events of the znode and announcements call ``listener``, from other threads."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def announce(self) -> None:
        """Notify all listeners."""
        # With the lock held, so that no removed listener is called.
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
        """Wait until elected, claim to be the controller, and resign when ``leader_term`` returns.

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
                # After the znode's deletion, so that the next leader need not wait for it.
                lock.release()
        except CancelledError:
            _log.debug("candidacy withdrawn")
        except KazooException as error:
            raise ZooKeeperError(f"ZooKeeper at {session.hosts}: {error!r} for {ELECTION}") from error

    def cancel(self) -> None:
        """Wake a waiting candidate after ``stop`` was set."""
        if self._lock is not None:
            self._lock.cancel()

    def candidates(self) -> list[CandidateRecord]:
        """The leader and all candidates, by their ids. Raises ZooKeeperError."""
        session = self._session
        session.sync()
        try:
            candidates = session.children(ELECTION)
        except NoNodeError:
            return []
        found = [parse(CandidateRecord, data, f"{ELECTION}/{name}") for name, data in candidates.items()]
        return sorted(found, key=lambda candidate: candidate.id)


class _ElectionLock(Lock):  # type: ignore[misc] # kazoo is not typed
    """Kazoo's lock, but after an interruption it retries within a second instead of up to a minute (D-128)."""

    def __init__(self, client: Any, identifier: str, stop: threading.Event) -> None:
        super().__init__(client, ELECTION, identifier)
        self._retry = KazooRetry(
            max_tries=None, max_delay=_MAX_DELAY, interrupt=stop.is_set, sleep_func=time.sleep
        )


def controller_list(
    candidates: Iterable[CandidateRecord], leader: LeaderRecord | None
) -> schemas.ControllerList:
    """Candidates and the leader, as the API shows them."""
    rows = [
        schemas.ControllerView(
            id=one.id,
            url=one.url,
            role="leader" if leader is not None and one.id == leader.id else "follower",
        )
        for one in candidates
    ]
    if leader is None:
        return schemas.ControllerList(controllers=rows)
    return schemas.ControllerList(controllers=rows, leader=leader.url, epoch=leader.epoch)
