"""Moves of replicas between log directories of their brokers (KIP-113), as requests to reassign partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.policy import TopicChecks
from spark_ordered_kafka.controller.reassign.log_dirs.move_plan import (
    Pending,
    Plan,
    plan,
    refusals,
    results,
)
from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import (
    MetadataAgreement,
    StaleMetadata,
    replicas_of,
)
from spark_ordered_kafka.controller.reassign.requests.policy_checks import refused_by_policy
from spark_ordered_kafka.controller.reassign.requests.service import ReassignmentRequests
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.controller.reassign.requests.validation import Known
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.batches import check_number
from spark_ordered_kafka.controller.topics.idempotency import repeatable_id
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs, by_broker
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.updates import updated

_OWNER = "moves between log directories"
"""They need no capacity."""
# Of one request: a body has room for many more, whose results would take gigabytes.
_MAX_REPLICAS = 10_000


class LogDirMoves:
    """Takes requests for moves. Thread-safe. Log directories are read by ``reading``; ``timeout`` is in seconds for each other
    call to Kafka, ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        znodes: Znodes,
        checks: TopicChecks,
        requests: ReassignmentRequests,
        reading: LogDirs,
        clock: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._store = store
        self._requests = requests
        self._reading = reading
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._agreement = MetadataAgreement(admin.requests, store, clock, timeout=timeout)
        self._znodes = znodes
        self._checks = checks

    def move(self, request: schemas.ReplicaLogDirsRequest, *, principal: str) -> schemas.ReplicaLogDirsResult:
        """Take a request to move replicas to other log directories of their brokers, whole or not at all.

        A replica that an earlier request moves is sent elsewhere, or stays, while the other replicas of that request are moved
        on. Nothing is taken when all are where they are to be, or on the way there.

        Raises:
            RequestError: INVALID_REQUEST for no replicas, too many, or more than ZooKeeper can hold.
            UnavailableError: Kafka or ZooKeeper does not answer.
        """
        rows = request.replicas
        check_number("replica", rows, _MAX_REPLICAS)
        key = None
        if not request.validate_only:
            key = repeatable_id("log dirs", request.model_dump_json(exclude_defaults=True))
        known = self._known(rows, None if request.timeout_ms is None else request.timeout_ms / 1000)
        wrong = refusals(rows, known)
        # Kafka's controller may be the broker that hangs.
        ongoing = self._reassignments.all_ongoing() if len(wrong) < len(rows) else {}
        planned = plan(rows, wrong, known, self._pending(), ongoing)
        refused = planned.refused or self._refused_by_policy(rows, planned, principal, request.validate_only)
        if refused or request.validate_only:
            return results(rows, refused)

        def again() -> Sequence[Move]:
            nonlocal planned
            planned = plan(rows, wrong, known, self._pending(), ongoing)
            return () if planned.refused else planned.moves

        request_id = self._requests.take(
            again,
            _OWNER,
            principal=principal,
            key=key,
            log_dirs_throttle=request.replica_alter_log_dirs_throttle,
        )
        if request_id is not None:
            return results(rows, planned.refused, request_id)
        answer = results(rows, planned.refused, planned.request_id)
        return updated(answer, warnings=self._other_limit(planned, request.replica_alter_log_dirs_throttle))

    def _other_limit(self, planned: Plan, throttle: int | None) -> list[str]:
        """A warning if the request that moves the replicas already has another limit than the ``throttle`` asked for."""
        read = None if planned.request_id is None else self._store.read(planned.request_id)
        if read is None or throttle in (None, read[0].replica_alter_log_dirs_throttle):
            return []
        return [
            f"replica_alter_log_dirs_throttle {throttle} is not set: request {planned.request_id} moves these replicas "
            f"already, with its own limit; ordered-kafka reassign throttle --request {planned.request_id} changes that"
        ]

    def _known(self, rows: Sequence[schemas.ReplicaLogDir], timeout: float | None) -> Known:
        """Topics, brokers, and the log directories of the brokers that are named."""
        tps = {(row.topic, row.partition) for row in rows}
        topics = StaleMetadata(self._agreement).read_current(
            lambda: describe(self._admin, (row.topic for row in rows), tps),
            lambda found: replicas_of(found, tps),
        )
        alive = {broker.id for broker in self._admin.brokers()}
        wanted = by_broker(
            (row.topic, row.partition, row.broker)
            for row in rows
            if row.broker in alive and row.topic in topics
        )
        log_dirs = self._reading.describe_each(wanted, timeout=timeout)
        return Known(topics=topics, alive=alive, log_dirs=log_dirs)

    def _pending(self) -> dict[PartitionId, Pending]:
        return {
            move.tp: Pending(
                record.request_id,
                move,
                continues=record.state == "running" and move.error_code == 0,
                understood=not (record.is_newer or stored.is_newer),
            )
            for record, stored in self._store.active()
            for move in stored.moves
            if move.state not in ENDED
        }

    def _refused_by_policy(
        self, rows: Sequence[schemas.ReplicaLogDir], planned: Plan, principal: str, validate_only: bool
    ) -> dict[int, OrderedKafkaError]:
        reasons = refused_by_policy(
            self._checks, self._znodes, planned.moves, principal=principal, validate_only=validate_only
        )
        by_topic = {planned.moves[index].topic: error for index, error in reasons.items()}
        return {index: by_topic[row.topic] for index, row in enumerate(rows) if row.topic in by_topic}
