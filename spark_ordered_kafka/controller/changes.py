"""Partition changes: starting, watching, cancelling and resuming them."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller import planning
from spark_ordered_kafka.controller.change import Change, FinishedChange
from spark_ordered_kafka.controller.election import DeposedError
from spark_ordered_kafka.controller.records import TopicRecord
from spark_ordered_kafka.controller.runner import Job, Runner, described, expansion_plan
from spark_ordered_kafka.controller.topics import Topics
from spark_ordered_kafka.controller.views import change_view, finished_view, result
from spark_ordered_kafka.controller.znodes import Znodes
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.producers import ProducerCheck

_log = logging.getLogger(__name__)


class Changes:
    """The changes of all topics; each runs in a thread of its own."""

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        runner: Runner,
        producers: ProducerCheck,
        clock: Callable[[], float],
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._topics = topics
        self._runner = runner
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
        self, request: schemas.PartitionCountsRequest
    ) -> tuple[list[schemas.TopicResult], list[Future[FinishedChange] | None]]:
        """Start a change per topic; per topic its result, and the future of the change that was started.

        Raises RequestError INVALID_REQUEST when the request names no topic, or one twice.
        """
        if not request.topics:
            raise RequestError(ErrorCode.INVALID_REQUEST, "topics is empty: name at least one topic")
        for topic, count in Counter(item.topic for item in request.topics).items():
            if count > 1:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"topics names {topic!r} {count} times: name it once"
                )
        results: list[schemas.TopicResult] = []
        futures: list[Future[FinishedChange] | None] = []
        for item in request.topics:
            try:
                plan = partial(self._plan_count, item.topic, item.partition_count, request.force)
                job = self._start(item.topic, plan, request.validate_only)
            except OrderedKafkaError as error:
                results.append(result(schemas.TopicResult, error, topic=item.topic))
                futures.append(None)
                continue
            change_id = None if job is None else job.change.id
            results.append(schemas.TopicResult(topic=item.topic, change_id=change_id))
            futures.append(None if job is None else job.done)
        return results, futures

    def switch_order(
        self, topic: str, ordered_delivery: bool, *, force: bool, validate_only: bool
    ) -> Job | None:
        """Start the change that switches ordered delivery; None when it is so already, or for ``validate_only``.

        Raises RequestError PARTITION_CHANGE_IN_PROGRESS, or what else keeps the change from being started.
        """
        record, _ = self._topics.record(topic)
        switching = record.change is not None and record.change.source == record.change.target
        if record.ordered_delivery == ordered_delivery and not switching:
            return None
        return self._start(topic, partial(self._plan_order, topic, ordered_delivery, force), validate_only)

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
        self._znodes.update_topic(topic, lambda current: _with_cancel(current, change.id))
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

    def stop_all(self, timeout: float) -> None:
        """Stop between two instructions; waits ``timeout`` seconds in all for the threads."""
        self._stop.set()
        with self._lock:
            entries = list(self._jobs.values())
        deadline = self._clock() + timeout
        for job, thread in entries:
            thread.join(max(0.0, deadline - self._clock()))
            if thread.is_alive():
                _log.warning("topic %s: its change did not stop within %g s", job.topic, timeout)

    # -- helpers ------------------------------------------------------------------------------------------------

    def _start(
        self, topic: str, plan: Callable[[TopicRecord, int], Change], validate_only: bool
    ) -> Job | None:
        """``plan`` makes a change of the topic's record and its number of Kafka partitions, or refuses by raising."""
        record, _ = self._topics.record(topic)
        plan(record, 0)
        description = described(self._admin, topic, record.topic_id)
        change = plan(record, len(description.partitions))
        if change.target > change.existing:
            assignments = expansion_plan(self._admin, description, change.target)
            self._admin.create_partitions(topic, change.target, assignments, validate_only=True)
        if change.ordered_delivery and not change.force:
            self._producers.refuse_foreign(topic, range(change.existing))
        if validate_only:
            return None

        def transform(current: TopicRecord) -> TopicRecord:
            if current.topic_id != record.topic_id:
                raise UnavailableError(f"topic {topic!r} was replaced meanwhile; send the request again")
            # Planned again on what is there now: two requests may come at once.
            planned = plan(current, change.existing)
            return current.model_copy(update={"change": replace(planned, id=change.id)})

        with self.starting:
            new = self._znodes.update_topic(topic, transform)
            if new.change is None:
                raise DeposedError
            return self._run(new.change, new.topic_id)

    def _plan_count(self, topic: str, target: int, force: bool, record: TopicRecord, existing: int) -> Change:
        return planning.plan_count(
            topic,
            change_id=_new_id(),
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
        self, topic: str, ordered_delivery: bool, force: bool, record: TopicRecord, existing: int
    ) -> Change:
        return planning.plan_order(
            topic,
            change_id=_new_id(),
            ordered_delivery=ordered_delivery,
            count=record.undeleted_partition_count,
            existing=existing,
            force=force,
            pending=record.change,
            now=self._clock(),
        )

    def _run(self, change: Change, topic_id: str) -> Job:
        job = Job(change, topic_id, self._stop)
        thread = threading.Thread(target=self._work, args=(job,), name=f"change-{change.topic}", daemon=True)
        with self._lock:
            self._jobs[change.topic] = (job, thread)
        thread.start()
        return job

    def _work(self, job: Job) -> None:
        try:
            self._runner.run(job)
        finally:
            with self._lock:
                entry = self._jobs.get(job.topic)
                if entry is not None and entry[0] is job:
                    del self._jobs[job.topic]


def _new_id() -> str:
    return uuid.uuid4().hex[:12]


def _with_cancel(record: TopicRecord, change_id: str) -> TopicRecord:
    if record.change is None or record.change.id != change_id:
        return record  # taken back meanwhile, as was asked
    return record.model_copy(update={"change": replace(record.change, cancel_requested=True)})
