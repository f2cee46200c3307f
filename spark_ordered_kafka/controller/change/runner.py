"""Carries out the change machine's instructions against Kafka and ZooKeeper, and feeds back what happened."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from spark_ordered_kafka.controller.change import events, instructions, machine
from spark_ordered_kafka.controller.change.boundaries import boundaries
from spark_ordered_kafka.controller.change.events import Event
from spark_ordered_kafka.controller.change.expansion import Expansion
from spark_ordered_kafka.controller.change.instructions import Instruction
from spark_ordered_kafka.controller.change.job import Job
from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.settings import Timing
from spark_ordered_kafka.controller.state.change import Boundary, Change, Ending, FinishedChange
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.idle_writers import fence_idle
from spark_ordered_kafka.controller.topics.kafka_state import described_soon
from spark_ordered_kafka.controller.topics.retired_replicas import ReplicaSets
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.fence import Fencer
from spark_ordered_kafka.kafka.ids import id_prefix
from spark_ordered_kafka.kafka.leaders import NO_LEADER, PROPAGATION
from spark_ordered_kafka.kafka.plain import plain_write
from spark_ordered_kafka.kafka.values import TopicDescription

_log = logging.getLogger(__name__)
_ENDED_KEPT = 16


class _EndedError(OrderedKafkaError):
    """The change had ended already: an earlier write of which no answer came had arrived."""

    def __init__(self, finished: FinishedChange) -> None:
        super().__init__(f"change {finished.id} had ended: {finished.outcome}")
        self.finished = finished


class Runner:
    """Runs changes to their end. ``clock`` gives seconds since the epoch and must not go backwards.

    ``before`` is called with every instruction before it is carried out.
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
            _log.exception("topic %s: change %s met a bug and is taken back", job.topic, job.change.id)
            self._give_up(job)
        self._observer.left(job.change, job.done, self._clock())

    def _give_up(self, job: Job) -> None:
        """Whatever went wrong, writers must not be held for ever."""
        ending = Ending("failed", ErrorCode.UNKNOWN_SERVER_ERROR, "internal error, see the controller's log")
        while not job.done.done():
            try:
                self._znodes.await_claim(job.stop)
                job.done.set_result(self._take_back(job, job.change, ending))
            except _EndedError as ended:
                job.done.set_result(ended.finished)
            except DeposedError as error:
                job.done.set_exception(error)
            except Exception as error:  # noqa: BLE001 - only the next controller may leave it as it is
                _log.warning("topic %s: change %s is not taken back yet: %r", job.topic, job.change.id, error)
                job.stop.wait(self._timing.retry)

    def _run(self, job: Job) -> FinishedChange:
        todo = job.begin(self._clock(), self._timing)
        finished: FinishedChange | None = None
        while True:
            self._observer.reached(job.change, self._clock())
            event: Event | None = None
            for instruction in todo:
                if isinstance(instruction, instructions.Finish):
                    self._before(instruction)
                    if finished is None:
                        raise RuntimeError(f"change {job.change.id} ended without being recorded")
                    return finished
                result = self._attempt(job, instruction)
                if isinstance(result, FinishedChange):
                    finished = result
                    committed = isinstance(instruction, instructions.CommitLayout)
                    event = (events.Committed if committed else events.RolledBack)(result.finished_at)
                    break
                event = result
                if isinstance(event, events.Failed):
                    break
            if event is None:
                raise RuntimeError(f"change {job.change.id}: no event after {todo}")
            todo = job.advance(event, self._timing)

    def _attempt(self, job: Job, instruction: Instruction) -> Event | FinishedChange | None:
        # Also after the process was paused, for however long: another controller may have gone on meanwhile.
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
        except Exception as error:  # noqa: BLE001 - whatever it is, writers must not be held for ever
            _log.exception("topic %s: %s failed", job.topic, type(instruction).__name__)
            code, retriable = ErrorCode.UNKNOWN_SERVER_ERROR, False
            message = f"{type(instruction).__name__} failed: {error!r}"
        _log.warning("topic %s: %s failed: %s", job.topic, type(instruction).__name__, message)
        return events.Failed(self._clock(), code, message, retriable)

    def _execute(self, job: Job, instruction: Instruction) -> Event | FinishedChange | None:
        match instruction:
            case instructions.Persist(change):
                self._znodes.update_topic(
                    job.topic, lambda record: _with_change(record, change, job, self._clock())
                )
                return None
            case instructions.Pause(seconds):
                job.stop.wait(seconds)
                return None
            case instructions.LookForForeign(deadline):
                return self._look_for_foreign(job, deadline)
            case instructions.CreatePartitions(total):
                self._expansion.carry_out(job.change, self._describe(job), total)
                return events.PartitionsCreated(self._clock())
            case instructions.AwaitLeaders(total, deadline):
                self._await_leaders(job, total, deadline)
                return events.LeadersElected(self._clock())
            case instructions.ListTransactions(deadline):
                writers = self._fencer.list_writers(id_prefix(job.topic), self._monotonic(deadline))
                states = {name: writer.state for name, writer in writers.items() if not writer.is_left}
                return events.TransactionsListed(self._clock(), states)
            case instructions.FenceIdle(seconds):
                fence_idle(self._fencer, job.topic, seconds, lambda: not job.is_stopping)
                return events.IdleFenced(self._clock())
            case instructions.Fence(transactional_ids, deadline):
                job.count_fence(0)
                self._fencer.fence(transactional_ids, self._monotonic(deadline), job.count_fence)
                return events.WritersFenced(self._clock(), len(transactional_ids))
            case instructions.ReadBoundaries(total):
                return self._read_boundaries(job, total)
            case instructions.CheckNothingGrew(before):
                return self._check_nothing_grew(job, before)
            case instructions.CommitLayout(change, starts):
                return self._commit(job, change, starts)
            case instructions.RollBack(change, ending):
                return self._take_back(job, change, ending)
            case instructions.Finish():
                return None

    # -- Kafka --------------------------------------------------------------------------------------------------

    def _look_for_foreign(self, job: Job, deadline: float) -> Event:
        """Producers without idempotence; others were looked for when the change was asked for, and Kafka forgets none."""
        found = plain_write(
            self._admin, job.topic, job.change.written, job.stop.wait, self._monotonic(deadline)
        )
        if found is None:
            return events.NoForeignWriter(self._clock())
        return events.ForeignWriterSeen(self._clock(), str(found))

    def _await_leaders(self, job: Job, total: int, deadline: float) -> None:
        while (missing := self._missing(job, total)) is not None:
            if self._clock() >= deadline:
                raise UnavailableError(f"topic {job.topic!r}: {missing}")
            if job.change.cancel_requested or job.stop.wait(self._timing.backoff):
                raise UnavailableError(f"topic {job.topic!r}: no longer waiting for leaders and replicas")
        # A leader shows seconds before it has made the logs of many new partitions. Writers need not be held for that.
        self._admin.log_ends(job.topic, range(job.change.source, job.change.needed))

    def _missing(self, job: Job, total: int) -> str | None:
        """What a topic's partitions still lack before they may be written."""
        topic = self._describe(job)
        if len(topic.partitions) < total:
            return f"Kafka shows {len(topic.partitions)} of {total} partitions"
        needed = topic.partitions[: job.change.needed]
        leaderless = next((p.partition for p in needed if p.leader == NO_LEADER), None)
        if leaderless is not None:
            return f"partition {leaderless} has no leader"
        behind = self._replicas.not_in_sync(topic, _taken_up_again(job, topic))
        if behind:
            return f"partition {behind[0]}, which is taken up again, does not have its replicas in sync"
        return None

    def _read_boundaries(self, job: Job, total: int) -> Event:
        count = len(self._describe(job).partitions)
        if count < total:
            raise UnavailableError(f"Kafka shows {count} of {total} partitions of topic {job.topic!r}")
        record = self._znodes.topic(job.topic)
        if record is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {job.topic!r} is not under management any more"
            )
        (layout,) = self._znodes.layouts(job.topic, record, record.layout_epoch)
        ends = self._admin.log_ends(job.topic, range(job.change.needed))
        found = boundaries(job.change, record.layout_epoch, layout, ends, count)
        return events.BoundariesRead(self._clock(), found)

    def _check_nothing_grew(self, job: Job, before: tuple[Boundary, ...]) -> Event:
        ends = self._admin.log_ends(job.topic, range(job.change.needed))
        grown = {p: end.offset for p, end in ends.items() if end.offset != before[p].offset}
        if grown:
            return events.LogsGrew(self._clock(), grown)
        return events.NothingGrew(self._clock())

    def _describe(self, job: Job) -> TopicDescription:
        # The change was begun because the topic was there.
        return described_soon(self._admin, job.topic, job.topic_id, PROPAGATION)

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
            return _own(record, change, job, self._clock()).model_copy(
                update={
                    "undeleted_partition_count": change.target,
                    "layout_epoch": record.layout_epoch + 1,
                    "ordered_delivery": change.ordered_delivery,
                    "change": None,
                    **_ended(record, finished),
                }
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

    def _with_done(self, job: Job, change: Change, ending: Ending) -> Ending:
        """``ending``, whose message says besides what the change has done to Kafka."""
        if ending.message is None or change.target <= change.source:
            return ending
        existing: int | None = change.existing
        if change.step != "planned":
            try:
                existing = len(self._describe(job).partitions)
            except OrderedKafkaError as error:
                _log.info("topic %s: what was done to it is not known: %s", job.topic, error)
                existing = None
        return replace(ending, message=f"{ending.message}; {machine.done_to_kafka(change, existing)}")

    def _take_back(self, job: Job, change: Change, ending: Ending) -> FinishedChange:
        ending = self._with_done(job, change, ending)
        finished = machine.finished(change, ending, self._clock())

        def transform(record: TopicRecord) -> TopicRecord:
            return _own(record, change, job, self._clock()).model_copy(
                update={"change": None, **_ended(record, finished)}
            )

        try:
            self._znodes.update_topic(job.topic, transform)
        except RequestError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise _EndedError(finished) from error  # with its topic; there is nothing left to take back
        _log.warning("topic %s: change %s %s: %s", job.topic, change.id, ending.outcome, ending.message)
        return finished


def _taken_up_again(job: Job, topic: TopicDescription) -> range:
    """Partitions that Kafka has and that the change makes live."""
    return range(job.change.source, min(job.change.target, len(topic.partitions)))


def _ended(record: TopicRecord, finished: FinishedChange) -> dict[str, object]:
    """The fields of a topic's record that say how its change has ended."""
    ended = (*record.ended_changes, finished.id)
    return {"last_change": finished, "ended_changes": ended[-_ENDED_KEPT:]}


def _own(record: TopicRecord, change: Change, job: Job, now: float) -> TopicRecord:
    if record.topic_id != job.topic_id:
        # There is nothing left to take back, and nobody to tell but who waits for this job.
        ending = Ending("failed", ErrorCode.LOG_TRUNCATED, f"topic {change.topic!r} was deleted and replaced")
        raise _EndedError(machine.finished(change, ending, now))
    if record.change is not None and record.change.id == change.id:
        return record
    if record.last_change is not None and record.last_change.id == change.id:
        raise _EndedError(record.last_change)
    # It ended, and so did others after it, before this was known here: to be tried again would go on for ever.
    message = f"change {change.id} of topic {change.topic!r} is not recorded any more: look at the topic"
    raise _EndedError(
        machine.finished(change, Ending("failed", ErrorCode.UNKNOWN_SERVER_ERROR, message), now)
    )


def _with_change(record: TopicRecord, change: Change, job: Job, now: float) -> TopicRecord:
    # A cancel that was accepted must outlive this process whichever of the two writes comes last.
    requested = job.change.cancel_requested
    own = _own(record, change, job, now)
    return own.model_copy(update={"change": replace(change, cancel_requested=requested)})
