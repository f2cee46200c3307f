"""Deletes topics under management: fences the writers, then deletes topic, writers' ledgers, and records.

The intent is recorded first; from then on all other modules treat the topic as deleted (D-036). The next controller
completes a deletion that was cut off. Every step may be repeated.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.policy import PolicyCheck, present
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.topics.creation import check_name
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.zk.session import ConflictError, DeposedError, ZooKeeperError
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.deletions import TopicDeletions
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.groups import ConsumerGroups
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)
_THREADS = 4
_FIRST_RETRY, _LAST_RETRY = 0.2, 5.0


class TopicDeleter:
    """Deletes topics; continues each deletion until it is done or this process is deposed.

    ``clock`` gives seconds since the epoch; ``timeout`` (seconds) bounds each step.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        capacities: Capacities,
        policy: PolicyCheck,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        self._admin = admin
        self._configs = TopicConfigs(admin.requests, timeout)
        self._znodes = znodes
        self._topics = topics
        self._capacities = capacities
        self._policy = policy
        self._clock = clock
        self._timeout = timeout
        self._fencer = Fencer(admin)
        self._kafka = TopicDeletions(admin.requests, timeout=timeout)
        self._groups = ConsumerGroups(admin.requests, timeout=timeout)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="delete-topic")
        # Each with the event that stops it.
        self._jobs: dict[tuple[str, str], tuple[Future[None], threading.Event]] = {}

    def begin(
        self, topic: str, *, principal: str, validate_only: bool
    ) -> tuple[schemas.TopicResult, Future[None] | None]:
        """Record that the topic is to be deleted, and delete it in the background.

        The future completes with the deletion; it is None for ``validate_only``, and that of a deletion already in progress.
        Raises RequestError: UNKNOWN_TOPIC_OR_PARTITION, also for a topic that is not under management,
        PARTITION_CHANGE_IN_PROGRESS, or POLICY_VIOLATION.
        """
        result = schemas.TopicResult(topic=topic)
        check_name(topic)
        pending = self._znodes.topic(topic)
        if pending is not None and pending.deleting_since is not None:
            return result, None if validate_only else self._job(topic, pending.topic_id)
        record, _ = self._topics.record(topic)
        refuse_second(topic, record.change)
        self._policy.validate(
            lambda: present(
                self._admin,
                self._configs,
                topic,
                record,
                "delete",
                principal=principal,
                validate_only=validate_only,
            )
        )
        if validate_only:
            return result, None

        def transform(current: TopicRecord) -> TopicRecord:
            if current.topic_id != record.topic_id:
                raise UnavailableError(f"topic {topic!r} was replaced meanwhile; send the request again")
            refuse_second(topic, current.change)
            return updated(current, deleting_since=self._clock())

        try:
            self._znodes.record_deletion(topic, transform)
        except ZooKeeperError:
            self._job(topic, record.topic_id)  # the unanswered write may still take effect
            raise
        return result, self._job(topic, record.topic_id)

    def resume_all(self) -> None:
        """Resume every deletion recorded in ZooKeeper."""
        self._stop = threading.Event()
        for topic, topic_id in self._znodes.deletions().items():
            _log.info("topic %s: resuming its deletion", topic)
            self._job(topic, topic_id)

    def begin_stop(self) -> None:
        """Begin no further step."""
        self._stop.set()

    def stop_all(self, timeout: float) -> None:
        """Stop between two steps; waits ``timeout`` seconds in all."""
        self._stop.set()
        with self._lock:
            jobs = {key: job for key, (job, _) in self._jobs.items()}
        late = wait(jobs.values(), timeout).not_done
        for (topic, _), job in jobs.items():
            if job in late:
                _log.warning("topic %s: its deletion did not stop within %g s", topic, timeout)

    def close(self) -> None:
        """End the threads; after :meth:`stop_all`."""
        self._threads.shutdown(wait=False)

    def _job(self, topic: str, topic_id: str) -> Future[None]:
        with self._lock:
            known, stop = self._jobs.get((topic, topic_id), (None, None))
            # A stopped job that waits for Kafka will not complete the deletion when this process leads again.
            if known is not None and stop is self._stop and not known.done():
                return known
            context = contextvars.copy_context()
            job = self._threads.submit(context.run, self._run, topic, topic_id, self._stop)
            self._jobs[topic, topic_id] = job, self._stop
        job.add_done_callback(lambda _: self._forget(topic, topic_id))
        return job

    def _forget(self, topic: str, topic_id: str) -> None:
        with self._lock:
            job, _ = self._jobs.get((topic, topic_id), (None, None))
            if job is not None and job.done():
                del self._jobs[topic, topic_id]

    def _run(self, topic: str, topic_id: str, stop: threading.Event) -> None:
        pause = _FIRST_RETRY
        while not stop.is_set():
            try:
                self._attempt(topic, topic_id, stop)
            except DeposedError:
                break
            except OrderedKafkaError as error:
                # The topic's layouts may be folded at the same time.
                if not error.retriable and not isinstance(error, ConflictError):
                    _log.warning("topic %s: its deletion ends: %s", topic, error)
                    raise
                _log.warning("topic %s: its deletion is tried again in %g s: %s", topic, pause, error)
            except Exception:
                _log.exception("topic %s: its deletion met a bug", topic)
                raise
            else:
                return
            stop.wait(pause)
            pause = min(2 * pause, _LAST_RETRY)
        raise DeposedError

    def _attempt(self, topic: str, topic_id: str, stop: threading.Event) -> None:
        unfenced: UnavailableError | None = None
        self._znodes.await_claim(stop)
        if self._znodes.deletions().get(topic) != topic_id:
            return  # ended by another job, or never recorded; a new topic of that name may have writers
        try:
            try:
                # Fenced before the deletion, writers ask for the layout and get the reason to stop. An unfenced one would
                # write to a new topic of that name by the old layout (D-034).
                self._fence(topic)
            except UnavailableError as error:
                unfenced = error
            self._znodes.await_claim(stop)
            self._kafka.delete(topic, topic_id)
        except DeposedError:
            raise
        except RequestError as error:
            if not error.retriable:
                self._znodes.drop_deletion(topic, topic_id)
            raise
        if unfenced is not None:
            raise UnavailableError(
                f"it is gone, but its writers are not fenced yet: {unfenced}"
            ) from unfenced
        # Kafka may have taken long: a new topic of that name may have writers.
        self._znodes.await_claim(stop)
        self._forget_ledgers(topic)
        self._znodes.end_deletion(topic, topic_id)
        self._capacities.forget(topic)
        _log.info("topic %s: deleted", topic)

    def _fence(self, topic: str) -> None:
        deadline = time.monotonic() + self._timeout
        writers = self._fencer.list_writers(id_prefix(topic), deadline)
        unfenced = tuple(name for name, writer in writers.items() if not writer.is_left)
        self._fencer.fence(unfenced, deadline, lambda _: None)

    def _forget_ledgers(self, topic: str) -> None:
        """Else a writer of the same name would take its first batches in a new topic of that name for written (D-035).

        Brokers drop offsets of a deleted topic themselves, but not those whose coordinator is down at that moment.
        """
        try:
            self._groups.delete(id_prefix(topic))
        except RequestError as error:
            if error.retriable:
                raise
            _log.warning("topic %s: the ledgers of its writers are left to Kafka: %s", topic, error)
