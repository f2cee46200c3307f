"""A controller process: its connections, its claim to be the controller, and its work as the leader."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.access import Access
from spark_ordered_kafka.controller.access.authenticator import Authenticator
from spark_ordered_kafka.controller.access.rights import KafkaRights, read_acls
from spark_ordered_kafka.controller.automation.requests import SendRequest
from spark_ordered_kafka.controller.autoscale.autoscaler import Autoscaler
from spark_ordered_kafka.controller.autoscale.figures import AutoscaleFigures
from spark_ordered_kafka.controller.autoscale.sampling import Sampler
from spark_ordered_kafka.controller.change.alteration import TopicAlteration
from spark_ordered_kafka.controller.change.expansion import Expansion
from spark_ordered_kafka.controller.change.protocol import Instruction
from spark_ordered_kafka.controller.change.runner import Runner
from spark_ordered_kafka.controller.change.service import Changes
from spark_ordered_kafka.controller.composition import reach_kafka, replica_services
from spark_ordered_kafka.controller.healing.figures import HealingFigures
from spark_ordered_kafka.controller.healing.healer import Healer
from spark_ordered_kafka.controller.healing.planning import HealingPlans
from spark_ordered_kafka.controller.healing.sampling import Sampler as HealingSampler
from spark_ordered_kafka.controller.leadership import Leadership
from spark_ordered_kafka.controller.monitoring.audit import AuditLog
from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.monitoring.diagnostics import Diagnosis
from spark_ordered_kafka.controller.monitoring.events import ClusterEvents
from spark_ordered_kafka.controller.monitoring.metrics import Metrics
from spark_ordered_kafka.controller.monitoring.reassignments import ReassignmentObserver
from spark_ordered_kafka.controller.monitoring.scraping import ControllerCollector, Sampled
from spark_ordered_kafka.controller.monitoring.webhook import Webhook
from spark_ordered_kafka.controller.policy import TopicChecks, load_policy
from spark_ordered_kafka.controller.settings import ControllerSettings, check_review
from spark_ordered_kafka.controller.shared_query import SharedQuery
from spark_ordered_kafka.controller.state.autoscale import AUTOSCALE, AutoscaleStore
from spark_ordered_kafka.controller.state.broker_limits import BROKERS, BrokerLimits
from spark_ordered_kafka.controller.state.healing import HealingStore
from spark_ordered_kafka.controller.state.paths import FIXED_PATHS
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.reassignments import REASSIGNMENT_PATHS, ReassignmentStore
from spark_ordered_kafka.controller.state.reviews import REVIEWS, Reviews
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.adoption import TopicAdopter
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.topics.cluster_topics import ClusterTopics
from spark_ordered_kafka.controller.topics.compaction import EarlierLayouts
from spark_ordered_kafka.controller.topics.creation import TopicCreator
from spark_ordered_kafka.controller.topics.deletion import TopicDeleter
from spark_ordered_kafka.controller.topics.drain import Drain
from spark_ordered_kafka.controller.topics.folding import Folding
from spark_ordered_kafka.controller.topics.foreign_partitions import Covering
from spark_ordered_kafka.controller.topics.positions import GroupPositions
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.topics.release import TopicReleaser
from spark_ordered_kafka.controller.topics.retirement import Retirement
from spark_ordered_kafka.controller.topics.truncation import TruncationCheck
from spark_ordered_kafka.controller.topics.writer_names import WriterNames
from spark_ordered_kafka.controller.zk.election import Election, Leader, controller_list
from spark_ordered_kafka.controller.zk.session import DeposedError, Session
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.moves import moves
from spark_ordered_kafka.kafka.producers import ProducerCheck

_STOP_TIMEOUT = 10.0
_WORKERS = 4
# Seconds for Kafka's answers to queries that writers and readers wait for: topic configuration, ACLs, logins.
_READ_TIMEOUT = 5.0


class ControllerService:
    """The controller without its HTTP server. ``before`` is called before every instruction of a change, ``before_step``
    before every step of reassignments.

    :meth:`start` raises UnavailableError naming Kafka or ZooKeeper when one is not reached in
    ``settings.startup_timeout`` seconds.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        *,
        before: Callable[[Instruction], None] = lambda _: None,
        before_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        if settings.review_required:
            check_review(
                settings.authentication, "none" if settings.tls is None else settings.tls.client_auth
            )
        self.settings = settings
        self.id = f"{socket.gethostname()}-{uuid4().hex[:8]}"
        self.metrics = Metrics()
        self.audit = AuditLog(settings.audit_log_file, time.time, self.metrics.count_audit_failure)
        self.observer = ChangeObserver(self.metrics, self.audit)
        self._webhook = self.metrics.watch(Webhook(settings.webhook, settings.url, time.time))
        self._before = before
        self._before_step = before_step
        self._policy = load_policy(settings.topic_policy_class)
        # For requests about several topics, one topic after another, off the event loop.
        self.workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="topics")
        self.leader = Leader()
        # Set by the API, through which the controller's own requests go.
        self.send_own: SendRequest | None = None
        # Held while a topic is taken under management.
        self._registering = threading.Lock()
        self.writer_names = WriterNames(uuid4().hex[:16])
        self._stop = threading.Event()
        # Set on every event that may end this process's leadership.
        self._wake = threading.Event()
        self._active = threading.Event()
        self._thread: threading.Thread | None = None
        # Wall-clock time that never goes backwards: time limits depend on it.
        anchor = time.time() - time.monotonic()
        self._clock: Callable[[], float] = lambda: anchor + time.monotonic()

    def start(self) -> None:
        """Connect, then claim leadership in the background; :attr:`active` is True once the claim succeeded."""
        settings = self.settings
        self.audit.check()
        deadline = time.monotonic() + settings.startup_timeout
        read_timeout = min(_READ_TIMEOUT, settings.request_timeout)
        self.authenticator = Authenticator(
            settings.authentication, settings.tls, settings.kafka, read_timeout
        )
        self.access = Access(settings.authentication, settings.authorization, lambda: self._rights.table())
        self._session = Session(settings.zookeeper, timeout=settings.request_timeout, on_lost=self._wake.set)
        paths = (*FIXED_PATHS, REVIEWS, BROKERS, AUTOSCALE, *REASSIGNMENT_PATHS)
        try:
            self._session.connect(settings.startup_timeout, paths)
            self.admin = reach_kafka(settings, deadline, self._stop)
        except OrderedKafkaError:
            self._session.close()
            raise
        znodes = Znodes(self._session)
        self._set_up_access(read_timeout)
        self._set_up_topics(znodes, read_timeout)
        self._set_up_changes(znodes)
        self._set_up_replicas(znodes, read_timeout)
        self._set_up_background(znodes)
        self._election = Election(self._session, self.id, settings.url, self._stop)
        self._webhook.start()
        self._thread = threading.Thread(target=self._leadership().run, name="leadership", daemon=True)
        self._thread.start()

    def _leadership(self) -> Leadership:
        jobs = (self.changes, self.deleter, self.releaser)
        repeated = (self._retirement.background, self.autoscaler.background, self.healer.background)
        return Leadership(
            self._session,
            self._election,
            self.leader,
            resume=(
                *(one.resume_all for one in jobs),
                self.reassignments.resume_all,
                self.reassigner.resume_all,
                *(one.start for one in repeated),
            ),
            finish_creations=self.creator.finish_creations,
            parts=(*repeated, *jobs, self.reassigner),
            registering=self._registering,
            active=self._active,
            stop=self._stop,
            wake=self._wake,
            metrics=self.metrics,
            timeout=_STOP_TIMEOUT,
        )

    def _set_up_access(self, read_timeout: float) -> None:
        settings = self.settings
        self._rights = KafkaRights(
            partial(read_acls, self.admin.requests, read_timeout),
            allow_if_none=settings.authorization.allow_everyone_if_no_acl_found,
            keep_disabled=not settings.authentication.required,
            timeout=read_timeout,
        )
        self.access.log_source()

    def _set_up_topics(self, znodes: Znodes, read_timeout: float) -> None:
        timeout = self.settings.request_timeout
        earlier = EarlierLayouts(TopicConfigs(self.admin.requests, read_timeout), self._clock, read_timeout)
        self.topics = Topics(self.admin, znodes, earlier)
        self.cluster_topics = ClusterTopics(self.admin, znodes, read_timeout, self._clock)
        self.diagnosis = Diagnosis(
            self.settings, self.id, self._session, znodes, self.admin, self._clock, read_timeout
        )
        limits = BrokerLimits(self._session, self.settings.max_broker_partitions)
        self.capacities = Capacities(self.admin, limits, time.monotonic)
        self._checks = TopicChecks(self._policy, self.admin, timeout)
        self.deleter = TopicDeleter(
            self.admin, znodes, self.topics, self.capacities, self._checks, self._clock, timeout
        )
        end_namesake = self.deleter.end_namesake
        self.creator = TopicCreator(
            self.admin, znodes, self._policy, self.capacities, end_namesake, self._clock, self._registering
        )
        self.reviews = Reviews(self._session, self._clock)
        self.truncations = TruncationCheck(self.admin, znodes, self.topics)
        self.positions = GroupPositions(self.admin, znodes, self.topics, timeout)

    def _set_up_changes(self, znodes: Znodes) -> None:
        settings = self.settings
        expansion = Expansion(self.admin, self.capacities)
        pending = PendingMoves(ReassignmentStore(self._session))
        runner = Runner(
            self.admin, znodes, settings.timing, self._clock, self.observer, expansion, self._before
        )
        producers = ProducerCheck(self.admin, Fencer(self.admin), self._clock)
        self.changes = Changes(
            self.admin, znodes, self.topics, runner, expansion, pending, producers, self._checks, self._clock
        )
        self.releaser = TopicReleaser(
            self.admin,
            znodes,
            self.topics,
            pending,
            self._checks,
            lambda topic, topic_id, logs: self.drain.waiting_groups(topic, topic_id, logs),
            self.changes.starting,
            self._clock,
            settings.request_timeout,
        )
        self.adopter = TopicAdopter(
            self.admin, znodes, self.releaser.end_namesake, self._clock, self._registering
        )
        self.alteration = TopicAlteration(
            self.admin, self.topics, self.changes, self._checks, settings.request_timeout
        )

    def _set_up_replicas(self, znodes: Znodes, read_timeout: float) -> None:
        services = replica_services(
            self.settings,
            self._session,
            self.admin,
            znodes,
            self.topics,
            self._checks,
            self.capacities,
            ReassignmentObserver(self.metrics, self.audit),
            self.changes.starting,
            self._clock,
            self._before_step,
            read_timeout=read_timeout,
        )
        self.reassigner, self.reassignments = services.reassigner, services.reassignments
        self.reassignment_queries, self.replication = services.queries, services.replication
        self.plans, self.log_dirs, self.lags = services.plans, services.log_dirs, services.lags
        self.elections = services.elections
        self.log_dir_moves = services.log_dir_moves

    def _set_up_background(self, znodes: Znodes) -> None:
        settings, session, clock = self.settings, self._session, time.monotonic
        self._retirement = Retirement(
            self.admin,
            znodes,
            Covering(self.admin, znodes, self.observer, self._clock),
            Folding(self.admin, znodes, self._clock),
            self.changes.starting,
            self._clock,
            interval=settings.retire_interval,
            replication_factor=settings.retire_replication_factor,
        )
        self.autoscaler = Autoscaler(
            settings.autoscale,
            Sampler(self.admin, settings.request_timeout, clock),
            znodes,
            AutoscaleStore(session),
            self.reviews,
            self.audit,
            self._webhook,
            self.metrics.watch(AutoscaleFigures()),
            self._clock,
            lambda: self.send_own,
        )
        self.healer = Healer(
            settings.healing,
            HealingSampler(self.admin, settings.request_timeout, clock),
            HealingPlans(settings.healing, self.plans, self.elections, self.admin, self.capacities),
            HealingStore(session),
            ReassignmentStore(session),
            self.reviews,
            self.audit,
            self._webhook,
            self.metrics.watch(HealingFigures()),
            self._clock,
            self.changes.changing,
            lambda: self.send_own,
        )
        self.drain = Drain(self.admin, self.topics, self._retirement, settings.request_timeout)
        self.leader.watch(self._session.client)
        self.kafka_probe = SharedQuery("probe", self.admin.brokers, time.monotonic)
        hosted = SharedQuery("figures of brokers", self.capacities.brokers, time.monotonic)
        moving = SharedQuery("figures of reassignments", partial(moves, self.admin), time.monotonic)
        self.events = ClusterEvents(
            self.readiness,
            self.controllers,
            lambda: self.topics.summaries(self.changes.current),
            self.reassignment_queries.summaries,
            self.reviews.listed,
            time.monotonic,
        )
        self._queries = (self.kafka_probe, hosted, moving, self.events.query)
        self.metrics.watch(
            ControllerCollector(
                leads=lambda: self.active,
                leader=lambda: self.leader.record,
                session_state=lambda: self._session.client.state,
                observer=self.observer,
                brokers=Sampled(hosted),
                moves=Sampled(moving),
                clock=self._clock,
            )
        )

    def begin_stop(self) -> None:
        """Start no further step, and give up the claim when the current step has ended; does not wait for that.

        Kafka completes what it has begun, such as moving replicas. The next controller resumes running changes: their progress
        is in ZooKeeper.
        """
        self._stop.set()
        self._wake.set()
        self.leader.announce()

    def stop(self) -> None:
        """:meth:`begin_stop`, then wait for it, and end."""
        self.begin_stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._election.cancel()
            thread.join(_STOP_TIMEOUT)
            self.workers.shutdown(wait=False, cancel_futures=True)
            self.deleter.close()
            self.releaser.close()
            self.authenticator.close()
            for query in self._queries:
                query.close()
            self._rights.close()
            self._session.close()
            self.admin.close()
            self._webhook.stop(_STOP_TIMEOUT)
        self.audit.close()

    @property
    def active(self) -> bool:
        """Whether this process is the controller and may answer."""
        return self._active.is_set() and self._session.leading and not self.stopping

    @property
    def stopping(self) -> bool:
        """Whether this process is stopping."""
        return self._stop.is_set()

    def require_active(self) -> None:
        """Raises DeposedError unless this process is the controller, by its own state."""
        if not self.active:
            raise DeposedError

    def confirm_active(self) -> None:
        """Raises DeposedError unless this process is the controller: asks ZooKeeper, before any request to Kafka."""
        self.require_active()
        self._session.verify()

    def readiness(self) -> schemas.Readiness:
        """This process's role, without any request; :attr:`kafka_probe` shows whether Kafka answers.

        Raises UnavailableError: ZooKeeper does not answer, or this process is stopping.
        """
        if self.stopping:
            raise UnavailableError("this process is about to end")
        if not self._session.connected:
            raise UnavailableError(f"ZooKeeper at {self.settings.zookeeper.connect} does not answer")
        active, leader = self.active, self.leader.record
        if leader is None or (leader.id == self.id and not active):
            return schemas.Readiness(role="follower")
        return schemas.Readiness(
            role="leader" if leader.id == self.id else "follower", leader=leader.url, epoch=leader.epoch
        )

    def controllers(self) -> schemas.ControllerList:
        """All controllers, from ZooKeeper."""
        return controller_list(self._election.candidates(), self._session.leader())
