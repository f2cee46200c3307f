"""A controller process: its connections, its claim to be the controller, and what it does while it holds it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from uuid import uuid4

from spark_ordered_kafka.controller.adoption import TopicAdopter
from spark_ordered_kafka.controller.alteration import TopicAlteration
from spark_ordered_kafka.controller.changes import Changes
from spark_ordered_kafka.controller.compaction import EarlierLayouts
from spark_ordered_kafka.controller.creation import TopicCreator
from spark_ordered_kafka.controller.drain import Drain
from spark_ordered_kafka.controller.election import DeposedError, Session
from spark_ordered_kafka.controller.instructions import Instruction
from spark_ordered_kafka.controller.metrics import Metrics
from spark_ordered_kafka.controller.positions import GroupPositions
from spark_ordered_kafka.controller.retirement import Retirement
from spark_ordered_kafka.controller.runner import Runner
from spark_ordered_kafka.controller.settings import ControllerSettings
from spark_ordered_kafka.controller.topics import Topics
from spark_ordered_kafka.controller.truncation import TruncationCheck
from spark_ordered_kafka.controller.znodes import FIXED_PATHS, Znodes
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.producers import ProducerCheck

_log = logging.getLogger(__name__)
_STOP_TIMEOUT = 10.0
_CLAIM_RETRY = 0.5
# A writer that checks the layout of a compacted topic waits for it.
_CONFIG_TIMEOUT = 5.0


class ControllerService:
    """The controller without its HTTP front. ``before`` is called before every instruction of a change.

    :meth:`start` raises UnavailableError naming Kafka or ZooKeeper when one is not reached in
    ``settings.startup_timeout`` seconds.
    """

    def __init__(
        self, settings: ControllerSettings, *, before: Callable[[Instruction], None] = lambda _: None
    ) -> None:
        self.settings = settings
        self.id = f"{socket.gethostname()}-{uuid4().hex[:8]}"
        self._before = before
        self._stop = threading.Event()
        self._active = threading.Event()
        self._thread: threading.Thread | None = None
        # Wall-clock time that a correction of the clock cannot turn back: time limits depend on it.
        anchor = time.time() - time.monotonic()
        self._clock: Callable[[], float] = lambda: anchor + time.monotonic()

    def start(self) -> None:
        """Connect, then claim to be the controller in the background; :attr:`active` says when that has happened."""
        settings = self.settings
        deadline = time.monotonic() + settings.startup_timeout
        self._session = Session(
            settings.zookeeper, session_timeout=settings.session_timeout, timeout=settings.request_timeout
        )
        self._session.connect(settings.startup_timeout, FIXED_PATHS)
        try:
            self.admin, cluster_id = self._reach_kafka(deadline)
        except OrderedKafkaError:
            self._session.close()
            raise
        znodes = Znodes(self._session)
        patience = min(_CONFIG_TIMEOUT, settings.request_timeout)
        earlier = EarlierLayouts(TopicConfigs(self.admin.requests, patience), self._clock, patience)
        self.topics = Topics(self.admin, znodes, cluster_id, earlier)
        registering = threading.Lock()
        self.creator = TopicCreator(self.admin, znodes, self._clock, registering)
        self.adopter = TopicAdopter(self.admin, znodes, settings.bootstrap_servers, self._clock, registering)
        self.truncations = TruncationCheck(self.admin, znodes, self.topics)
        self.metrics = Metrics(self.topics)
        runner = Runner(self.admin, znodes, settings.timing, self._clock, self._before)
        producers = ProducerCheck(self.admin, Fencer(self.admin), self._clock)
        self.changes = Changes(self.admin, znodes, self.topics, runner, producers, self._clock)
        self.alteration = TopicAlteration(self.admin, self.topics, self.changes, settings.request_timeout)
        self._retirement = Retirement(
            self.admin,
            znodes,
            self.changes.starting,
            self._clock,
            interval=settings.retire_interval,
            replication_factor=settings.retire_replication_factor,
        )
        self.drain = Drain(self.admin, self.topics, self._retirement, settings.request_timeout)
        self.positions = GroupPositions(self.admin, znodes, self.topics, settings.request_timeout)
        self._thread = threading.Thread(target=self._lead, name="leadership", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave running changes to the next controller and give up the claim."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT)
            self._session.close()
            self.admin.close()

    @property
    def active(self) -> bool:
        """Whether this process is the controller and may answer."""
        return self._active.is_set() and self._session.leading

    def require_active(self) -> None:
        """Raises DeposedError unless this process is the controller."""
        if not self.active:
            raise DeposedError

    def check_ready(self) -> None:
        """Raises the error that says why this process cannot serve: role, ZooKeeper or Kafka."""
        self.require_active()
        if not self._session.connected:
            raise UnavailableError(f"ZooKeeper at {self.settings.zookeeper} does not answer")
        if not self.admin.brokers():
            raise UnavailableError(f"Kafka at {self.settings.bootstrap_servers} shows no brokers")

    def _reach_kafka(self, deadline: float) -> tuple[KafkaAdmin, str]:
        servers = self.settings.bootstrap_servers
        while True:
            try:
                admin = KafkaAdmin(servers, timeout=self.settings.request_timeout)
                try:
                    return admin, admin.cluster_id()
                except OrderedKafkaError:
                    admin.close()
                    raise
            except OrderedKafkaError as error:
                if not error.retriable:
                    raise
                if time.monotonic() >= deadline or self._stop.wait(_CLAIM_RETRY):
                    raise UnavailableError(
                        f"Kafka at {servers} did not answer within {self.settings.startup_timeout:g} s: {error}"
                    ) from error

    def _lead(self) -> None:
        while not self._stop.is_set():
            try:
                epoch = self._session.claim(self.id, self.settings.url, self._stop)
                if epoch is None:
                    continue
                self.creator.finish_creations()
                self.changes.resume_all()
            except OrderedKafkaError as error:
                self._session.resign()
                _log.warning("cannot become the controller yet: %s", error)
                self._stop.wait(_CLAIM_RETRY)
                continue
            self._retirement.start()
            self._active.set()
            _log.info("controller %s is active, epoch %d", self.settings.url, epoch)
            while not self._stop.is_set() and not self._session.lost.wait(0.2):
                pass
            self._active.clear()
            self._retirement.stop(_STOP_TIMEOUT)
            self.changes.stop_all(_STOP_TIMEOUT)
            self._session.resign()
            _log.info("not the controller any more (epoch %d)", epoch)
