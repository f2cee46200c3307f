"""A process as the leader: what begins when it wins the election, and ends when it is deposed or stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_ordered_kafka.controller.monitoring.metrics import Metrics
from spark_ordered_kafka.controller.zk.election import Election, Leader
from spark_ordered_kafka.controller.zk.records import LeaderRecord
from spark_ordered_kafka.controller.zk.session import DeposedError, Session, ZooKeeperError
from spark_ordered_kafka.errors import OrderedKafkaError

_log = logging.getLogger(__name__)
_CLAIM_RETRY = 0.5
_POLL_INTERVAL = 0.2


class Part(Protocol):
    """What only the leader does: again and again, or once for each request."""

    def begin_stop(self) -> None: ...

    def stop(self, timeout: float) -> None: ...


@dataclass(frozen=True)
class Leadership:
    """Claims leadership again and again, until ``stop``.

    Attributes:
        session, election, leader: of ZooKeeper.
        resume: called one after the other when a leader term begins.
        finish_creations: called then in a thread of its own, since it may take long.
        parts: what only the leader does.
        registering: held while a topic is taken under management.
        active: set while this process leads.
        stop: ends it.
        wake: set on every event that may end a leader term.
        metrics: counts leader terms.
        timeout: seconds that each of ``parts`` has to end.
    """

    session: Session
    election: Election
    leader: Leader
    resume: Sequence[Callable[[], None]]
    finish_creations: Callable[[], None]
    parts: Sequence[Part]
    registering: threading.Lock
    active: threading.Event
    stop: threading.Event
    wake: threading.Event
    metrics: Metrics
    timeout: float

    def run(self) -> None:
        """Returns when this process is stopped."""
        while not self.stop.is_set():
            try:
                self.election.run(self._leader_term)
            except OrderedKafkaError as error:
                _log.warning("cannot become the controller yet: %s", error)
                self.stop.wait(_CLAIM_RETRY)
            except Exception:  # noqa: BLE001 - a bug, and without this thread no controller would ever lead
                _log.exception("the leadership ended")
                self.stop.wait(_CLAIM_RETRY)

    def _leader_term(self, claim: LeaderRecord) -> None:
        """The work of the controller until it is deposed or stopped. Raises ZooKeeperError when it cannot begin."""
        # A broker that is down may delay it for long.
        creations = threading.Thread(target=self._finish_creations, name="creations", daemon=True)
        try:
            for resume in self.resume:
                resume()
            creations.start()
            self.active.set()
            self.leader.announce()
            self.metrics.count_leadership("gained")
            _log.info("controller %s is active, epoch %d", claim.url, claim.epoch)
            while not self._is_deposed(claim):
                self.wake.wait(_POLL_INTERVAL)
                self.wake.clear()
        finally:
            self.active.clear()
            for part in self.parts:
                part.begin_stop()
            for part in self.parts:
                part.stop(self.timeout)
            self._await_registration()
            self.metrics.count_leadership("lost")
            _log.info("not the controller any more (epoch %d)", claim.epoch)

    def _await_registration(self) -> None:
        """Wait for a creation in progress: the next controller would find half of it, and perhaps not its topic yet."""
        if self.registering.acquire(timeout=self.timeout):
            # Resign with the lock held, so that the next creation finds no claim.
            self.session.resign()
            self.registering.release()

    def _finish_creations(self) -> None:
        try:
            self.finish_creations()
        except OrderedKafkaError as error:
            _log.warning("interrupted creations are left to the next controller: %s", error)

    def _is_deposed(self, claim: LeaderRecord) -> bool:
        if self.stop.is_set() or self.session.lost.is_set():
            return True
        record = self.leader.record
        if record is None or record.epoch != claim.epoch:
            # The record may be older than the claim, so ask ZooKeeper.
            try:
                self.session.verify()
            except DeposedError:
                return True
            except ZooKeeperError as error:
                _log.info("ZooKeeper cannot be asked who leads: %s", error)
        return False
