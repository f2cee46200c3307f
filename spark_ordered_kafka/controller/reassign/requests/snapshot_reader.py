"""Reads the state of Kafka and of the stored requests that a new request is validated against."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from spark_ordered_kafka.client.schemas import PartitionReassignment
from spark_ordered_kafka.controller.reassign.requests.validation import (
    Known,
    names_log_dirs,
    refactored,
)
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import (
    USUAL_PROPAGATION,
    LogDirAnswers,
    PartitionId,
    Reassignment,
    TopicDescription,
)
from spark_ordered_kafka.parsing import is_topic_name

MAX_NAMED = 1000
"""Topics in one request for metadata; for more, a list of all topics is shorter."""

_POLL = 0.1

Rows = Sequence[PartitionReassignment]


def describe(
    admin: KafkaAdmin, topics: Iterable[str], tps: Iterable[PartitionId] = ()
) -> dict[str, TopicDescription]:
    """Those of ``topics`` that exist; the names may be invalid. Raises UnavailableError without an answer.

    All brokers are asked before one of ``tps`` counts as missing: not every broker knows a new partition yet.
    """
    counts = {topic: 0 for topic in topics if is_topic_name(topic)}
    for topic, partition in tps:
        if topic in counts:
            counts[topic] = max(counts[topic], partition + 1)
    found: dict[str, TopicDescription] = {}
    missing = set(counts)
    deadline = time.monotonic() + USUAL_PROPAGATION
    while True:
        described = admin.describe_topics(sorted(missing) if len(missing) <= MAX_NAMED else None)
        found |= {topic: described[topic] for topic in missing if topic in described}
        missing = {topic for topic in missing if _has_less(found.get(topic), counts[topic])}
        if behind := missing.intersection(found):
            found |= admin.newest_of_all(sorted(behind))
            missing = {topic for topic in missing if _has_less(found.get(topic), counts[topic])}
        if not missing or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL)  # not every broker knows a new topic yet


def _has_less(found: TopicDescription | None, partitions: int) -> bool:
    return found is None or len(found.partitions) < partitions


class SnapshotReader:
    """Takes snapshots. Every method raises UnavailableError when Kafka or ZooKeeper does not answer.

    ``timeout`` is in seconds for each call.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        znodes: Znodes,
        *,
        timeout: float,
    ) -> None:
        self.reassignments = Reassignments(admin.requests, timeout=timeout)
        self.log_dirs = LogDirs(admin.requests, timeout=timeout)
        self._admin = admin
        self._store = store
        self._znodes = znodes

    def known(self, rows: Rows) -> Known:
        """Input of :func:`~spark_ordered_kafka.controller.reassign.requests.validation.validate`."""
        # Before and after the topics: a reassignment that ends in between may be missing in both otherwise.
        ongoing, pending = self._ongoing()
        topics = describe(self._admin, (row.topic for row in rows))
        log_dirs: LogDirAnswers = {}
        if names_log_dirs(rows):
            log_dirs = self.dirs([(r.topic, r.partition) for r in rows], [r.replicas for r in rows], topics)
        later = self._ongoing()
        pending |= later[1]
        return Known(
            topics=topics,
            alive={broker.id for broker in self._admin.brokers()},
            ongoing=ongoing | later[0],
            requests={tp: request_id for tp, (request_id, _) in pending.items()},
            directories={tp: move.placements for tp, (_, move) in pending.items()},
            log_dirs=log_dirs,
            changing=self.changing(refactored(rows, topics)),
        )

    def changing(self, topics: set[str]) -> dict[str, RequestError]:
        """Those of ``topics`` with a partition change in progress, which relies on their replication factor."""
        found: dict[str, RequestError] = {}
        for topic in sorted(topics):
            record, _ = self._znodes.read_topic(topic)
            try:
                refuse_second(topic, None if record is None else record.change)
            except RequestError as error:
                found[topic] = error
        return found

    def dirs(
        self,
        tps: Sequence[PartitionId],
        targets: Sequence[Sequence[int]],
        topics: Mapping[str, TopicDescription],
    ) -> LogDirAnswers:
        """Log directories of the live brokers that have replicas of ``tps`` or are among ``targets``."""
        there = {p for p in tps if p[0] in topics and 0 <= p[1] < len(topics[p[0]].partitions)}
        brokers = {broker for topic, p in there for broker in topics[topic].partitions[p].replicas}
        brokers.update(broker for target in targets for broker in target)
        alive = {broker.id for broker in self._admin.brokers()}
        return self.log_dirs.describe(brokers & alive, by_topic(there))

    def _ongoing(self) -> tuple[dict[PartitionId, Reassignment], dict[PartitionId, tuple[int, Move]]]:
        """The reassignments in progress or waiting, and which of them are of requests: id and move."""
        in_progress, pending = self.reassignments.all_ongoing(), self._store.pending()
        return in_progress | {tp: move.reassignment for tp, (_, move) in pending.items()}, pending
