"""Requests to reassign partitions: taken, changed and cancelled. The executor carries them out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.policy import TopicChecks
from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import (
    POLL,
    MetadataAgreement,
    StaleMetadata,
    replicas_of,
)
from spark_ordered_kafka.controller.reassign.requests.policy_checks import (
    of_topics,
    refused_by_policy,
    with_other_factor,
)
from spark_ordered_kafka.controller.reassign.requests.queries import ReassignmentQueries, RequestId
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import Rows, SnapshotReader, describe
from spark_ordered_kafka.controller.reassign.requests.validation import (
    moved_since,
    overloaded,
    shown_partitions,
    undone,
    validate,
)
from spark_ordered_kafka.controller.reassign.requests.views import (
    cancelled,
    refused,
    summary,
    taken,
)
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.idempotency import repeatable_id
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import local_replicas
from spark_ordered_kafka.updates import updated

_SUBMITTING = "a reassignment that is being submitted"


class ReassignmentRequests:
    """Takes requests, one after another, and changes those that are in progress. Thread-safe.

    Every method may raise UnavailableError when Kafka or ZooKeeper does not answer, and DeposedError.

    Args:
        queries: reads the requests that are kept.
        wake: called when the store has something new.
        starting: lock for starting a partition change.
        clock: seconds since the epoch.
        timeout: seconds for each call to Kafka.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        znodes: Znodes,
        checks: TopicChecks,
        capacities: Capacities,
        queries: ReassignmentQueries,
        wake: Callable[[], None],
        starting: threading.Lock,
        clock: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._store = store
        self._capacities = capacities
        self._queries = queries
        self._wake = wake
        self._starting = starting
        self._clock = clock
        self._znodes = znodes
        self._checks = checks
        self._snapshots = SnapshotReader(admin, store, znodes, timeout=timeout)
        self._agreement = MetadataAgreement(admin.requests, store, clock, timeout=timeout)
        self._submitting = threading.Lock()

    def resume_all(self) -> None:
        """Reserve capacity for requests that earlier controllers have taken; raises ZooKeeperError."""
        for record in self._store.records().values():
            if record.ended:
                self._capacities.drop(record.owner)
        for record, moves in self._store.active():
            waiting = [move for move in moves.moves if move.state not in ENDED]
            self._capacities.restore_reservation(record.owner, _replicas(waiting))

    # -- a new request ------------------------------------------------------------------------------------------

    def submit(self, request: schemas.ReassignmentRequest, *, principal: str) -> schemas.ReassignmentResult:
        """Take a request, whole or not at all. The executor carries it out, or that of the next controller.

        A request with the idempotency key of an earlier one is not taken again: its answer names the earlier one.

        Raises:
            RequestError: INVALID_REQUEST for what is wrong with the whole: neither or both of ``partitions`` and
                ``rollback``, a rollback of an unknown or running request or of nothing, more than ZooKeeper can hold.
        """
        _check_shape(request)
        key = None
        if not request.validate_only:
            key = repeatable_id("reassignment", request.model_dump_json(exclude_defaults=True))
        stale = StaleMetadata(self._agreement)
        while True:
            with self._submitting:
                result = self._earlier(key) or self._submit(request, principal, key, stale)
            if result is not None:
                return result
            time.sleep(POLL)  # the broker's metadata may be stale, and Kafka does not notify

    def _submit(
        self, request: schemas.ReassignmentRequest, principal: str, key: str | None, stale: StaleMetadata
    ) -> schemas.ReassignmentResult | None:
        """The result; None: the metadata that it was validated against may be stale."""
        rows, warnings = self._rows(request)
        known = self._snapshots.known(rows)
        found = validate(
            rows,
            known,
            allow_factor_change=request.allow_replication_factor_change or request.rollback is not None,
            additional=request.additional,
        )
        if stale.remains(known, {(row.topic, row.partition) for row in rows}, refused=found.may_be_stale):
            return None
        if found.refused:
            return refused(rows, found.refused)
        moves = found.moves
        with self._capacities.ending(_SUBMITTING):
            reasons = self._reserve(moves) or refused_by_policy(
                self._checks, self._znodes, moves, principal=principal, validate_only=request.validate_only
            )
            if reasons or request.validate_only:
                self._capacities.drop(_SUBMITTING)
                return refused(rows, reasons) if reasons else taken(None, moves, warnings)
            # A change that began now would place new partitions by the old factor.
            with self._starting:
                changing = self._snapshots.changing(with_other_factor(moves))
                if changing:
                    self._capacities.drop(_SUBMITTING)
                    return refused(rows, of_topics(moves, changing))
                new = partial(self._record, request, principal, key, warnings)
                record = self._create(new, moves, _SUBMITTING)
        return taken(record.request_id, moves, warnings)

    def take(
        self,
        plan: Callable[[], Sequence[Move]],
        owner: str,
        *,
        principal: str,
        key: str | None = None,
        log_dirs_throttle: int | None = None,
    ) -> int | None:
        """Take moves that the caller plans; the id of their request, which elects no leaders at its end. None: no moves.

        Args:
            plan: the moves; refuses by raising. No other request is taken meanwhile, and no partition change begins.
            owner: of the capacity that is reserved for them; the request becomes its owner.
            key: idempotency key, None without one. The id is that of an earlier request with this key.
            log_dirs_throttle: bytes per second that a broker may copy between its log directories; None: no limit.
        """
        request = schemas.ReassignmentRequest(
            elect_leaders=False, replica_alter_log_dirs_throttle=log_dirs_throttle
        )
        with self._submitting, self._starting:
            earlier = self._earlier(key)
            if earlier is not None:
                return earlier.request_id
            moves = plan()
            if not moves:
                return None
            return self._create(partial(self._record, request, principal, key, ()), moves, owner).request_id

    def _create(
        self, new: Callable[[int], RequestRecord], moves: Sequence[Move], owner: str
    ) -> RequestRecord:
        """Store the request. It owns what is reserved from the start: its end may come at once."""

        def handed_over(request_id: int) -> RequestRecord:
            nonlocal owner
            record = new(request_id)
            self._capacities.transfer(owner, record.owner)
            owner = record.owner
            return record

        try:
            return self._store.create(handed_over, moves)
        except OrderedKafkaError:
            self._capacities.done(owner)
            raise
        finally:
            self._wake()  # it may be stored although the answer was lost

    def _record(
        self,
        request: schemas.ReassignmentRequest,
        principal: str,
        key: str | None,
        warnings: Sequence[str],
        request_id: int,
    ) -> RequestRecord:
        return RequestRecord(
            request_id=request_id,
            created_at=self._clock(),
            principal=principal,
            key=key,
            throttle=request.throttle,
            replica_alter_log_dirs_throttle=request.replica_alter_log_dirs_throttle,
            elect_leaders=request.elect_leaders,
            rollback_of=request.rollback,
            warnings=tuple(warnings),
        )

    def _earlier(self, key: str | None) -> schemas.ReassignmentResult | None:
        """The answer to the earlier request with this key; None: there is none."""
        if key is None:
            return None
        for request_id, record in self._store.records().items():
            if record.key == key:
                _, moves = self._queries.read(request_id)
                return taken(request_id, moves.moves, record.warnings)
        return None

    def _rows(self, request: schemas.ReassignmentRequest) -> tuple[Rows, list[str]]:
        """The requested rows, and warnings: for a rollback, of partitions that are gone."""
        if request.rollback is None:
            return request.partitions or (), []
        record, stored = self._queries.read(request.rollback, "rollback")
        what = f"rollback has the value {request.rollback}"
        if not record.ended:
            raise invalid_request(f"{what}: that request is {record.state}: cancel it, or wait for its end")
        moves = stored.moves
        tps = {move.tp for move in moves}
        # As they are after that request, not before it.
        topics = StaleMetadata(self._agreement).read_current(
            lambda: describe(self._admin, {move.topic for move in moves}),
            lambda found: replicas_of(found, tps),
        )
        named = any(move.before_log_dirs is not None for move in moves)
        log_dirs = (
            self._snapshots.dirs([m.tp for m in moves], [m.before for m in moves], topics) if named else {}
        )
        rows, gone = undone(moves, topics, local_replicas(log_dirs))
        of_it = f"partitions of request {request.rollback}"
        warnings = [f"{of_it} are gone since, with their topics: {shown_partitions(gone)}"] if gone else []
        if not rows:
            raise invalid_request(
                f"{what}: nothing is to be undone, its partitions are like before it{''.join(f'; {w}' for w in warnings)}"
            )
        moved = moved_since(moves, topics, rows)
        if moved:
            warnings.append(
                f"{of_it} were moved again since, which is undone, too: {shown_partitions(moved)}"
            )
        return rows, warnings

    def _reserve(self, moves: Sequence[Move]) -> dict[int, RequestError]:
        """Reserve the brokers' capacity for the request; the errors by index of the move."""
        reasons: dict[int, RequestError] = {}

        def plan(headroom: Headroom) -> dict[str, dict[int, Sequence[int]]]:
            reasons.update(overloaded(moves, headroom.capacity))
            return _replicas(moves)

        self._capacities.reserve_all(_SUBMITTING, plan)
        return reasons

    # -- requests in progress -----------------------------------------------------------------------------------

    def alter_throttle(
        self, request_id: RequestId, request: schemas.ReassignmentThrottleRequest
    ) -> schemas.ReassignmentSummary:
        """Change the throttles of a request in progress; returns the changed request.

        Raises RequestError: INVALID_REQUEST for an unknown request, or without throttles; NO_REASSIGNMENT_IN_PROGRESS for
        a request that has ended.
        """
        wanted = self._queries.number(request_id)
        if not request.model_fields_set - {"validate_only"}:
            raise invalid_request(
                "throttle is missing: give throttle or replica_alter_log_dirs_throttle, bytes per second or null"
            )

        def transform(record: RequestRecord) -> RequestRecord:
            if record.ended:
                raise RequestError(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"request {wanted} has ended: {record.state}"
                )
            return _throttled(record, request)

        stored, moves = self._queries.read_own(wanted)
        if request.validate_only:
            return summary(transform(stored), moves.moves)
        altered = self._store.update(wanted, transform)
        self._wake()
        return summary(altered, moves.moves)

    def cancel(self, request_id: RequestId, *, validate_only: bool = False) -> schemas.ReassignmentResult:
        """Cancel the moves of a request that are not done yet; a result per partition.

        A partition whose move has ended has NO_REASSIGNMENT_IN_PROGRESS, and stays where it is. Raises RequestError
        INVALID_REQUEST for an unknown request.
        """
        wanted = self._queries.number(request_id)

        def transform(record: RequestRecord) -> RequestRecord:
            return record if record.ended else updated(record, state="cancelling")

        record, moves = self._queries.read_own(wanted)
        if not validate_only and not record.ended:
            record = self._store.update(wanted, transform)
            self._wake()
        return schemas.ReassignmentResult(
            request_id=wanted,
            partitions=[cancelled(record, move) for move in moves.moves],
            warnings=list(record.warnings),
        )


def _throttled(record: RequestRecord, request: schemas.ReassignmentThrottleRequest) -> RequestRecord:
    """The request with the given throttles, of which one may be None: no limit."""
    given = request.model_fields_set
    if "throttle" in given:
        record = updated(record, throttle=request.throttle)
    if "replica_alter_log_dirs_throttle" in given:
        limit = request.replica_alter_log_dirs_throttle
        record = updated(record, replica_alter_log_dirs_throttle=limit)
    return record


def _check_shape(request: schemas.ReassignmentRequest) -> None:
    if (request.partitions is None) == (request.rollback is None):
        raise invalid_request("give partitions or rollback, one of the two")
    if request.partitions is not None and not request.partitions:
        raise invalid_request("partitions is empty: name those that are to be reassigned")


def _replicas(moves: Sequence[Move]) -> dict[str, dict[int, Sequence[int]]]:
    """The requested replicas by topic and partition."""
    after = {move.tp: move.after for move in moves}
    return {
        topic: {partition: after[topic, partition] for partition in partitions}
        for topic, partitions in by_topic(after).items()
    }
