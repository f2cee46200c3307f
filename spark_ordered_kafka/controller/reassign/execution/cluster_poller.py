"""What the executor sees of Kafka: reassignments, brokers, partitions and log directories, each as often as needed.

A look has to be cheap, since moves that have ended leave their places to others only when that is seen. So topics are
described when something is to be learned of them, and log directories are measured beside the looks: brokers walk through
all of their logs for that, and one that hangs would hold everything up.
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
    Held,
    Ongoing,
    Partition,
)
from spark_ordered_kafka.controller.reassign.machine.machine import Task
from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import LogDir, PartitionId, Reassignment, Replica, TopicDescription

_log = logging.getLogger(__name__)

# Leaders and replicas in sync of what is being moved, in seconds.
_DESCRIBE_INTERVAL = 3.0
_MEASURE_INTERVAL = 1.0
# A move between log directories shows its end there alone.
_PLACING_INTERVAL = 0.25
_SURVEY_INTERVAL = 15.0
# One that hangs, and is not known to be away yet, must not hold up the others' figures for long.
_BROKER_TIMEOUT = 5.0
# So many times as long as it took, nothing of the kind is done again.
_REST = 4.0
# Of more partitions, a broker is asked for all it has.
_MAX_NAMED = 2000


@dataclass(frozen=True)
class Measurement:
    """Log directories, and the ``places`` that were looked for in them."""

    directories: Directories
    places: frozenset[PartitionId]


class ClusterPoller:
    """Looks at Kafka for one leader term, for one thread. ``clock`` gives seconds; ``on_news`` is called by another thread when
    log directories were measured.

    Args:
        timeout: seconds for each call; a look fails with UnavailableError after it.
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
        """Measure no more."""
        self._measurer.shutdown(wait=False, cancel_futures=True)

    def look(self, tasks: Sequence[Task], wanted: Collection[str]) -> tuple[ClusterState, Measurement | None]:
        """Kafka as it is now, and a measurement if there is a new one.

        Args:
            wanted: topics that have to be described.

        Raises:
            OrderedKafkaError: Kafka does not answer, or refuses to.
        """
        at = self._clock()
        ongoing = self._reassignments.all_ongoing()
        alive = {broker.id for broker in self._admin.brokers()}
        self._describe(tasks, ongoing, wanted, at)
        news = self._measure(tasks, alive, at)
        seen = ClusterState(
            at=at,
            alive=alive,
            ongoing={place: Ongoing(_target(one)) for place, one in ongoing.items()},
            partitions=self._partitions,
            directories=self._measured.directories,
        )
        return seen, news

    def measure_now(self, wanted: Mapping[int, Collection[PartitionId]]) -> Directories:
        """Log directories of brokers, with these partitions of each."""
        return self._ask(wanted, _MEASURE_INTERVAL).directories

    # -- partitions ---------------------------------------------------------------------------------------------

    def _describe(
        self,
        tasks: Sequence[Task],
        ongoing: Mapping[PartitionId, Reassignment],
        wanted: Collection[str],
        at: float,
    ) -> None:
        present = {place[0] for task in tasks for place in (*task.active, *task.waiting)}
        unknown = present - self._known
        topics = unknown | (present & set(wanted))
        for task in tasks:
            topics.update(
                place[0]
                for place in task.active
                if place not in ongoing and task.moves[place].state != "placing"
            )
            if at >= self._next_refresh:
                topics.update(place[0] for place in task.active)
        # What is needed to begin at all does not wait.
        if not topics or (at < self._rested and not unknown):
            return
        asked_at, began = self._clock(), time.monotonic()
        found = describe(self._admin, topics)
        self._rested = self._clock() + _REST * (time.monotonic() - began)
        if at >= self._next_refresh:
            self._next_refresh = at + _DESCRIBE_INTERVAL
        partitions = {place: row for place, row in self._partitions.items() if place[0] in present}
        for task in tasks:
            for place in (*task.active, *task.waiting):
                if place[0] in topics:
                    partitions[place] = _partition(found.get(place[0]), place[1], asked_at)
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
            placing = any(task.moves[place].placements for task in tasks for place in task.active)
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
        """Broker -> partitions to look for: those that receive, and the leaders whose bytes there will be."""
        wanted: dict[int, set[PartitionId]] = defaultdict(set)
        for task in tasks:
            for place in (*task.active, *task.waiting) if survey else task.active:
                receiving = task.receiving[place]
                if not receiving and not task.moves[place].placements:
                    continue
                partition = self._partitions.get(place)
                leader = NO_LEADER if partition is None else partition.leader
                for broker in {*receiving, leader, *task.moves[place].placements} & set(alive):
                    wanted[broker].add(place)
        return wanted

    def _ask(self, wanted: Mapping[int, Collection[PartitionId]], interval: float) -> Measurement:
        at, began = self._clock(), time.monotonic()
        try:
            answers = self._log_dirs.describe_each(
                {
                    broker: by_topic(sorted(places)) if len(places) <= _MAX_NAMED else None
                    for broker, places in wanted.items()
                }
            )
        finally:
            took = time.monotonic() - began
            self._next_measurement = self._clock() + max(interval - took, _REST * took)
        places = frozenset(place for asked in wanted.values() for place in asked)
        return Measurement(_directories(at, answers, places), places)


def _target(one: Reassignment) -> tuple[int, ...]:
    return tuple(broker for broker in one.replicas if broker not in one.removing)


def _partition(topic: TopicDescription | None, partition: int, at: float) -> Partition | None:
    if topic is None or partition >= len(topic.partitions):
        return None
    row = topic.partitions[partition]
    return Partition(at, topic.topic_id, row.leader, row.replicas, row.isr)


def _directories(
    at: float, answers: Mapping[int, Sequence[LogDir] | OrderedKafkaError], places: Collection[PartitionId]
) -> Directories:
    held: dict[Replica, Held] = {}
    offline: dict[int, frozenset[str]] = {}
    answered = set()
    for broker, answer in answers.items():
        if isinstance(answer, OrderedKafkaError):
            _log.info("broker %d does not tell its log directories: %s", broker, answer)
            continue
        answered.add(broker)
        offline[broker] = frozenset(one.path for one in answer if one.error_code != 0)
        for one in answer:
            for row in one.replicas:
                if (row.topic, row.partition) not in places:
                    continue
                key = (row.topic, row.partition, broker)
                known = held.get(key, Held())
                held[key] = (
                    Held(known.path, known.size, one.path, row.size)
                    if row.is_future
                    else Held(one.path, row.size, known.future_path, known.future_size)
                )
    return Directories(at, frozenset(answered), held, offline)
