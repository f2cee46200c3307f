"""Partition changes: starting, watching, cancelling and resuming them."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change import machine, planning
from spark_ordered_kafka.controller.change.expansion import Expansion
from spark_ordered_kafka.controller.change.job import Job, ended_job
from spark_ordered_kafka.controller.change.runner import Runner
from spark_ordered_kafka.controller.placement.assignments import Assignment, check_new_partitions
from spark_ordered_kafka.controller.policy import Operation, PolicyCheck, TopicRequest, frozen, present
from spark_ordered_kafka.controller.state.change import Change, FinishedChange
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.idempotency import has_key, new_id
from spark_ordered_kafka.controller.topics.kafka_state import described_soon
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.topics.views import change_view, finished_view
from spark_ordered_kafka.controller.zk.session import DeposedError, ZooKeeperError
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.plain import plain_write
from spark_ordered_kafka.kafka.producers import TIMEOUT, ProducerCheck
from spark_ordered_kafka.kafka.values import TopicDescription

_log = logging.getLogger(__name__)


class Changes:
    """The changes of all topics; each runs in a thread of its own.

    ``clock`` gives seconds since the epoch; ``timeout`` (seconds) bounds a question about a topic's configuration.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        runner: Runner,
        expansion: Expansion,
        pending: PendingMoves,
        producers: ProducerCheck,
        policy: PolicyCheck,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        self._admin = admin
        self._policy = policy
        self._configs = TopicConfigs(admin.requests, timeout)
        self._znodes = znodes
        self._topics = topics
        self._runner = runner
        self._expansion = expansion
        self._pending = pending
        self._producers = producers
        self._clock = clock
        self._lock = threading.Lock()
        # Held from the write that records a change until its job is known, so that a cancel finds the job. Who holds it
        # knows that no change begins on a topic without one.
        self.starting = threading.Lock()
        self._stop = threading.Event()
        self._jobs: dict[str, tuple[Job, threading.Thread]] = {}

    # -- requests -----------------------------------------------------------------------------------------------

    def alter(
        self, item: schemas.TopicPartitionCount, *, force: bool, principal: str, validate_only: bool
    ) -> tuple[schemas.TopicResult, Future[FinishedChange] | None]:
        """Start the change of one topic's partition count; its result, and the future of the change that was started.

        Raises RequestError and UnavailableError for whatever keeps it from being started.
        """
        topic, target = item.topic, item.partition_count

        def vet(record: TopicRecord) -> None:
            self._policy.validate(
                lambda: replace(
                    self._present(topic, record, "partition_count", principal, validate_only),
                    partitions=target,
                    assignments=frozen(item.assignments),
                )
            )

        change_id = new_id(topic, "partition_count", target, item.assignments, force, validate_only)
        plan = partial(self._plan_count, topic, change_id, target, force)
        job = self._begun(topic, change_id) or self._start(topic, plan, vet, validate_only, item.assignments)
        if job is None:
            return schemas.TopicResult(topic=topic), None
        return schemas.TopicResult(topic=topic, change_id=job.change.id), job.done

    def switch_order(
        self, topic: str, ordered_delivery: bool, *, force: bool, principal: str, validate_only: bool
    ) -> Job | None:
        """Start the change that switches ordered delivery; None when it is so already, or for ``validate_only``.

        Raises RequestError PARTITION_CHANGE_IN_PROGRESS, or what else keeps the change from being started.
        """
        # Of the check before it, too: what the same request has begun must not refuse it when it comes again.
        change_id = new_id(topic, "ordered_delivery", ordered_delivery, force)
        if (job := self._begun(topic, change_id)) is not None:
            return None if validate_only else job
        record, _ = self._topics.record(topic)
        switching = record.change is not None and record.change.source == record.change.target
        if record.ordered_delivery == ordered_delivery and not switching:
            return None

        def vet(current: TopicRecord) -> None:
            self._policy.validate(
                lambda: replace(
                    self._present(topic, current, "ordered_delivery", principal, validate_only),
                    ordered_delivery=ordered_delivery,
                )
            )

        plan = partial(self._plan_order, topic, change_id, ordered_delivery, force)
        return self._start(topic, plan, vet, validate_only)

    def view(self, topic: str) -> schemas.TopicChange:
        """The change in progress and the one that ended last. Raises RequestError for an unknown topic."""
        record, _ = self._topics.record(topic)
        return schemas.TopicChange(
            topic=topic,
            change=None if record.change is None else change_view(self.current(record.change)),
            last_change=None if record.last_change is None else finished_view(record.last_change),
        )

    def current(self, change: Change) -> Change:
        """``change`` as far as this process has come with it."""
        with self._lock:
            entry = self._jobs.get(change.topic)
        if entry is None or entry[0].change.id != change.id:
            return change
        return entry[0].change

    def cancel(self, topic: str) -> schemas.TopicResult:
        """Ask for the change in progress to be taken back.

        Raises RequestError: INVALID_REQUEST when none is in progress, PARTITION_CHANGE_IN_PROGRESS when it is too
        late.
        """
        with self.starting:
            record, _ = self._topics.record(topic)
            with self._lock:
                entry = self._jobs.get(topic)
        if record.change is None:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"topic {topic!r} has no partition change that could be cancelled"
            )
        change = record.change
        if entry is None or entry[0].change.id != change.id or not entry[0].request_cancel():
            raise RequestError(
                ErrorCode.PARTITION_CHANGE_IN_PROGRESS,
                f"change {change.id} of topic {topic!r} cannot be cancelled any more: its boundaries are read, it "
                "ends in a moment",
            )
        # Written where the commit would be: whichever comes first makes the other one fail.
        self._znodes.update_topic(topic, lambda current: _with_cancel(topic, current, change.id))
        return schemas.TopicResult(topic=topic, change_id=change.id)

    # -- life ---------------------------------------------------------------------------------------------------

    def resume_all(self) -> None:
        """Go on with every change that ZooKeeper holds."""
        self._stop = threading.Event()
        for topic in self._znodes.topics():
            record = self._znodes.topic(topic)
            if record is not None and record.change is not None:
                _log.info("topic %s: change %s goes on at %s", topic, record.change.id, record.change.step)
                self._run(record.change, record.topic_id)

    def begin_stop(self) -> None:
        """Let no change begin a further instruction."""
        self._stop.set()

    def stop_all(self, timeout: float) -> None:
        """Stop between two instructions; waits ``timeout`` seconds in all for the threads."""
        self.begin_stop()
        with self._lock:
            entries = list(self._jobs.values())
        deadline = self._clock() + timeout
        for job, thread in entries:
            thread.join(max(0.0, deadline - self._clock()))
            if thread.is_alive():
                _log.warning("topic %s: its change did not stop within %g s", job.topic, timeout)

    def _begun(self, topic: str, change_id: str) -> Job | None:
        """The change of that id, if the request comes again: going on, or ended."""
        if not has_key():
            return None
        with self._lock:
            entry = self._jobs.get(topic)
        # The job first: what is neither there nor recorded has not begun.
        record, _ = self._topics.record(topic)
        if entry is not None and entry[0].change.id == change_id:
            return entry[0]
        if record.last_change is not None and record.last_change.id == change_id:
            return ended_job(topic, record.topic_id, record.last_change)
        if record.change is not None and record.change.id == change_id:
            raise UnavailableError(f"change {change_id} of topic {topic!r} goes on; ask again")
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
        """``plan`` makes a change of the topic's record and its number of Kafka partitions, or refuses by raising;
        ``vet`` raises what the policy has against it."""
        record, _ = self._topics.record(topic)
        plan(record, 0)
        description = described_soon(self._admin, topic, record.topic_id)
        change = plan(record, len(description.partitions))
        if assignments is not None:
            change = self._with_assignments(change, description, assignments)
        with ExitStack() as undone:
            if change.target > change.source:
                self._pending.refuse_resizing(topic)
                undone.callback(self._expansion.dropped, change)
                added = self._expansion.plan(change, description).added
                # Kafka would compare them with partitions that have yet to get their replicas back.
                if added and all(len(row.replicas) == len(added[0]) for row in description.partitions):
                    self._admin.create_partitions(topic, change.target, added, validate_only=True)
            if change.refuses_foreign:
                self._producers.refuse_foreign(topic, change.written)
            vet(record)
            if validate_only:
                self._refuse_plain(change)
                return None
            job = self._record(topic, record.topic_id, change, plan)
            undone.pop_all()
            return job

    def _refuse_plain(self, change: Change) -> None:
        """What the change itself would be refused for first."""
        if not change.refuses_foreign:
            return
        deadline = time.monotonic() + TIMEOUT
        found = plain_write(self._admin, change.topic, change.written, self._stop.wait, deadline)
        if found is not None:
            raise RequestError(
                ErrorCode.ACTIVE_FOREIGN_PRODUCERS, machine.foreign_refusal(change.topic, str(found))
            )

    def _record(
        self, topic: str, topic_id: str, change: Change, plan: Callable[[TopicRecord, int], Change]
    ) -> Job:
        def transform(current: TopicRecord) -> TopicRecord:
            if current.topic_id != topic_id or current.deleting_since is not None:
                raise UnavailableError(
                    f"topic {topic!r} was replaced or deleted meanwhile; send the request again"
                )
            # Planned again on what is there now: two requests may come at once.
            planned = replace(plan(current, change.existing), id=change.id, assignments=change.assignments)
            return current.model_copy(update={"change": planned})

        with self.starting:
            # The same request may have come twice, and the first one have been planned meanwhile.
            if (job := self._begun(topic, change.id)) is not None:
                return job
            if change.target > change.source:
                self._pending.refuse_resizing(topic)
            try:
                new = self._znodes.update_topic(topic, transform)
            except ZooKeeperError as error:
                new = self._recorded(topic, change.id, error)
            if new.change is None:
                raise DeposedError
            return self._run(new.change, new.topic_id)

    def _recorded(self, topic: str, change_id: str, lost: ZooKeeperError) -> TopicRecord:
        """The record with the change, if the write whose answer got lost has arrived: nobody else would go on with it."""
        stop = self._stop
        while True:
            try:
                self._znodes.await_claim(stop)
                record = self._znodes.topic(topic)
            except ZooKeeperError:
                continue
            except DeposedError:
                raise lost from None  # the next controller goes on with it
            if record is None or record.change is None or record.change.id != change_id:
                raise lost
            return record

    def _with_assignments(
        self, change: Change, description: TopicDescription, assignments: Assignment
    ) -> Change:
        """The change with the replicas of the partitions that it adds; raises RequestError when they are wrong."""
        check_new_partitions(
            assignments,
            change.existing,
            change.target,
            self._expansion.factor(description),
            [broker.id for broker in self._admin.brokers()],
        )
        return replace(change, assignments=tuple(tuple(assignments[p]) for p in sorted(assignments)))

    def _present(
        self, topic: str, record: TopicRecord, operation: Operation, principal: str, validate_only: bool
    ) -> TopicRequest:
        return present(
            self._admin,
            self._configs,
            topic,
            record,
            operation,
            principal=principal,
            validate_only=validate_only,
        )

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

    def _plan_order(
        self,
        topic: str,
        change_id: str,
        ordered_delivery: bool,
        force: bool,
        record: TopicRecord,
        existing: int,
    ) -> Change:
        return planning.plan_order(
            topic,
            change_id=change_id,
            ordered_delivery=ordered_delivery,
            count=record.undeleted_partition_count,
            existing=existing,
            force=force,
            pending=record.change,
            now=self._clock(),
        )

    def _run(self, change: Change, topic_id: str) -> Job:
        with self._lock:
            entry = self._jobs.get(change.topic)
            # A process that is elected again may find it recorded before the request that recorded it comes to this. Two
            # jobs would open and close the topic under each other.
            if entry is not None and entry[0].change.id == change.id and entry[0].stop is self._stop:
                return entry[0]
            job = Job(change, topic_id, self._stop)
            # What it logs bears the id of the request that started it.
            work = partial(contextvars.copy_context().run, self._work, job)
            thread = threading.Thread(target=work, name=f"change-{change.topic}", daemon=True)
            self._jobs[change.topic] = (job, thread)
            thread.start()
        return job

    def _work(self, job: Job) -> None:
        try:
            self._runner.run(job)
        finally:
            self._expansion.ended(job.change)
            with self._lock:
                entry = self._jobs.get(job.topic)
                if entry is not None and entry[0] is job:
                    del self._jobs[job.topic]


def _with_cancel(topic: str, record: TopicRecord, change_id: str) -> TopicRecord:
    if record.change is None or record.change.id != change_id:
        last = record.last_change
        if last is not None and last.id == change_id and last.outcome != "done":
            return record  # taken back meanwhile, as was asked
        # Its commit had arrived, though nobody was told.
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"change {change_id} of topic {topic!r} has ended: it cannot be cancelled any more",
        )
    return record.model_copy(update={"change": replace(record.change, cancel_requested=True)})
