"""Executes the change machine's instructions in Kafka and ZooKeeper, and returns their results as events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from spark_ordered_kafka.controller.change import machine, protocol
from spark_ordered_kafka.controller.change.boundaries import boundaries
from spark_ordered_kafka.controller.change.expansion import Expansion
from spark_ordered_kafka.controller.change.job import Job
from spark_ordered_kafka.controller.change.protocol import Boundary, Change, Ending, Event, Instruction
from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.idle_writers import fence_idle
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.retired_replicas import ReplicaSets
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.plain import plain_write
from spark_ordered_kafka.kafka.values import PROPAGATION, TopicDescription
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)
_ENDED_KEPT = 16
_MESSAGE_PATIENCE = 1.0
"""Seconds that writers may be held longer for a message."""


class _EndedError(OrderedKafkaError):
    """The change had ended already: an earlier write without an answer was done."""

    def __init__(self, finished: FinishedChange) -> None:
        super().__init__(f"change {finished.id} had ended: {finished.outcome}")
        self.finished = finished


class Runner:
    """Runs changes to their end. ``clock`` gives seconds since the epoch and must not go backwards.

    ``before`` is called with every instruction before it is executed.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        timing: Timing,
        clock: Callable[[], float],
        observer: ChangeObserver,
        expansion: Expansion,
        before: Callable[[Instruction], None] = lambda _: None,
    ) -> None:
        self._admin = admin
        self._replicas = ReplicaSets(admin)
        self._fencer = Fencer(admin)
        self._znodes = znodes
        self._timing = timing
        self._clock = clock
        self._observer = observer
        self._expansion = expansion
        self._before = before

    def run(self, job: Job) -> None:
        """Carry ``job`` out and resolve its ``done``; returns early when its ``stop`` is set."""
        try:
            job.done.set_result(self._run(job))
        except _EndedError as ended:
            job.done.set_result(ended.finished)
        except DeposedError as error:
            _log.info("topic %s: change %s is left to the next controller", job.topic, job.change.id)
            job.done.set_exception(error)
        except Exception:  # noqa: BLE001 - a bug; the thread ends here, and the topic must not stay closed
            _log.exception("topic %s: change %s met a bug and is rolled back", job.topic, job.change.id)
            self._give_up(job)
        self._observer.left(job.change, job.done, self._clock())

    def _give_up(self, job: Job) -> None:
        """Roll back, until that succeeds: otherwise writers would be held for ever."""
        ending = Ending("failed", ErrorCode.UNKNOWN_SERVER_ERROR, "internal error, see the controller's log")
        while not job.done.done():
            try:
                self._znodes.await_claim(job.stop)
                job.done.set_result(self._roll_back(job, job.change, ending))
            except _EndedError as ended:
                job.done.set_result(ended.finished)
            except DeposedError as error:
                job.done.set_exception(error)
            except Exception as error:  # noqa: BLE001 - only the next controller may give up
                _log.warning(
                    "topic %s: change %s is not rolled back yet: %r", job.topic, job.change.id, error
                )
                job.stop.wait(self._timing.retry)

    def _run(self, job: Job) -> FinishedChange:
        todo = job.begin(self._clock(), self._timing)
        finished: FinishedChange | None = None
        while True:
            self._observer.reached(job.change, self._clock())
            event: Event | None = None
            for instruction in todo:
                if isinstance(instruction, protocol.Finish):
                    self._before(instruction)
                    if finished is None:
                        raise RuntimeError(f"change {job.change.id} ended without being recorded")
                    return finished
                result = self._attempt(job, instruction)
                if isinstance(result, FinishedChange):
                    finished = result
                    committed = isinstance(instruction, protocol.CommitLayout)
                    event = (protocol.Committed if committed else protocol.RolledBack)(result.finished_at)
                    break
                event = result
                if isinstance(event, protocol.Failed):
                    break
            if event is None:
                raise RuntimeError(f"change {job.change.id}: no event after {todo}")
            todo = job.advance(event, self._timing)

    def _attempt(self, job: Job, instruction: Instruction) -> Event | FinishedChange | None:
        # The process may have been paused: another controller may lead by now.
        self._znodes.await_claim(job.stop)
        self._before(instruction)
        _log.debug("topic %s: %s", job.topic, instruction)
        try:
            return self._execute(job, instruction)
        except (DeposedError, _EndedError):
            raise
        except OrderedKafkaError as error:
            retriable = error.retriable
            message = error.message if isinstance(error, RequestError) else str(error)
            code = error.code
        except Exception as error:  # noqa: BLE001 - a bug, too, must not hold writers for ever
            _log.exception("topic %s: %s failed", job.topic, type(instruction).__name__)
            code, retriable = ErrorCode.UNKNOWN_SERVER_ERROR, False
            message = f"{type(instruction).__name__} failed: {error!r}"
        _log.warning("topic %s: %s failed: %s", job.topic, type(instruction).__name__, message)
        return protocol.Failed(self._clock(), code, message, retriable)

    def _execute(self, job: Job, instruction: Instruction) -> Event | FinishedChange | None:
        match instruction:
            case protocol.Persist(change):
                self._znodes.update_topic(
                    job.topic, lambda record: _with_change(record, change, job, self._clock())
                )
                return None
            case protocol.Pause(seconds):
                job.stop.wait(seconds)
                return None
            case protocol.DetectForeignProducers(deadline):
                return self._detect_foreign_producers(job, deadline)
            case protocol.CreatePartitions(total):
                self._expansion.carry_out(job.change, self._describe(job), total)
                return protocol.PartitionsCreated(self._clock())
            case protocol.AwaitLeaders(total, deadline):
                self._await_leaders(job, total, deadline)
                return protocol.LeadersElected(self._clock())
            case protocol.ListTransactions(deadline):
                writers = self._fencer.list_writers(id_prefix(job.topic), self._monotonic(deadline))
                states = {name: writer.state for name, writer in writers.items() if not writer.is_left}
                return protocol.TransactionsListed(self._clock(), states)
            case protocol.FenceIdle(seconds):
                fence_idle(self._fencer, job.topic, seconds, lambda: not job.is_stopping)
                return protocol.IdleFenced(self._clock())
            case protocol.Fence(transactional_ids, deadline):
                job.count_fence(0)
                self._fencer.fence(transactional_ids, self._monotonic(deadline), job.count_fence)
                return protocol.WritersFenced(self._clock(), len(transactional_ids))
            case protocol.ReadBoundaries(total, deadline):
                return self._read_boundaries(job, total, self._monotonic(deadline))
            case protocol.CheckLogEnds(before, deadline):
                return self._check_log_ends(job, before, self._monotonic(deadline))
            case protocol.CommitLayout(change, starts):
                return self._commit(job, change, starts)
            case protocol.RollBack(change, ending):
                return self._roll_back(job, change, ending)
            case protocol.Finish():
                return None

    # -- Kafka --------------------------------------------------------------------------------------------------

    def _detect_foreign_producers(self, job: Job, deadline: float) -> Event:
        """Detects producers without idempotence. The request has checked for others, of which Kafka keeps a list."""
        found = plain_write(
            self._admin, job.topic, job.change.written, job.stop.wait, self._monotonic(deadline)
        )
        if found is None:
            return protocol.NoForeignProducers(self._clock())
        return protocol.ForeignProducersDetected(self._clock(), str(found))

    def _await_leaders(self, job: Job, total: int, deadline: float) -> None:
        logged = None
        while (missing := self._missing(job, total)) is not None:
            if missing != logged:
                logged = missing
                _log.info("topic %s: change %s waits: %s", job.topic, job.change.id, missing)
            if self._clock() >= deadline:
                raise UnavailableError(f"topic {job.topic!r}: {missing}")
            if job.change.cancel_requested or job.stop.wait(self._timing.backoff):
                raise UnavailableError(f"topic {job.topic!r}: no longer waiting for leaders and replicas")
        # A broker may create the logs of new partitions seconds after it shows their leader. Writers are not held yet.
        self._admin.log_ends(job.topic, range(job.change.source, job.change.needed))

    def _missing(self, job: Job, total: int) -> str | None:
        """Why the topic's partitions cannot be written yet; None when they can."""
        topic = self._describe(job)
        if len(topic.partitions) < total:
            return f"Kafka shows {len(topic.partitions)} of {total} partitions"
        needed = topic.partitions[: job.change.needed]
        leaderless = next((p.partition for p in needed if p.leader == NO_LEADER), None)
        if leaderless is not None:
            return f"partition {leaderless} has no leader"
        behind = self._replicas.not_in_sync(topic, _restored(job, topic))
        if behind:
            return f"partition {behind[0]}, which is taken up again, does not have its replicas in sync"
        return None

    def _read_boundaries(self, job: Job, total: int, deadline: float) -> Event:
        count = len(self._describe(job, deadline).partitions)
        if count < total:
            raise UnavailableError(f"Kafka shows {count} of {total} partitions of topic {job.topic!r}")
        record = self._znodes.topic(job.topic)
        if record is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {job.topic!r} is not under management any more"
            )
        (layout,) = self._znodes.layouts(job.topic, record, record.layout_epoch)
        ends = self._admin.log_ends(job.topic, range(job.change.needed), deadline=deadline)
        found = boundaries(job.change, record.layout_epoch, layout, ends, count)
        return protocol.BoundariesRead(self._clock(), found)

    def _check_log_ends(self, job: Job, before: tuple[Boundary, ...], deadline: float) -> Event:
        ends = self._admin.log_ends(job.topic, range(job.change.needed), deadline=deadline)
        changed = {p: end.offset for p, end in ends.items() if end.offset != before[p].offset}
        if changed:
            return protocol.LogEndsChanged(self._clock(), changed)
        return protocol.LogEndsUnchanged(self._clock())

    def _describe(self, job: Job, deadline: float | None = None) -> TopicDescription:
        # The topic existed when the change was planned, so a broker that does not know it is asked again.
        return described(self._admin, job.topic, job.topic_id, timeout=PROPAGATION, deadline=deadline)

    def _monotonic(self, deadline: float) -> float:
        return time.monotonic() + (deadline - self._clock())

    # -- ZooKeeper ----------------------------------------------------------------------------------------------

    def _commit(self, job: Job, change: Change, starts: tuple[Boundary, ...]) -> FinishedChange:
        finished = machine.finished(change, Ending("done"), self._clock())
        layout = LayoutRecord(
            undeleted_partition_count=change.target,
            starts=[start.offset for start in starts],
            leader_epochs=[start.leader_epoch for start in starts],
            committed_at=finished.finished_at,
            ordered_delivery=change.ordered_delivery,
            stray_from=made if (made := max(change.existing, change.target)) < len(starts) else None,
        )

        def transform(record: TopicRecord) -> TopicRecord:
            own = _own(record, change, job, self._clock())
            return updated(
                _with_end(own, finished),
                undeleted_partition_count=change.target,
                layout_epoch=own.layout_epoch + 1,
                ordered_delivery=change.ordered_delivery,
            )

        self._znodes.commit_layout(job.topic, transform, layout)
        _log.info(
            "topic %s: %s, %d -> %d partitions, writers held for %.3f s, %d fenced",
            job.topic,
            change.kind,
            change.source,
            change.target,
            finished.writer_pause_seconds,
            finished.fenced,
        )
        return finished

    def _with_partitions(self, job: Job, change: Change, ending: Ending) -> Ending:
        """``ending``, with what the change leaves in Kafka in its message."""
        if ending.message is None or change.target <= change.source:
            return ending
        existing: int | None = change.existing
        if change.step != "planned":
            deadline = time.monotonic() + _MESSAGE_PATIENCE if change.closing else None
            try:
                existing = len(self._describe(job, deadline).partitions)
            except OrderedKafkaError as error:
                _log.info("topic %s: its partition count is not known: %s", job.topic, error)
                existing = None
        return replace(ending, message=f"{ending.message}; {machine.left_in_kafka(change, existing)}")

    def _roll_back(self, job: Job, change: Change, ending: Ending) -> FinishedChange:
        ending = self._with_partitions(job, change, ending)
        finished = machine.finished(change, ending, self._clock())

        def transform(record: TopicRecord) -> TopicRecord:
            return _with_end(_own(record, change, job, self._clock()), finished)

        try:
            self._znodes.update_topic(job.topic, transform)
        except RequestError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise _EndedError(finished) from error  # the topic is deleted, and the change with it
        _log.warning("topic %s: change %s %s: %s", job.topic, change.id, ending.outcome, ending.message)
        return finished


def _restored(job: Job, topic: TopicDescription) -> range:
    """Removed partitions that become live again."""
    return range(job.change.source, min(job.change.target, len(topic.partitions)))


def _with_end(record: TopicRecord, finished: FinishedChange) -> TopicRecord:
    ended = (*record.ended_changes, finished.id)
    return updated(record, change=None, last_change=finished, ended_changes=ended[-_ENDED_KEPT:])


def _own(record: TopicRecord, change: Change, job: Job, now: float) -> TopicRecord:
    if record.topic_id != job.topic_id:
        # There is nothing to roll back; only callers that wait for this job get the outcome.
        ending = Ending("failed", ErrorCode.LOG_TRUNCATED, f"topic {change.topic!r} was deleted and replaced")
        raise _EndedError(machine.finished(change, ending, now))
    if record.change is not None and record.change.id == change.id:
        return record
    if record.last_change is not None and record.last_change.id == change.id:
        raise _EndedError(record.last_change)
    # It ended and others after it, so its outcome is not recorded any more. Trying again would never end.
    message = f"change {change.id} of topic {change.topic!r} is not recorded any more: look at the topic"
    raise _EndedError(
        machine.finished(change, Ending("failed", ErrorCode.UNKNOWN_SERVER_ERROR, message), now)
    )


def _with_change(record: TopicRecord, change: Change, job: Job, now: float) -> TopicRecord:
    # An accepted cancellation must stay recorded, whether its own write or this one comes last.
    requested = job.change.cancel_requested
    own = _own(record, change, job, now)
    return updated(own, change=replace(change, cancel_requested=requested))
