"""Polls Kafka for the executor: reassignments, brokers, partitions and log directories, each as often as needed.

A poll must be cheap: moves that have ended free their slots only once the poll shows it. So topics are described only
when their state matters, and log directories are read in a thread of their own: brokers walk through all of their logs
for that, and one that hangs would delay every poll.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from spark_ordered_kafka.controller.reassign.machine.cluster_state import (
    ClusterState,
    Directories,
    Partition,
)
from spark_ordered_kafka.controller.reassign.machine.tasks import Task
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import (
    LogDirAnswers,
    PartitionId,
    Reassignment,
    TopicDescription,
    local_replicas,
)

_log = logging.getLogger(__name__)

# Leaders and replicas in sync of what is being moved, in seconds.
_DESCRIBE_INTERVAL = 3.0
_MEASURE_INTERVAL = 1.0
# The end of a move between log directories shows only there.
_PLACING_INTERVAL = 0.25
_SURVEY_INTERVAL = 15.0
# A broker that hangs, and does not count as down yet, must not delay the others' figures for long.
_BROKER_TIMEOUT = 5.0
# Pause after an expensive request, as a multiple of its duration.
_REST = 4.0
# For more partitions, a broker is asked for all of its replicas.
_MAX_NAMED = 2000


@dataclass(frozen=True)
class Measurement:
    """Log directories, and the partitions that were asked for."""

    directories: Directories
    tps: frozenset[PartitionId]


class ClusterPoller:
    """Polls Kafka during one leader term, for one thread.

    Args:
        clock: seconds since the epoch.
        on_news: called by another thread when log directories were read.
        timeout: seconds for each call; :meth:`look` raises UnavailableError after it.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        clock: Callable[[], float],
        on_news: Callable[[], None],
        *,
        timeout: float,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._on_news = on_news
        self._reassignments = Reassignments(admin.requests, timeout=timeout)
        self._log_dirs = LogDirs(admin.requests, timeout=min(timeout, _BROKER_TIMEOUT))
        self._measurer = ThreadPoolExecutor(1, thread_name_prefix="reassignment-bytes")
        self._measuring: Future[Measurement] | None = None
        self._measured = Measurement(Directories(), frozenset())
        self._next_measurement = self._next_survey = self._next_refresh = self._rested = float("-inf")
        self._partitions: dict[PartitionId, Partition | None] = {}
        self._known: set[str] = set()

    def close(self) -> None:
        """Stop reading log directories."""
        self._measurer.shutdown(wait=False, cancel_futures=True)

    def look(self, tasks: Sequence[Task], wanted: Collection[str]) -> tuple[ClusterState, Measurement | None]:
        """The state of the cluster, and the log directories if they were read since the last call.

        Args:
            wanted: topics that must be described.

        Raises:
            OrderedKafkaError: Kafka does not answer, or refuses.
        """
        at = self._clock()
        ongoing = self._reassignments.all_ongoing()
        alive = {broker.id for broker in self._admin.brokers()}
        self._describe(tasks, ongoing, wanted, at)
        news = self._measure(tasks, alive, at)
        cluster = ClusterState(
            at=at,
            alive=alive,
            ongoing=ongoing,
            partitions=self._partitions,
            directories=self._measured.directories,
        )
        return cluster, news

    def measure_now(self, wanted: Mapping[int, Collection[PartitionId]]) -> Directories:
        """Log directories of brokers, with these partitions of each; waits for the answers."""
        return self._ask(wanted, _MEASURE_INTERVAL).directories

    # -- partitions ---------------------------------------------------------------------------------------------

    def _describe(
        self,
        tasks: Sequence[Task],
        ongoing: Mapping[PartitionId, Reassignment],
        wanted: Collection[str],
        at: float,
    ) -> None:
        present = {tp[0] for task in tasks for tp in (*task.active, *task.waiting)}
        unknown = present - self._known
        topics = unknown | (present & set(wanted))
        for task in tasks:
            topics.update(
                tp[0] for tp in task.active if tp not in ongoing and task.moves[tp].state != "placing"
            )
            if at >= self._next_refresh:
                topics.update(tp[0] for tp in task.active)
        # Topics that were never described do not wait.
        if not topics or (at < self._rested and not unknown):
            return
        asked_at, began = self._clock(), time.monotonic()
        found = describe(self._admin, topics)
        self._rested = self._clock() + _REST * (time.monotonic() - began)
        if at >= self._next_refresh:
            self._next_refresh = at + _DESCRIBE_INTERVAL
        partitions = {tp: row for tp, row in self._partitions.items() if tp[0] in present}
        for task in tasks:
            for tp in (*task.active, *task.waiting):
                if tp[0] in topics:
                    partitions[tp] = _partition(found.get(tp[0]), tp[1], asked_at)
        self._partitions, self._known = partitions, (self._known | topics) & present

    # -- log directories ----------------------------------------------------------------------------------------

    def _measure(self, tasks: Sequence[Task], alive: Collection[int], at: float) -> Measurement | None:
        news = None
        if self._measuring is not None and self._measuring.done():
            news, self._measuring = self._result(self._measuring), None
            if news is not None:
                self._measured = news
        if self._measuring is not None or at < self._next_measurement:
            return news
        survey = at >= self._next_survey
        wanted = self._wanted(tasks, alive, survey)
        if wanted:
            placing = any(task.moves[tp].placements for task in tasks for tp in task.active)
            interval = _PLACING_INTERVAL if placing else _MEASURE_INTERVAL
            if survey:
                self._next_survey = at + _SURVEY_INTERVAL
            self._measuring = self._measurer.submit(self._ask, wanted, interval)
            self._measuring.add_done_callback(lambda _: self._on_news())
        return news

    def _result(self, measuring: Future[Measurement]) -> Measurement | None:
        try:
            return measuring.result()
        except OrderedKafkaError as error:
            _log.warning("the log directories are not measured: %s", error)
            return None

    def _wanted(
        self, tasks: Sequence[Task], alive: Collection[int], survey: bool
    ) -> dict[int, set[PartitionId]]:
        """Broker -> partitions to ask for: brokers that receive, and leaders, whose bytes are the totals."""
        wanted: dict[int, set[PartitionId]] = defaultdict(set)
        for task in tasks:
            for tp in (*task.active, *task.waiting) if survey else task.active:
                receiving = task.receiving[tp]
                if not receiving and not task.moves[tp].placements:
                    continue
                partition = self._partitions.get(tp)
                leader = NO_LEADER if partition is None else partition.leader
                for broker in {*receiving, leader, *task.moves[tp].placements} & set(alive):
                    wanted[broker].add(tp)
        return wanted

    def _ask(self, wanted: Mapping[int, Collection[PartitionId]], interval: float) -> Measurement:
        at, began = self._clock(), time.monotonic()
        try:
            answers = self._log_dirs.describe_each(
                {
                    broker: by_topic(sorted(tps)) if len(tps) <= _MAX_NAMED else None
                    for broker, tps in wanted.items()
                }
            )
        finally:
            took = time.monotonic() - began
            self._next_measurement = self._clock() + max(interval - took, _REST * took)
        tps = frozenset(tp for asked in wanted.values() for tp in asked)
        return Measurement(_directories(at, answers, tps), tps)


def _partition(topic: TopicDescription | None, partition: int, at: float) -> Partition | None:
    if topic is None or partition >= len(topic.partitions):
        return None
    row = topic.partitions[partition]
    return Partition(at, topic.topic_id, row.leader, row.replicas, row.isr)


def _directories(at: float, answers: LogDirAnswers, tps: Collection[PartitionId]) -> Directories:
    offline: dict[int, frozenset[str]] = {}
    answered = set()
    for broker, answer in answers.items():
        if isinstance(answer, OrderedKafkaError):
            _log.info("broker %d did not report its log directories: %s", broker, answer)
            continue
        answered.add(broker)
        offline[broker] = frozenset(one.path for one in answer if not one.online)
    return Directories(at, frozenset(answered), local_replicas(answers, tps), offline)
