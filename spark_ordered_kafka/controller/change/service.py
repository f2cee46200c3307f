"""Partition changes: starting, showing, cancelling and resuming them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change import machine, planning
from spark_ordered_kafka.controller.change.expansion import Expansion
from spark_ordered_kafka.controller.change.job import Job, ended_job
from spark_ordered_kafka.controller.change.jobs import Jobs
from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.change.runner import Runner
from spark_ordered_kafka.controller.placement.assignments import Assignment, check_new_partitions
from spark_ordered_kafka.controller.policy import TopicChecks, frozen
from spark_ordered_kafka.controller.state.change import AnyChange, FinishedChange, own_change
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.records import REMOVED_STATUSES, TopicRecord, owned_topic
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.idempotency import has_key, new_id
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.topics.views import change_view, finished_view
from spark_ordered_kafka.controller.zk.records import NewerRecordError, UnreadableRecordError
from spark_ordered_kafka.controller.zk.session import DeposedError, ZooKeeperError
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.plain import plain_write
from spark_ordered_kafka.kafka.producers import TIMEOUT, ProducerCheck
from spark_ordered_kafka.kafka.values import TopicDescription
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)

# A layout that covers partitions of another tool may be committed at any time, and seldom twice.
_MOST_CHECKS = 3
_CHANGED = "topic {!r} was changed, replaced or deleted meanwhile; send the request again"


class _OtherLayoutError(UnavailableError):
    """A layout was committed after the checks, and the topic is as it was but for that: they can be made again."""


class Changes:
    """The changes of all topics. ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        runner: Runner,
        expansion: Expansion,
        pending: PendingMoves,
        producers: ProducerCheck,
        checks: TopicChecks,
        clock: Callable[[], float],
    ) -> None:
        self._admin = admin
        self._checks = checks
        self._znodes = znodes
        self._topics = topics
        self._expansion = expansion
        self._pending = pending
        self._producers = producers
        self._clock = clock
        # Held from the write that records a change until its job exists, so that a cancel finds the job. While it is held,
        # no change begins on a topic without one.
        self.starting = threading.Lock()
        self._jobs = Jobs(runner, expansion, clock)

    # -- requests -----------------------------------------------------------------------------------------------

    def alter(
        self, item: schemas.TopicPartitionCount, *, force: bool, principal: str, validate_only: bool
    ) -> tuple[schemas.TopicResult, Future[FinishedChange] | None]:
        """Start the change of one topic's partition count; its result, and the future of the change that was started.

        Raises RequestError and UnavailableError for whatever keeps it from being started.
        """
        topic, target = item.topic, item.partition_count

        def vet(record: TopicRecord) -> None:
            self._checks.check(
                topic,
                record,
                "partition_count",
                principal=principal,
                validate_only=validate_only,
                altered=lambda now: replace(now, partitions=target, assignments=frozen(item.assignments)),
            )

        change_id = new_id(topic, "partition_count", target, item.assignments, force, validate_only)

        def plan(record: TopicRecord, existing: int) -> Change:
            if item.layout_epoch not in (None, record.layout_epoch):
                raise invalid_request(
                    f"topic {topic!r} was changed meanwhile: it has layout epoch {record.layout_epoch} and "
                    f"{record.undeleted_partition_count} partitions now, and layout_epoch has the value {item.layout_epoch}"
                )
            return self._plan_count(topic, change_id, target, force, record, existing)

        job = self._begun(topic, change_id) or self._start(topic, plan, vet, validate_only, item.assignments)
        if job is None:
            return schemas.TopicResult(topic=topic), None
        return schemas.TopicResult(topic=topic, change_id=job.change.id), job.done

    def switch_order(
        self, topic: str, ordered_delivery: bool, *, force: bool, principal: str, validate_only: bool
    ) -> Job | None:
        """Start the change that switches ordered delivery; None when it has that value, or for ``validate_only``.

        Raises RequestError PARTITION_CHANGE_IN_PROGRESS, or what else keeps the change from being started.
        """
        # Also with validate_only: a repeated request must not be refused because of the change that it has begun.
        change_id = new_id(topic, "ordered_delivery", ordered_delivery, force)
        if (job := self._begun(topic, change_id)) is not None:
            return None if validate_only else job
        record, _ = self._topics.record(topic)
        switching = record.change is not None and record.change.source == record.change.target
        if record.ordered_delivery == ordered_delivery and not switching:
            return None

        def vet(current: TopicRecord) -> None:
            self._checks.check(
                topic,
                current,
                "ordered_delivery",
                principal=principal,
                validate_only=validate_only,
                altered=lambda now: replace(now, ordered_delivery=ordered_delivery),
            )

        def plan(current: TopicRecord, existing: int) -> Change:
            return planning.plan_order(
                topic,
                change_id=change_id,
                ordered_delivery=ordered_delivery,
                count=current.undeleted_partition_count,
                existing=existing,
                force=force,
                pending=current.change,
                now=self._clock(),
            )

        return self._start(topic, plan, vet, validate_only)

    def view(self, topic: str) -> schemas.TopicChange:
        """The change in progress and the one that ended last. Raises RequestError for an unknown topic."""
        record, _ = self._topics.record(topic)
        return schemas.TopicChange(
            topic=topic,
            change=None if record.change is None else change_view(self.current(record.change)),
            last_change=None if record.last_change is None else finished_view(record.last_change),
        )

    def current(self, change: AnyChange) -> AnyChange:
        """``change`` with this process's progress."""
        job = self._jobs.find(change.topic, change.id)
        return change if job is None else job.change

    def changing(self) -> list[str]:
        """Topics with a change that this process carries out."""
        return self._jobs.topics()

    def cancel(self, topic: str) -> schemas.TopicResult:
        """Request that the change in progress is rolled back.

        Raises RequestError: INVALID_REQUEST when none is in progress, PARTITION_CHANGE_IN_PROGRESS when it is too late.
        """
        with self.starting:
            record, _ = self._topics.record(topic)
            job = self._jobs.find(topic)
        if record.change is None:
            raise invalid_request(f"topic {topic!r} has no partition change that could be cancelled")
        change = record.change
        own_change(topic, change)
        if job is None or job.change.id != change.id or not job.request_cancel():
            raise RequestError(
                ErrorCode.PARTITION_CHANGE_IN_PROGRESS,
                f"change {change.id} of topic {topic!r} cannot be cancelled any more: its boundaries are read, it "
                "ends in a moment",
            )
        # Written to the record that the commit writes: the first of the two makes the other fail.
        self._znodes.update_topic(topic, lambda current: planning.with_cancel(topic, current, change.id))
        return schemas.TopicResult(topic=topic, change_id=change.id)

    # -- life ---------------------------------------------------------------------------------------------------

    def resume_all(self) -> None:
        """Resume every change that ZooKeeper holds, except those that only a newer controller understands."""
        self._jobs.begin()
        for topic in self._znodes.topics():
            try:
                found = self._znodes.topic(topic)
                record = None if found is None else owned_topic(found, topic)
            except (NewerRecordError, UnreadableRecordError) as error:
                _log.warning("topic %s is left alone: %s", topic, error.message)
                continue
            if record is not None and isinstance(record.change, Change):
                _log.info("topic %s: change %s is resumed at %s", topic, record.change.id, record.change.step)
                self._jobs.run(record.change, record.topic_id)

    def begin_stop(self) -> None:
        """Let no change begin a further instruction."""
        self._jobs.begin_stop()

    def stop(self, timeout: float) -> None:
        """Stop between two instructions; waits ``timeout`` seconds in all for the threads."""
        self._jobs.stop_all(timeout)

    def _begun(self, topic: str, change_id: str) -> Job | None:
        """The change that a repeated request has begun: in progress or ended."""
        if not has_key():
            return None
        # Before the record: a change that has neither a job nor an entry there has not begun.
        job = self._jobs.find(topic, change_id)
        record, _ = self._topics.record(topic)
        if job is not None:
            return job
        if record.last_change is not None and record.last_change.id == change_id:
            return ended_job(topic, record.topic_id, record.last_change)
        if record.change is not None and record.change.id == change_id:
            raise UnavailableError(f"change {change_id} of topic {topic!r} is in progress; ask again")
        if change_id in record.ended_changes:
            raise UnavailableError(
                f"change {change_id} of topic {topic!r} has ended, and others came after it: look at the topic"
            )
        return None

    # -- helpers ------------------------------------------------------------------------------------------------

    def _start(
        self,
        topic: str,
        plan: Callable[[TopicRecord, int], Change],
        vet: Callable[[TopicRecord], None],
        validate_only: bool,
        assignments: Assignment | None = None,
    ) -> Job | None:
        """Check the change and start its job; None with ``validate_only``.

        Args:
            plan: makes the change from the topic's record and its number of Kafka partitions; raises its refusal.
            vet: raises the policy's refusal.
        """
        again = Retrying(
            retry=retry_if_exception_type(_OtherLayoutError),
            stop=stop_after_attempt(_MOST_CHECKS),
            reraise=True,
        )
        return again(self._check_and_start, topic, plan, vet, validate_only, assignments)

    def _check_and_start(
        self,
        topic: str,
        plan: Callable[[TopicRecord, int], Change],
        vet: Callable[[TopicRecord], None],
        validate_only: bool,
        assignments: Assignment | None,
    ) -> Job | None:
        record, _ = self._topics.record(topic)
        plan(record, 0)
        description = described(self._admin, topic, record.topic_id, self._topics.covered(topic, record))
        change = plan(record, len(description.partitions))
        if assignments is not None:
            change = self._with_assignments(change, description, assignments)
        with ExitStack() as undone:
            if change.target > change.source:
                self._refuse_newer_marks(change)
                self._pending.refuse_resizing(topic)
                undone.callback(self._expansion.dropped, change)
                self._expansion.check(change, description)
            if change.refuses_foreign:
                self._producers.refuse_foreign(topic, change.written)
            vet(record)
            if validate_only:
                self._refuse_plain(change)
                return None
            job = self._record(topic, record, change, plan)
            undone.pop_all()
            return job

    def _refuse_newer_marks(self, change: Change) -> None:
        """Raises NewerRecordError when a partition that becomes live again has a status of a newer controller."""
        for partition, status in self._znodes.partition_statuses(change.topic).items():
            if change.source <= partition < change.target and status not in REMOVED_STATUSES:
                raise NewerRecordError(f"partition {partition} of topic {change.topic!r} is {status}")

    def _refuse_plain(self, change: Change) -> None:
        """Raises RequestError when the change's first step would find a foreign producer."""
        if not change.refuses_foreign:
            return
        deadline = time.monotonic() + TIMEOUT
        found = plain_write(self._admin, change.topic, change.written, self._jobs.stop.wait, deadline)
        if found is not None:
            raise RequestError(
                ErrorCode.ACTIVE_FOREIGN_PRODUCERS, machine.foreign_refusal(change.topic, str(found))
            )

    def _record(
        self, topic: str, checked: TopicRecord, change: Change, plan: Callable[[TopicRecord, int], Change]
    ) -> Job:
        def transform(current: TopicRecord) -> TopicRecord:
            # All checks, a policy's too, were of the topic as it was: growth may be a shrink by now.
            if current.deleting_since is not None or _identity(current) != _identity(checked):
                raise UnavailableError(_CHANGED.format(topic))
            if current.layout_epoch != checked.layout_epoch:
                raise _OtherLayoutError(_CHANGED.format(topic))
            # Planned again from the current record: two requests may arrive at once.
            planned = replace(plan(current, change.existing), id=change.id, assignments=change.assignments)
            return updated(current, change=planned)

        with self.starting:
            # The same request may have arrived twice, and have begun meanwhile.
            if (job := self._begun(topic, change.id)) is not None:
                return job
            if change.target > change.source:
                self._pending.refuse_resizing(topic)
            try:
                new = self._znodes.update_topic(topic, transform)
            except ZooKeeperError as error:
                new = self._recorded(topic, change.id, error)
            if not isinstance(new.change, Change):
                raise DeposedError
            return self._jobs.run(new.change, new.topic_id)

    def _recorded(self, topic: str, change_id: str, lost: ZooKeeperError) -> TopicRecord:
        """The record, if the write without an answer was done: only this process would resume the change."""
        stop = self._jobs.stop
        while True:
            try:
                self._znodes.await_claim(stop)
                record = self._znodes.topic(topic)
            except ZooKeeperError:
                continue
            except DeposedError:
                raise lost from None  # the next controller resumes it
            if record is None or record.change is None or record.change.id != change_id:
                raise lost
            return record

    def _with_assignments(
        self, change: Change, description: TopicDescription, assignments: Assignment
    ) -> Change:
        """The change with the replicas of the partitions that it adds; raises RequestError for wrong ones."""
        check_new_partitions(
            assignments,
            change.existing,
            change.target,
            self._expansion.factor(description),
            [broker.id for broker in self._admin.brokers()],
        )
        return replace(change, assignments=tuple(tuple(assignments[p]) for p in sorted(assignments)))

    def _plan_count(
        self, topic: str, change_id: str, target: int, force: bool, record: TopicRecord, existing: int
    ) -> Change:
        return planning.plan_count(
            topic,
            change_id=change_id,
            target=target,
            source=record.undeleted_partition_count,
            initial=record.initial_partition_count,
            existing=existing,
            ordered=record.ordered_delivery,
            force=force,
            pending=record.change,
            now=self._clock(),
        )


def _identity(record: TopicRecord) -> tuple[int, int, bool]:
    return record.management, record.undeleted_partition_count, record.ordered_delivery
