"""Requests to reassign partitions: taken, shown, changed and cancelled. They are carried out elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, Protocol

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.policy import PolicyCheck
from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import (
    POLL,
    MetadataAgreement,
    StaleMetadata,
)
from spark_ordered_kafka.controller.reassign.requests.policy_checks import (
    PolicyChecks,
    of_topics,
    with_other_factor,
)
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import Rows, SnapshotReader
from spark_ordered_kafka.controller.reassign.requests.validation import (
    moved_since,
    overloaded,
    shown_places,
    undone,
    validate,
)
from spark_ordered_kafka.controller.reassign.requests.verification import verify
from spark_ordered_kafka.controller.reassign.requests.views import (
    cancelled,
    ended_summary,
    refused,
    summary,
    taken,
    view,
)
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move, MovesRecord, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore, unknown_request
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities, Headroom
from spark_ordered_kafka.controller.topics.idempotency import repeatable_id
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import PartitionId

_SUBMITTING = "a reassignment that is being submitted"

RequestId = int | Literal["latest"]


class Carrier(Protocol):
    """What carries requests out, at the controller that leads."""

    def wake(self) -> None:
        """Something is new in the store."""

    def snapshot(self, request_id: int) -> schemas.ReassignmentView | None:
        """A request as it is now; None where that is not known better than from the store."""

    def summaries(self) -> Sequence[schemas.ReassignmentSummary]:
        """Likewise of all for which it is."""


class ReassignmentRequests:
    """Safe to share between threads; requests are taken one after another. ``clock`` gives seconds since the epoch.

    Every method may raise UnavailableError when Kafka or ZooKeeper does not answer; what changes something DeposedError, too.

    Args:
        starting: held by whoever begins a partition change.
        timeout: seconds for each call to Kafka.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        znodes: Znodes,
        policy: PolicyCheck,
        capacities: Capacities,
        carrier: Carrier,
        starting: threading.Lock,
        clock: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._store = store
        self._capacities = capacities
        self._carrier = carrier
        self._starting = starting
        self._clock = clock
        self._policy_checks = PolicyChecks(admin, znodes, policy, timeout)
        self._snapshots = SnapshotReader(admin, store, znodes, clock, timeout=timeout)
        self._agreement = MetadataAgreement(admin.requests, store, clock, timeout=timeout)
        self._submitting = threading.Lock()

    def resume_all(self) -> None:
        """What earlier controllers have taken counts on brokers' capacity; raises ZooKeeperError."""
        for record in self._store.records().values():
            if record.ended:
                self._capacities.drop(record.owner)
        for record, moves in self._store.active():
            waiting = [move for move in moves.moves if move.state not in ENDED]
            self._capacities.reserve_known(record.owner, _replicas(waiting))

    # -- reads --------------------------------------------------------------------------------------------------

    def view(self, request_id: RequestId) -> schemas.ReassignmentView:
        """A request and how far each of its replicas is. Raises RequestError INVALID_REQUEST for one that is not kept.

        At a controller that does not carry it out this is what is stored, which is at most a few seconds older, and says nothing
        about its rate.
        """
        wanted = self.number(request_id)
        live = self._carrier.snapshot(wanted)
        if live is not None:
            return live
        record, moves = self._read(wanted)
        return view(record, moves.moves)

    def all(self) -> schemas.ReassignmentList:
        """The requests that are kept, newest first, and all that Kafka is busy with."""
        ongoing = self._snapshots.reassignments.all_ongoing()
        live = {row.request_id: row for row in self._carrier.summaries()}
        records = self._store.records()
        whose: dict[PartitionId, int] = {}
        rows: dict[int, schemas.ReassignmentSummary] = {}
        for request_id, record in sorted(records.items(), reverse=True):
            if record.sums is not None:
                rows[request_id] = ended_summary(record, record.sums)
                continue
            read = self._store.read(request_id)
            if read is None:
                continue  # swept meanwhile
            stored = summary(read[0], read[1].moves)
            rows[request_id] = live.get(request_id, stored) if stored.ended_at is None else stored
            whose |= {move.place: request_id for move in read[1].moves if move.state not in ENDED}
        return schemas.ReassignmentList(
            requests=list(rows.values()),
            ongoing=[
                schemas.OngoingReassignment(
                    topic=place[0],
                    partition=place[1],
                    replicas=list(one.replicas),
                    adding_replicas=list(one.adding),
                    removing_replicas=list(one.removing),
                    request_id=whose.get(place),
                )
                for place, one in sorted(ongoing.items())
            ],
        )

    def verify(self, request: schemas.VerifyRequest) -> schemas.Verification:
        """Whether partitions have come to what the request says; see :func:`verifying.verify`."""
        doubt = StaleMetadata(self._agreement)
        while True:
            found = verify(
                self._admin, self._snapshots.reassignments, self._snapshots.log_dirs, request.partitions
            )
            differing = {
                (row.topic, row.partition): tuple(row.replicas)
                for row in found.partitions
                if row.status == "differs"
            }
            if not differing or not doubt.is_late(differing):
                return found
            time.sleep(POLL)

    # -- a new request ------------------------------------------------------------------------------------------

    def submit(self, request: schemas.ReassignmentRequest, *, principal: str) -> schemas.ReassignmentResult:
        """Take a request, whole or not at all; it is carried out from then on, whatever becomes of this process.

        One that comes again with the same idempotency key is not taken again: its answer names the first one.

        Raises:
            RequestError: INVALID_REQUEST for what is wrong with the whole: neither or both of ``partitions`` and
                ``rollback``, a rollback of an unknown or running request or of nothing, more than ZooKeeper can hold.
        """
        _check_shape(request)
        key = None
        if not request.validate_only:
            key = repeatable_id("reassignment", request.model_dump_json())
        doubt = StaleMetadata(self._agreement)
        while True:
            with self._submitting:
                result = self._earlier(key) or self._submit(request, principal, key, doubt)
            if result is not None:
                return result
            time.sleep(POLL)

    def _submit(
        self, request: schemas.ReassignmentRequest, principal: str, key: str | None, doubt: StaleMetadata
    ) -> schemas.ReassignmentResult | None:
        """None: what it is validated against may be outdated."""
        rows, warnings = self._rows(request)
        known = self._snapshots.known(rows)
        found = validate(
            rows,
            known,
            allow_factor_change=request.allow_replication_factor_change or request.rollback is not None,
            additional=request.additional,
        )
        if doubt.remains(known, {(row.topic, row.partition) for row in rows}, refused=found.is_hearsay):
            return None
        if found.refused:
            return refused(rows, found.refused)
        moves = found.moves
        with self._capacities.ending(_SUBMITTING):
            reasons = self._reserve(moves) or self._policy_checks.of(moves, principal, request.validate_only)
            if reasons or request.validate_only:
                self._capacities.drop(_SUBMITTING)
                return refused(rows, reasons) if reasons else taken(None, moves, warnings)
            # No change begins while the lock is held, which would place new partitions by the old factor.
            with self._starting:
                changing = self._snapshots.changing(with_other_factor(moves))
                if changing:
                    self._capacities.drop(_SUBMITTING)
                    return refused(rows, of_topics(moves, changing))
                record = self._create(partial(self._record, request, principal, key, warnings), moves)
        return taken(record.request_id, moves, warnings)

    def _create(self, new: Callable[[int], RequestRecord], moves: Sequence[Move]) -> RequestRecord:
        """Store the request. It has the promise from the start: its end may come at once."""
        owner = _SUBMITTING

        def handed_over(request_id: int) -> RequestRecord:
            nonlocal owner
            record = new(request_id)
            self._capacities.hand_over(owner, record.owner)
            owner = record.owner
            return record

        try:
            return self._store.create(handed_over, moves)
        except OrderedKafkaError:
            self._capacities.done(owner)
            raise
        finally:
            self._carrier.wake()  # it may be there though its answer got lost

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
        """The answer to the request that came first with this key."""
        if key is None:
            return None
        for request_id, record in self._store.records().items():
            if record.key == key:
                _, moves = self._read(request_id)
                return taken(request_id, moves.moves, record.warnings)
        return None

    def _rows(self, request: schemas.ReassignmentRequest) -> tuple[Rows, list[str]]:
        """What is asked for, and warnings: of a rollback, what is gone since."""
        if request.rollback is None:
            return request.partitions or (), []
        record, stored = self._read(request.rollback, "rollback")
        what = f"rollback has the value {request.rollback}"
        if not record.ended:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"{what}: that request is {record.state}: cancel it, or wait for its end",
            )
        moves = stored.moves
        topics = self._snapshots.settled(record, moves)
        named = any(move.before_log_dirs is not None for move in moves)
        log_dirs = (
            self._snapshots.dirs([m.place for m in moves], [m.before for m in moves], topics) if named else {}
        )
        rows, gone = undone(moves, topics, log_dirs)
        of_it = f"partitions of request {request.rollback}"
        warnings = [f"{of_it} are gone since, with their topics: {shown_places(gone)}"] if gone else []
        if not rows:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"{what}: nothing is to be undone, its partitions are like before it{''.join(f'; {w}' for w in warnings)}",
            )
        moved = moved_since(moves, topics, rows)
        if moved:
            warnings.append(f"{of_it} were moved again since, which is undone, too: {shown_places(moved)}")
        return rows, warnings

    def _reserve(self, moves: Sequence[Move]) -> dict[int, RequestError]:
        """Promise the brokers' capacity to the request; why not, by index of the move."""
        reasons: dict[int, RequestError] = {}

        def plan(headroom: Headroom) -> dict[str, dict[int, Sequence[int]]]:
            reasons.update(overloaded(moves, headroom.capacity))
            return _replicas(moves)

        self._capacities.reserve_all(_SUBMITTING, plan)
        return reasons

    # -- requests that go on ------------------------------------------------------------------------------------

    def alter_throttle(
        self, request_id: RequestId, request: schemas.ReassignmentThrottleRequest
    ) -> schemas.ReassignmentSummary:
        """Give a request that goes on other throttles; the request with them.

        Raises RequestError: INVALID_REQUEST for one that is not kept, or when nothing is given;
        NO_REASSIGNMENT_IN_PROGRESS for one that has ended.
        """
        wanted = self.number(request_id)
        given = {name: getattr(request, name) for name in request.model_fields_set - {"validate_only"}}
        if not given:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "throttle is missing: give throttle or replica_alter_log_dirs_throttle, bytes per second or null",
            )

        def transform(record: RequestRecord) -> RequestRecord:
            if record.ended:
                raise RequestError(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"request {wanted} has ended: {record.state}"
                )
            return record.model_copy(update=given)

        stored, moves = self._read(wanted)
        if request.validate_only:
            return summary(transform(stored), moves.moves)
        altered = self._store.update(wanted, transform)
        self._carrier.wake()
        return summary(altered, moves.moves)

    def cancel(self, request_id: RequestId, *, validate_only: bool = False) -> schemas.ReassignmentResult:
        """Ask for what a request has not done yet to be taken back; a result per partition.

        NO_REASSIGNMENT_IN_PROGRESS is that of a partition with which nothing goes on any more: what is done stays done.
        Raises RequestError INVALID_REQUEST for a request that is not kept.
        """
        wanted = self.number(request_id)

        def transform(record: RequestRecord) -> RequestRecord:
            return record if record.ended else record.model_copy(update={"state": "cancelling"})

        record, moves = self._read(wanted)
        if not validate_only and not record.ended:
            record = self._store.update(wanted, transform)
            self._carrier.wake()
        return schemas.ReassignmentResult(
            request_id=wanted,
            partitions=[cancelled(record, move) for move in moves.moves],
            warnings=list(record.warnings),
        )

    def number(self, request_id: RequestId) -> int:
        """The number of a request. Raises RequestError INVALID_REQUEST when there is no latest one."""
        if request_id != "latest":
            return request_id
        latest = self._store.latest()
        if latest is None:
            raise unknown_request(request_id)
        return latest

    def _read(self, request_id: int, field: str = "request_id") -> tuple[RequestRecord, MovesRecord]:
        read = self._store.read(request_id)
        if read is None:
            raise unknown_request(request_id, field)
        return read


def _check_shape(request: schemas.ReassignmentRequest) -> None:
    if (request.partitions is None) == (request.rollback is None):
        raise RequestError(ErrorCode.INVALID_REQUEST, "give partitions or rollback, one of the two")
    if request.partitions is not None and not request.partitions:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "partitions is empty: name those that are to be reassigned"
        )


def _replicas(moves: Sequence[Move]) -> dict[str, dict[int, Sequence[int]]]:
    """By topic and partition, as they are to be."""
    after = {move.place: move.after for move in moves}
    return {
        topic: {partition: after[topic, partition] for partition in partitions}
        for topic, partitions in by_topic(after).items()
    }
