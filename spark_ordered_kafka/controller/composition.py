"""What a controller process moves replicas with, and tells where they are, put together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spark_ordered_kafka.controller.monitoring.reassignments import ReassignmentObserver
from spark_ordered_kafka.controller.policy import PolicyCheck
from spark_ordered_kafka.controller.reassign.execution.executor import Executor
from spark_ordered_kafka.controller.reassign.execution.leader_term import LeaderTerm
from spark_ordered_kafka.controller.reassign.log_dirs.replica_selection import ReplicaSelection
from spark_ordered_kafka.controller.reassign.log_dirs.replica_status import ReplicaLags
from spark_ordered_kafka.controller.reassign.log_dirs.service import LogDirService
from spark_ordered_kafka.controller.reassign.requests.planning import ReassignmentPlans
from spark_ordered_kafka.controller.reassign.requests.service import ReassignmentRequests
from spark_ordered_kafka.controller.reassign.throttle.manager import Throttles
from spark_ordered_kafka.controller.settings import ControllerSettings
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.zk.session import Session
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.replica_ends import ReplicaEnds


@dataclass(frozen=True)
class ReplicaServices:
    """The parts that routes and the service itself use."""

    reassigner: Executor
    reassignments: ReassignmentRequests
    plans: ReassignmentPlans
    log_dirs: LogDirService
    lags: ReplicaLags


def replica_services(
    settings: ControllerSettings,
    session: Session,
    admin: KafkaAdmin,
    znodes: Znodes,
    policy: PolicyCheck,
    capacities: Capacities,
    observer: ReassignmentObserver,
    starting: threading.Lock,
    clock: Callable[[], float],
    before_step: Callable[[str], None],
    *,
    patience: float,
) -> ReplicaServices:
    """Of a process that has reached ZooKeeper and Kafka. ``before_step`` is called before every step of reassignments.

    ``starting`` is held by whoever begins a partition change; ``clock`` gives seconds since the epoch; ``patience`` are
    seconds for a broker to tell what somebody waits for.
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
    told, moved = LogDirs(admin.requests, timeout=patience), LogDirs(admin.requests, timeout=timeout)
    return ReplicaServices(
        reassigner=reassigner,
        reassignments=ReassignmentRequests(
            admin, store, znodes, policy, capacities, reassigner, starting, clock, timeout=timeout
        ),
        plans=ReassignmentPlans(
            admin, znodes, capacities, store, retired_factor=retired_factor, timeout=timeout
        ),
        log_dirs=LogDirService(admin, selection, told, moved, store),
        lags=ReplicaLags(selection, ReplicaEnds(admin.requests, clock, timeout=patience), clock),
    )
