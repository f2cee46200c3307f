"""The executor's work during one leader term: polls Kafka, stores moves, carries out instructions, ends requests."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_ordered_kafka.controller.monitoring.reassignments import ReassignmentObserver
from spark_ordered_kafka.controller.reassign.execution.cluster_poller import ClusterPoller, Measurement
from spark_ordered_kafka.controller.reassign.execution.completion import (
    elect_leaders,
    ended_record,
    unmeasured_replicas,
)
from spark_ordered_kafka.controller.reassign.execution.jobs import Job, Shown, allowed
from spark_ordered_kafka.controller.reassign.execution.kafka_actions import Actor
from spark_ordered_kafka.controller.reassign.execution.write_rates import WriteRates
from spark_ordered_kafka.controller.reassign.machine import machine
from spark_ordered_kafka.controller.reassign.machine.cluster_state import ClusterState
from spark_ordered_kafka.controller.reassign.machine.progress import measured_late
from spark_ordered_kafka.controller.reassign.machine.tasks import Memory, Task
from spark_ordered_kafka.controller.reassign.machine.tracking import Limits
from spark_ordered_kafka.controller.reassign.throttle.manager import Throttles
from spark_ordered_kafka.controller.reassign.throttle.policy import Need
from spark_ordered_kafka.controller.settings import ReassignSettings
from spark_ordered_kafka.controller.state.reassignment_records import ENDED
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)

Claim = Callable[[threading.Event], None]

# Seconds between two polls; the shorter one while moves wait for a slot.
_TICK = 0.15
_TICK_SOON = 0.05
# Pause after a tick as a multiple of its duration, for requests with very many moves.
_TICK_REST = 1.0
# Seconds between two writes of mere progress, and the least pause as a multiple of a write's duration.
_STORE_INTERVAL = 2.0
_STORE_REST = 10.0
# Requests with more moves than _LARGE take long to store: _AHEAD of them are stored as ``starting`` before their turn.
_LARGE = 1000
_AHEAD = 500
# A broker that hangs must not delay the others' moves for long.
_BROKER_TIMEOUT = 5.0
_SWEEP_INTERVAL = 60.0
_UNFINISHED_INTERVAL = 1.0


class LeaderTerm:
    """All requests during one leader term. For one thread, but for :meth:`announce`, :meth:`end` and :attr:`shown`.

    Args:
        clock: seconds since the epoch; must not go backwards.
        claim: returns once this process is known to be the leader; raises DeposedError.
        before: called with the name of every step before it: ``load``, ``throttle``, ``intend`` (moves
            are stored as about to begin), ``place``, ``start``, ``withdraw``, ``store``, ``elect``, ``release`` (of
            throttles), ``end``, ``sweep``.
        timeout: seconds for each call to Kafka.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        throttles: Throttles,
        capacities: Capacities,
        settings: ReassignSettings,
        clock: Callable[[], float],
        observer: ReassignmentObserver,
        claim: Claim,
        before: Callable[[str], None],
        *,
        timeout: float,
    ) -> None:
        self.stop = threading.Event()
        self.shown: Mapping[int, Shown] = {}
        self._admin = admin
        self._store = store
        self._throttles = throttles
        self._capacities = capacities
        self._settings = settings
        self._clock = clock
        self._observer = observer
        self._claim = claim
        self._before = before
        self._timeout = timeout
        self._limits = Limits(settings.max_moves_per_broker, settings.max_moves, settings.broker_timeout)
        self._signal = threading.Event()
        self._news = threading.Event()
        self._news.set()
        self._poller = ClusterPoller(admin, clock, self._signal.set, timeout=timeout)
        self._actor = Actor(admin, before, timeout=timeout, broker_timeout=min(timeout, _BROKER_TIMEOUT))
        self._write_rates = WriteRates()
        self._jobs: dict[int, Job] = {}
        # Throttles of requests that only a newer controller understands.
        self._newer: dict[int, Need] = {}
        self._tasks: tuple[Task, ...] = ()
        self._memory = Memory()
        self._wanted: Collection[str] = frozenset()
        # Requests whose throttles are set; None: those of earlier controllers are not restored yet.
        self._limited: frozenset[int] | None = None
        self._next_sweep = float("-inf")
        # When requests that cannot be read are looked at again: they may have been repaired.
        self._next_look = float("-inf")
        self._took = 0.0

    def announce(self) -> None:
        """Read the store again: it has something new."""
        self._news.set()
        self._signal.set()

    def end(self) -> None:
        """Start no further step."""
        self.stop.set()
        self._signal.set()

    def close(self) -> None:
        """Stop polling, and show no requests any more."""
        self.shown = {}
        self._poller.close()

    def rest(self, seconds: float) -> None:
        """Wait until something is new, at most ``seconds``."""
        self._signal.wait(seconds)
        self._signal.clear()

    def rest_seconds(self) -> float:
        """Seconds until the next tick, unless something is new."""
        if self._tasks:
            # The result of an ended reassignment must be read, or other moves wait for their turn.
            soon = self._wanted or any(task.waiting for task in self._tasks)
            return max(_TICK_SOON if soon else _TICK, _TICK_REST * self._took)
        if self._throttles.unfinished or self._store.has_unreadable:
            return _UNFINISHED_INTERVAL
        return max(0.0, self._next_sweep - self._clock())

    def tick(self) -> None:
        """Poll, decide, store, act. Raises OrderedKafkaError when Kafka or ZooKeeper refuse or do not answer."""
        began = time.monotonic()
        try:
            self._tick()
        finally:
            self._took = time.monotonic() - began

    def _tick(self) -> None:
        if self._news.is_set() or (self._store.has_unreadable and self._clock() >= self._next_look):
            self._load()
        if self._clock() >= self._next_sweep:
            self._sweep()
        if not self._tasks:
            if self._limited is None or self._limited or self._throttles.unfinished:
                self._limit()
            return
        cluster, measurement = self._poller.look(self._tasks, self._wanted)
        needs = self._needs()
        if measurement is not None:
            self._take_in(cluster, measurement, needs)
        self._limit()
        held = [i for i, job in self._jobs.items() if job.lacks_throttles]
        advance = machine.advance(self._tasks, self._memory, cluster, self._limits, held=held)
        self._intend(advance.tasks, advance.intents)
        for failure in advance.failures:
            _log.warning("request %d: %s-%d failed: %s", failure.request_id, *failure.move.tp, failure.story)
        self._adopt(advance.tasks, advance.memory)
        self._wanted = advance.look
        if advance.instructions:
            # Moves that begin now may have waited so far behind that they are in no list yet (D-371).
            self._limit()
            # The process may have been paused, and another controller may lead now.
            self._claim(self.stop)
            answers = self._actor.carry_out(allowed(advance.instructions, self._tasks, self._jobs))
            self._adopt(
                *machine.with_responses(self._tasks, self._memory, answers, self._clock(), self._limits)
            )
        self._show()
        self._store_news()
        self._end_requests()

    # -- the store ----------------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Read the store again before the next step: a write may have failed."""
        self._news.set()

    def _load(self) -> None:
        self._before("load")
        self._news.clear()
        self._next_look = self._clock() + _UNFINISHED_INTERVAL
        try:
            records = self._store.records()
            for request_id, record in records.items():
                job = self._jobs.get(request_id)
                if job is not None:
                    job.record = record
                elif not record.ended and request_id not in self._newer:
                    self._begin(request_id)
            self._newer = {
                i: need for i, need in self._newer.items() if i in records and not records[i].ended
            }
        except OrderedKafkaError:
            self._news.set()
            raise
        for request_id in self._jobs.keys() - records.keys():
            _log.error("request %d is not in ZooKeeper any more, or not readable: it is given up", request_id)
            del self._jobs[request_id]
        self._tasks = tuple(
            replace(task, cancelling=self._jobs[task.request_id].record.state == "cancelling")
            for task in self._tasks
            if task.request_id in self._jobs
        )
        self._show()

    def _begin(self, request_id: int) -> None:
        read = self._store.find(request_id)
        if read is None:
            return
        record, stored = read
        if record.is_newer or stored.is_newer:
            _log.warning("request %d is left alone: only a newer controller can continue it", request_id)
            moves = tuple(move for move in stored.moves if move.state not in ENDED)
            self._newer[request_id] = Need(record.throttle, record.replica_alter_log_dirs_throttle, moves)
            return
        task = Task.of(request_id, stored.moves, cancelling=record.state == "cancelling")
        self._jobs[request_id] = Job(record, record.warnings, set(task.active))
        self._tasks = (*self._tasks, task)
        left = len(task.active) + len(task.waiting)
        _log.info("request %d: %d of %d moves are left", request_id, left, len(task.moves))

    def _adopt(self, tasks: tuple[Task, ...], memory: Memory) -> None:
        for old, new in zip(self._tasks, tasks, strict=True):
            if new is old:
                continue
            job = self._jobs[new.request_id]
            job.dirty = True
            left = (*old.active, *old.waiting)
            self._observer.moved(new.moves[tp] for tp in left if new.moves[tp].state in ENDED)
            if old.waiting and not new.waiting:
                self._capacities.done(job.record.owner)
        self._tasks, self._memory = tasks, memory

    def _needs(self) -> dict[int, Need]:
        """The throttles of requests that have one, and their moves."""
        needs = {i: need for i, need in self._newer.items() if need.throttle or need.log_dir_throttle}
        for task in self._tasks:
            limits = self._jobs[task.request_id].limits
            if limits != (None, None) and not task.ended:
                moves = tuple(task.moves[tp] for tp in (*task.active, *task.waiting))
                needs[task.request_id] = Need(*limits, moves)
        return needs

    def _limit(self) -> None:
        """Set throttles as requests need them. While that fails or Kafka refuses, those requests begin no moves (D-372)."""
        needs = self._needs()
        if self._limited != needs.keys():
            self._before("throttle" if needs else "release")
        try:
            reported = self._throttles.reconcile(needs, self.stop, unread=self._store.has_unreadable)
        except OrderedKafkaError as error:
            if isinstance(error, DeposedError) or not self._tasks:
                raise
            _log.warning("throttles are not as they are to be: %s", error)
            reported = [f"throttles are not as they are to be: {error}"]
            limited: Collection[int] = ()
        else:
            self._limited = frozenset(needs)
            limited = self._limited.difference(self._throttles.refused)
        for task in self._tasks:
            job = self._jobs[task.request_id]
            job.limited = task.request_id in limited
            job.warnings = tuple(reported) if job.limits != (None, None) else ()
            if task.request_id in needs:
                job.warnings += tuple(self._write_rates.warnings)

    # -- progress -----------------------------------------------------------------------------------------------

    def _take_in(self, cluster: ClusterState, measurement: Measurement, needs: Mapping[int, Need]) -> None:
        self._write_rates.take_in(cluster, measurement, needs)
        self._tasks = tuple(
            self._jobs[task.request_id].measured(task, cluster, measurement) for task in self._tasks
        )

    def _show(self) -> None:
        shown = {}
        for task in self._tasks:
            job = self._jobs[task.request_id]
            record = job.record
            if record.warnings != job.all_warnings:
                record = updated(record, warnings=job.all_warnings)
            shown[task.request_id] = Shown(record, tuple(task.moves.values()), job.rate)
        self.shown = shown

    # -- ZooKeeper ----------------------------------------------------------------------------------------------

    def _intend(self, tasks: Sequence[Task], intents: Mapping[int, Collection[PartitionId]]) -> None:
        for task in tasks:
            job = self._jobs[task.request_id]
            tps = intents.get(task.request_id, ())
            if any(task.moves[tp].state != "starting" or tp not in job.intended for tp in tps):
                self._before("intend")
                self._write(task, job)

    def _store_news(self) -> None:
        for task in self._tasks:
            job = self._jobs[task.request_id]
            if job.dirty and not task.ended and self._clock() >= job.next_store:
                self._before("store")
                self._write(task, job)
                if job.record.warnings != job.all_warnings:
                    warned = partial(updated, warnings=job.all_warnings)
                    job.record = self._store.update(task.request_id, warned)

    def _write(self, task: Task, job: Job) -> None:
        began = time.monotonic()
        ahead = task.waiting[:_AHEAD] if len(task.moves) > _LARGE and not task.cancelling else ()
        begun = {tp: updated(task.moves[tp], state="starting") for tp in ahead}
        self._store.write_moves(task.request_id, tuple({**task.moves, **begun}.values()))
        job.intended.update(task.active, ahead)
        job.dirty = False
        job.next_store = self._clock() + max(_STORE_INTERVAL, _STORE_REST * (time.monotonic() - began))

    def _sweep(self) -> None:
        """Forget requests that have ended long ago."""
        self._before("sweep")
        retention = self._settings.status_retention
        now = self._clock()
        for request_id, record in self._store.records().items():
            if record.ended_at is not None and now >= record.ended_at + retention:
                self._store.delete(request_id)
                _log.info("request %d ended %.0f s ago and is forgotten", request_id, now - record.ended_at)
        self._next_sweep = now + min(_SWEEP_INTERVAL, max(1.0, retention))

    # -- ends ---------------------------------------------------------------------------------------------------

    def _end_requests(self) -> None:
        if not any(task.ended for task in self._tasks):
            return
        self._tasks = tuple(self._measured(task) if task.ended else task for task in self._tasks)
        ended = [task for task in self._tasks if task.ended]
        for task in ended:
            self._elect(task, self._jobs[task.request_id])
        if self._limited != self._needs().keys():
            self._limit()
        for task in ended:
            job = self._jobs[task.request_id]
            # A throttle that could not be restored in that time is restored after the end.
            if job.elected and (task.request_id not in (self._limited or ()) or self._is_late(job)):
                self._end(task, job)

    def _measured(self, task: Task) -> Task:
        """The task with the bytes of moves that ended before they could be measured."""
        job = self._jobs[task.request_id]
        if job.ending_since is not None:
            return task
        job.ending_since = self._clock()
        wanted = unmeasured_replicas(task.moves.values())
        if not wanted:
            return task
        directories = self._poller.measure_now(wanted)
        return replace(task, moves={p: measured_late(move, directories) for p, move in task.moves.items()})

    def _elect(self, task: Task, job: Job) -> None:
        if job.elected or not job.record.elect_leaders:
            job.elected = True
            return
        self._before("elect")
        ended = elect_leaders(self._admin, task.request_id, tuple(task.moves.values()), self._timeout)
        job.elected = ended or self._is_late(job)

    def _is_late(self, job: Job) -> bool:
        since = job.ending_since
        return since is not None and self._clock() - since >= self._settings.broker_timeout

    def _end(self, task: Task, job: Job) -> None:
        self._before("end")
        moves = tuple(task.moves.values())
        transform = partial(ended_record, moves=moves, now=self._clock(), warnings=job.all_warnings)
        record = self._store.update(task.request_id, transform, moves)
        self._capacities.done(record.owner)
        self._observer.ended(record, moves)
        self._tasks = tuple(other for other in self._tasks if other is not task)
        del self._jobs[task.request_id]
        self._show()
        _log.info("request %d has ended: %s", task.request_id, record.state)
