"""The life of removed partitions: marked for deletion while they hold records, deleted once they are empty.

The loop over all topics also covers stray partitions and folds layouts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import get_args

from spark_ordered_kafka.client.schemas import Open
from spark_ordered_kafka.controller.background import Background
from spark_ordered_kafka.controller.state.records import RemovedStatus, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.folding import Folding
from spark_ordered_kafka.controller.topics.foreign_partitions import Covering
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.retired_replicas import ReplicaSets
from spark_ordered_kafka.controller.zk.session import ConflictError, DeposedError, ZooKeeperError
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.values import TopicDescription

_log = logging.getLogger(__name__)
# Pause after a check of all topics as a multiple of its duration: at most a quarter of the time is spent on checks.
_PAUSE_FACTOR = 3.0
# Topics in one request to Kafka.
_CHUNK = 100
_KNOWN = {None, *get_args(RemovedStatus)}


def new_statuses(
    count: int, statuses: Mapping[int, Open[RemovedStatus]], logs: Mapping[int, tuple[int, int]]
) -> dict[int, RemovedStatus]:
    """New status of removed partitions whose recorded one is wrong or missing, and not a newer controller's. PURE.

    Args:
        count: undeleted partition count; partitions below it have no status, even if one is recorded.
        statuses: recorded status, by partition.
        logs: log start and log end, by partition.
    """
    changed: dict[int, RemovedStatus] = {}
    for partition, (start, end) in logs.items():
        status: RemovedStatus = "deleted" if start == end else "marked"
        if partition >= count and statuses.get(partition) in _KNOWN - {status}:
            changed[partition] = status
    return changed


class Retirement:
    """Updates the status of removed partitions. ``background`` checks all topics again and again.

    Args:
        covering: covers stray partitions.
        folding: folds old layouts.
        starting: lock for recording a new change.
        clock: seconds since the epoch.
        interval: seconds between two checks of all topics.
        replication_factor: replicas that a deleted partition keeps; None: all.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        covering: Covering,
        folding: Folding,
        starting: threading.Lock,
        clock: Callable[[], float],
        *,
        interval: float,
        replication_factor: int | None = None,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._covering = covering
        self._folding = folding
        self._replicas = ReplicaSets(admin)
        self._starting = starting
        self._clock = clock
        self._factor = replication_factor
        self.background = Background(
            "retirement",
            "the check of removed partitions",
            lambda took: max(interval, _PAUSE_FACTOR * took),
            self._check_all,
        )

    def update_status(self, topic: str) -> None:
        """Bring the status of the topic's removed partitions up to date.

        Raises ConflictError when the topic is being changed, and what Kafka or ZooKeeper refuse.
        """
        known = self._znodes.topic(topic)
        if known is not None:
            self._update_status(topic, known)

    def _update_status(self, topic: str, known: TopicRecord) -> None:
        # Kafka need not be asked about topics that cannot have any.
        if known.deleting_since is not None or known.is_newer or not self._has_removed(topic, known):
            return
        # Read the version first: the write must fail if the topic changes after it.
        record, version = self._znodes.read_topic(topic)
        if record is None:
            return
        count = record.undeleted_partition_count
        # All brokers are asked, once: were a deleted topic looked for, a hundred of them would keep the others waiting (D-457).
        rows = described(self._admin, topic, record.topic_id, timeout=0.0).partitions[count:]
        # Skip partitions without a leader, so that the others are checked.
        removed = [row.partition for row in rows if row.leader != NO_LEADER]
        logs = self._admin.log_ranges(topic, removed)
        there = self._znodes.partition_statuses(topic)
        changed = new_statuses(count, there, logs)
        if changed:
            self._znodes.set_partition_statuses(topic, version, changed, there.keys(), self._clock())
            _log.info("topic %s: status of %d removed partitions changed", topic, len(changed))
        if self._factor is not None:
            self._reduce(
                topic, version, [p for p, (start, end) in logs.items() if start == end], self._factor
            )

    def _has_removed(self, topic: str, record: TopicRecord) -> bool:
        (layout,) = self._znodes.layouts(topic, record, record.layout_epoch)
        return len(layout.starts) > record.undeleted_partition_count

    def _reduce(self, topic: str, version: int, empty: list[int], factor: int) -> None:
        # The lock is held and no change is in progress, so nothing revives these partitions.
        with self._starting:
            record, now = self._znodes.read_topic(topic)
            if record is None or record.change is not None or now != version:
                return
            description = described(self._admin, topic, record.topic_id)
            self._znodes.await_claim(self.background.stopped)
            reduced = self._replicas.reduce(description, empty, factor)
        if reduced:
            _log.info("topic %s: %d deleted partitions keep %d replicas", topic, len(reduced), factor)

    def _check_all(self, stop: threading.Event) -> None:
        topics = self._znodes.topics()
        for at in range(0, len(topics), _CHUNK):
            chunk = topics[at : at + _CHUNK]
            descriptions = self._covering.described(chunk)
            for topic in chunk:
                if stop.is_set():
                    return
                failure = f"topic {topic}: removed partitions and old layouts cannot be checked"
                # Read once for all checks: with hundreds of topics this is what an idle controller does.
                known = self._record(topic, failure)
                if known is not None:
                    check = partial(self._check, topic, known, descriptions.get(topic))
                    self.background.attempt(topic, failure, check)

    def _record(self, topic: str, failure: str) -> TopicRecord | None:
        """None without one, and, with ``failure`` in the log, where it cannot be read."""
        try:
            return self._znodes.topic(topic)
        except (DeposedError, ZooKeeperError):
            # The next topic would have to wait for its time-out, too.
            raise
        except OrderedKafkaError as error:
            self.background.complain(topic, f"{failure}: {error}")
            return None

    def _check(self, topic: str, known: TopicRecord, description: TopicDescription | None) -> None:
        try:
            if description is not None and not self._covering.is_covered(topic, known, description):
                self._covering.cover(topic)
            self._update_status(topic, known)
            self._folding.fold(topic, known)
        except ConflictError:
            _log.debug("topic %s is being changed: it is checked again later", topic)
