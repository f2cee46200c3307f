"""Requests to reassign partitions as they are: which there are, how far they are, and whether partitions are as asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import (
    MetadataAgreement,
    Replicas,
    StaleMetadata,
    all_replicas,
)
from spark_ordered_kafka.controller.reassign.requests.verification import verify
from spark_ordered_kafka.controller.reassign.requests.views import ended_summary, summary, view
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, MovesRecord, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore, unknown_request
from spark_ordered_kafka.controller.zk.records import NewerRecordError
from spark_ordered_kafka.errors import ErrorCode, error_name, refusal
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.values import PartitionId, TopicDescription

RequestId = int | Literal["latest"]


class LiveRequests(Protocol):
    """The requests that this process carries out, newer than in the store."""

    def snapshot(self, request_id: int) -> schemas.ReassignmentView | None:
        """A request as it is now; None if this process does not carry it out."""

    def summaries(self) -> Sequence[schemas.ReassignmentSummary]:
        """All of them as they are now."""


class ReassignmentQueries:
    """Reads requests. Thread-safe. ``clock`` gives seconds since the epoch, ``timeout`` is in seconds for each call to Kafka.

    Every method may raise UnavailableError when Kafka or ZooKeeper does not answer.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        live: LiveRequests,
        clock: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._store = store
        self._live = live
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._log_dirs = LogDirs(admin.requests, timeout=timeout)
        self._agreement = MetadataAgreement(admin.requests, store, clock, timeout=timeout)

    def view(self, request_id: RequestId) -> schemas.ReassignmentView:
        """A request and how far each of its replicas is. Raises RequestError INVALID_REQUEST for one that is not kept.

        A controller that does not carry it out shows the stored request: a few seconds old, and without a rate.
        """
        wanted = self.number(request_id)
        live = self._live.snapshot(wanted)
        if live is not None:
            return live
        record, moves = self.read(wanted)
        return view(record, moves.moves)

    def summaries(self, whose: dict[PartitionId, int] | None = None) -> list[schemas.ReassignmentSummary]:
        """The stored requests, newest first, without a request to Kafka; adds to ``whose`` which request moves a partition."""
        live = {row.request_id: row for row in self._live.summaries()}
        rows: list[schemas.ReassignmentSummary] = []
        for request_id, record in sorted(self._store.records().items(), reverse=True):
            if record.sums is not None:
                rows.append(ended_summary(record, record.sums))
                continue
            read = self._store.find(request_id)
            if read is None:
                continue  # swept meanwhile
            stored = summary(read[0], read[1].moves)
            rows.append(live.get(request_id, stored) if stored.ended_at is None else stored)
            if whose is not None:
                whose |= {move.tp: request_id for move in read[1].moves if move.state not in ENDED}
        return rows

    def all(self) -> schemas.ReassignmentList:
        """The stored requests, newest first, and all reassignments in progress in Kafka."""
        ongoing = self._reassignments.all_ongoing()
        whose: dict[PartitionId, int] = {}
        requests = self.summaries(whose)
        return schemas.ReassignmentList(
            requests=requests,
            ongoing=[
                schemas.OngoingReassignment(
                    topic=tp[0],
                    partition=tp[1],
                    replicas=list(one.replicas),
                    adding_replicas=list(one.adding),
                    removing_replicas=list(one.removing),
                    request_id=whose.get(tp),
                )
                for tp, one in sorted(ongoing.items())
            ],
        )

    def verify(self, request: schemas.VerifyRequest) -> schemas.Verification:
        """Whether partitions are as requested; see :mod:`~spark_ordered_kafka.controller.reassign.requests.verification`."""

        def differing(found: schemas.Verification) -> Replicas:
            return {
                (row.topic, row.partition): tuple(row.replicas)
                for row in found.partitions
                if row.status == "differs"
            }

        return StaleMetadata(self._agreement).read_current(
            lambda: verify(self._admin, self._reassignments, self._log_dirs, request.partitions), differing
        )

    def current(self, describe: Callable[[], TopicDescription]) -> TopicDescription:
        """What ``describe`` returns, repeated while it is older than the end of a reassignment. Raises ZooKeeperError."""
        return StaleMetadata(self._agreement).read_current(
            describe, lambda found: all_replicas({found.topic: found})
        )

    def ended(self, request_id: int, topic: str) -> bool:
        """Whether a request has ended, or is not kept any more.

        Raises RequestError for the first partition of ``topic`` that is not done: its error, INVALID_REQUEST if the request
        was cancelled.
        """
        read = self._store.read(request_id)
        if read is None:
            return True
        record, moves = read
        for move in moves.moves if record.ended else ():
            if move.topic == topic and move.state != "done":
                code = ErrorCode.INVALID_REQUEST if move.state == "cancelled" else move.error_code
                reason = f"partition {topic}-{move.partition} of reassignment {request_id} {move.state}: {move.error_message}"
                raise refusal(code, error_name(code), reason)
        return record.ended

    def number(self, request_id: RequestId) -> int:
        """The number of a request. Raises RequestError INVALID_REQUEST when there is no latest one."""
        if request_id != "latest":
            return request_id
        latest = self._store.latest()
        if latest is None:
            raise unknown_request(request_id)
        return latest

    def read(self, request_id: int, field: str = "request_id") -> tuple[RequestRecord, MovesRecord]:
        read = self._store.read(request_id)
        if read is None:
            raise unknown_request(request_id, field)
        return read

    def read_own(self, request_id: int) -> tuple[RequestRecord, MovesRecord]:
        """A request that may be changed. Raises NewerRecordError for one that only a newer controller understands."""
        record, moves = self.read(request_id)
        if record.is_newer or moves.is_newer:
            raise NewerRecordError(f"request {request_id} ({record.state}) is a newer controller's")
        return record, moves
