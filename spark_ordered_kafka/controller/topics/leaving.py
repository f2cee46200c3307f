"""Background work by which topics leave management: one job per topic, repeated until it is done or this process is deposed."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import ClassVar

from spark_ordered_kafka.controller.policy import TopicChecks
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.queries import Topics, refuse_leaving
from spark_ordered_kafka.controller.zk.session import ConflictError, DeposedError, ZooKeeperError
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)
_THREADS = 4
_FIRST_RETRY, _LAST_RETRY = 0.2, 5.0


@dataclass(eq=False)
class Leaving:
    """A topic that leaves until ``stop`` is set.

    ``done`` completes when it has left. ``failure``: what the latest attempt met, None before one has failed.
    """

    stop: threading.Event
    done: Future[None] = field(init=False)
    failure: str | None = field(init=False, default=None)


class LeavingTopics(ABC):
    """Runs the jobs. Subclasses have the steps, of which each may be repeated.

    ``clock`` gives seconds since the epoch; ``timeout`` (seconds) bounds each step.
    """

    what: ClassVar[str]
    """For messages: ``deletion``."""
    releases: ClassVar[bool]
    """Whether Kafka keeps the topic."""

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        checks: TopicChecks,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._topics = topics
        self._checks = checks
        self._clock = clock
        self._timeout = timeout
        self._fencer = Fencer(admin)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=self.what)
        self._jobs: dict[tuple[str, str], Leaving] = {}

    @abstractmethod
    def _recorded(self) -> Mapping[str, str]:
        """What has begun and not ended, by ZooKeeper: topic -> topic id."""

    @abstractmethod
    def _attempt(self, topic: str, topic_id: str, stop: threading.Event) -> None:
        """All steps; an error that is retriable, or a ConflictError, has them repeated."""

    def end_namesake(self, topic: str) -> None:
        """End what is managed under that name, and wait for it; Kafka must not have that topic any more.

        Its writers are fenced, or they would write by its layout to a new topic of that name (D-430). Raises
        UnavailableError while that is not done; it continues in the background.
        """
        record = self._znodes.topic(topic)
        if record is None:
            return
        try:
            job = self._leave(topic, record.topic_id, lambda _: None)
        except ConflictError as error:  # before RequestError, of which it is one
            raise UnavailableError(
                f"topic {topic!r} was changed meanwhile; send the request again"
            ) from error
        except RequestError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return  # it has left meanwhile
        if not wait([job.done], self._timeout).done:
            raise UnavailableError(
                f"what is left of the deleted topic {topic!r} is not cleaned up within {self._timeout:g} s, which continues "
                "in the background; send the request again"
            )
        job.done.result()

    def resume_all(self) -> None:
        """Resume all that is recorded in ZooKeeper."""
        self._stop = threading.Event()
        for topic, topic_id in self._recorded().items():
            _log.info("topic %s: resuming its %s", topic, self.what)
            self._job(topic, topic_id)

    def begin_stop(self) -> None:
        """Begin no further step."""
        self._stop.set()

    def stop(self, timeout: float) -> None:
        """Stop between two steps; waits ``timeout`` seconds in all."""
        self._stop.set()
        with self._lock:
            jobs = {key: job.done for key, job in self._jobs.items()}
        late = wait(jobs.values(), timeout).not_done
        for (topic, _), job in jobs.items():
            if job in late:
                _log.warning("topic %s: its %s did not stop within %g s", topic, self.what, timeout)

    def close(self) -> None:
        """End the threads; after :meth:`stop`."""
        self._threads.shutdown(wait=False)

    def _leave(self, topic: str, topic_id: str, check: Callable[[TopicRecord], None]) -> Leaving:
        """Record that the topic is to leave, and begin with it.

        Raises RequestError when it leaves in the other way already, UnavailableError when another one has its name, and what
        ``check`` raises of its record.
        """

        def marked(current: TopicRecord) -> TopicRecord:
            if current.topic_id != topic_id:
                raise UnavailableError(f"topic {topic!r} was replaced meanwhile; send the request again")
            check(current)
            if current.releasing != self.releases:
                refuse_leaving(topic, current)
            return updated(current, deleting_since=self._clock(), releasing=self.releases)

        try:
            self._znodes.record_leaving(topic, marked)
        except ZooKeeperError:
            self._job(topic, topic_id)  # the unanswered write may still take effect
            raise
        return self._job(topic, topic_id)

    def _job(self, topic: str, topic_id: str) -> Leaving:
        with self._lock:
            known = self._jobs.get((topic, topic_id))
            # A stopped job that waits for Kafka will not complete it when this process leads again.
            if known is not None and known.stop is self._stop and not known.done.done():
                return known
            context = contextvars.copy_context()
            job = Leaving(self._stop)
            job.done = self._threads.submit(context.run, self._run, topic, topic_id, job)
            self._jobs[topic, topic_id] = job
        job.done.add_done_callback(lambda _: self._forget(topic, topic_id))
        return job

    def _forget(self, topic: str, topic_id: str) -> None:
        with self._lock:
            job = self._jobs.get((topic, topic_id))
            if job is not None and job.done.done():
                del self._jobs[topic, topic_id]

    def _run(self, topic: str, topic_id: str, job: Leaving) -> None:
        pause, stop = _FIRST_RETRY, job.stop
        while not stop.is_set():
            try:
                self._znodes.await_claim(stop)
                # Else it was ended by another job, or never recorded: what has the name now may have writers.
                if self._recorded().get(topic) == topic_id:
                    self._attempt(topic, topic_id, stop)
            except DeposedError:
                break
            except OrderedKafkaError as error:
                # The topic's layouts may be folded at the same time.
                if not error.retriable and not isinstance(error, ConflictError):
                    _log.warning("topic %s: its %s ends: %s", topic, self.what, error)
                    raise
                _log.warning("topic %s: its %s is tried again in %g s: %s", topic, self.what, pause, error)
                job.failure = str(error)
            except Exception:  # a bug, which a request that no longer waits for the future would never show
                _log.exception("topic %s: its %s met a bug", topic, self.what)
                raise
            else:
                return
            stop.wait(pause)
            pause = min(2 * pause, _LAST_RETRY)
        raise DeposedError

    def _fence(self, topic: str) -> None:
        deadline = time.monotonic() + self._timeout
        writers = self._fencer.list_writers(id_prefix(topic), deadline)
        unfenced = tuple(name for name, writer in writers.items() if not writer.is_left)
        self._fencer.fence(unfenced, deadline, lambda _: None)
