"""Connects a controller process to Kafka, and builds the parts that move replicas and report where they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spark_ordered_kafka.controller.monitoring.reassignments import ReassignmentObserver
from spark_ordered_kafka.controller.policy import TopicChecks
from spark_ordered_kafka.controller.reassign.execution.executor import Executor
from spark_ordered_kafka.controller.reassign.execution.leader_term import LeaderTerm
from spark_ordered_kafka.controller.reassign.log_dirs.moves import LogDirMoves
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import ReplicaSelection
from spark_ordered_kafka.controller.reassign.log_dirs.replica_status import ReplicaLags
from spark_ordered_kafka.controller.reassign.log_dirs.service import LogDirService
from spark_ordered_kafka.controller.reassign.requests.elections import LeaderElections
from spark_ordered_kafka.controller.reassign.requests.planning import ReassignmentPlans
from spark_ordered_kafka.controller.reassign.requests.queries import ReassignmentQueries
from spark_ordered_kafka.controller.reassign.requests.replication import ReplicationFactors
from spark_ordered_kafka.controller.reassign.requests.service import ReassignmentRequests
from spark_ordered_kafka.controller.reassign.throttle.manager import Throttles
from spark_ordered_kafka.controller.settings import ControllerSettings
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.zk.session import Session
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.replica_ends import ReplicaEnds

_RETRY = 0.5


def reach_kafka(settings: ControllerSettings, deadline: float, stop: threading.Event) -> KafkaAdmin:
    """A client of Kafka; tries until ``deadline`` (monotonic seconds) or ``stop``.

    Raises UnavailableError then, and at once what trying again would not help against.
    """
    while True:
        try:
            return KafkaAdmin(settings.kafka, timeout=settings.request_timeout)
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            if time.monotonic() >= deadline or stop.wait(_RETRY):
                raise UnavailableError(
                    f"Kafka at {settings.bootstrap_servers} did not answer within {settings.startup_timeout:g} s: {error}"
                ) from error


@dataclass(frozen=True)
class ReplicaServices:
    """The parts for routes and for the service."""

    reassigner: Executor
    reassignments: ReassignmentRequests
    queries: ReassignmentQueries
    replication: ReplicationFactors
    plans: ReassignmentPlans
    elections: LeaderElections
    log_dirs: LogDirService
    log_dir_moves: LogDirMoves
    lags: ReplicaLags


def replica_services(
    settings: ControllerSettings,
    session: Session,
    admin: KafkaAdmin,
    znodes: Znodes,
    topics: Topics,
    checks: TopicChecks,
    capacities: Capacities,
    observer: ReassignmentObserver,
    starting: threading.Lock,
    clock: Callable[[], float],
    before_step: Callable[[str], None],
    *,
    read_timeout: float,
) -> ReplicaServices:
    """Build them for a process connected to ZooKeeper and Kafka. ``before_step`` is called before every reassignment step.

    ``starting`` is the lock for starting a partition change; ``clock`` gives seconds since the epoch; ``read_timeout`` is in
    seconds, for brokers' answers to reads.
    """
    timeout, retired_factor = settings.request_timeout, settings.retire_replication_factor
    store = ReassignmentStore(session)
    new_leader_term = partial(
        LeaderTerm,
        admin,
        store,
        Throttles(session, admin, timeout),
        capacities,
        settings.reassign,
        clock,
        observer,
        session.await_claim,
        before_step,
        timeout=timeout,
    )
    reassigner = Executor(new_leader_term)
    selection = ReplicaSelection(admin)
    queries = ReassignmentQueries(admin, store, reassigner, clock, timeout=timeout)
    requests = ReassignmentRequests(
        admin,
        store,
        znodes,
        checks,
        capacities,
        queries,
        reassigner.wake,
        starting,
        clock,
        timeout=timeout,
    )
    reading = LogDirs(admin.requests, timeout=read_timeout)
    return ReplicaServices(
        reassigner=reassigner,
        reassignments=requests,
        queries=queries,
        replication=ReplicationFactors(
            admin,
            znodes,
            topics,
            checks,
            capacities,
            PendingMoves(store),
            requests,
            queries,
            retired_factor=retired_factor,
            timeout=timeout,
        ),
        plans=ReassignmentPlans(
            admin, znodes, capacities, store, clock, retired_factor=retired_factor, timeout=timeout
        ),
        elections=LeaderElections(admin, timeout),
        log_dirs=LogDirService(selection, reading),
        log_dir_moves=LogDirMoves(admin, store, znodes, checks, requests, reading, clock, timeout=timeout),
        lags=ReplicaLags(selection, ReplicaEnds(admin.requests, clock, timeout=read_timeout), clock),
    )
