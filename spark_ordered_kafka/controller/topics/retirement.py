"""The life of removed partitions: marked for deletion while they hold records, deleted once they are empty.

Whoever looks at all topics for that also lets others look at them: what covers stray partitions, and the folding of layouts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from spark_ordered_kafka.controller.state.records import PartitionStatus, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.folding import Folding
from spark_ordered_kafka.controller.topics.foreign_partitions import Covering
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.retired_replicas import ReplicaSets
from spark_ordered_kafka.controller.zk.session import ConflictError, DeposedError
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER

_log = logging.getLogger(__name__)
# Of the time at most a quarter is spent on looking, however many partitions there are.
_REST = 3.0

RemovedStatus = Literal["marked", "deleted"]


def new_statuses(
    count: int, statuses: Mapping[int, PartitionStatus], logs: Mapping[int, tuple[int, int]]
) -> dict[int, RemovedStatus]:
    """Status of the removed partitions whose recorded one is wrong or missing. PURE.

    Args:
        count: undeleted partition count; partitions below it have no status, whatever is recorded of them.
        statuses: what is recorded, by partition.
        logs: log start and log end, by partition.
    """
    changed: dict[int, RemovedStatus] = {}
    for partition, (start, end) in logs.items():
        status: RemovedStatus = "deleted" if start == end else "marked"
        if partition >= count and statuses.get(partition) != status:
            changed[partition] = status
    return changed


class Retirement:
    """Keeps the status of removed partitions; a thread of its own does it between :meth:`start` and :meth:`stop`.

    Args:
        covering: covers stray partitions.
        folding: folds old layouts.
        starting: held by whoever records a new change.
        clock: seconds since the epoch.
        interval: seconds between two looks at all topics.
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
        self._interval = interval
        self._factor = replication_factor
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._complaints: dict[str, str] = {}

    def start(self) -> None:
        """Begin to look at all topics, now and every ``interval`` seconds."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="retirement", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop between two topics; waits at most ``timeout`` seconds for that."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                _log.warning("the look at removed partitions did not stop within %g s", timeout)

    def look(self, topic: str) -> None:
        """Bring the status of the topic's removed partitions up to date.

        Raises ConflictError when the topic is being changed, and what Kafka or ZooKeeper refuse.
        """
        known = self._znodes.topic(topic)
        # Kafka is not asked about topics that cannot have any.
        if known is None or known.deleting_since is not None or not self._has_removed(topic, known):
            return
        # The version is read first: what is written holds only if nothing has happened to the topic since then.
        record, version = self._znodes.read_topic(topic)
        if record is None:
            return
        count = record.undeleted_partition_count
        rows = described(self._admin, topic, record.topic_id).partitions[count:]
        # Of one without a leader nothing is known; that must not keep the others from being looked at.
        removed = [row.partition for row in rows if row.leader != NO_LEADER]
        # The start first: if the end has not gone beyond it, the log is empty by then.
        starts = self._admin.log_starts(topic, removed)
        ends = self._admin.log_ends(topic, removed)
        logs = {p: (starts[p], ends[p].offset) for p in removed}
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
        # No change begins while the lock is held, and none is going on, so that nothing revives these partitions.
        with self._starting:
            record, now = self._znodes.read_topic(topic)
            if record is None or record.change is not None or now != version:
                return
            description = described(self._admin, topic, record.topic_id)
            self._znodes.await_claim(self._stop)
            reduced = self._replicas.reduce(description, empty, factor)
        if reduced:
            _log.info("topic %s: %d deleted partitions keep %d replicas", topic, len(reduced), factor)

    def _run(self, stop: threading.Event) -> None:
        rest = 0.0
        while not stop.wait(rest):
            began = time.monotonic()
            try:
                self._look_at_all(stop)
            except DeposedError:
                _log.info("not the controller any more: removed partitions are left to the next one")
                return
            rest = max(self._interval, _REST * (time.monotonic() - began))

    def _look_at_all(self, stop: threading.Event) -> None:
        try:
            topics = self._znodes.topics()
            uncovered = set(self._covering.uncovered(topics))
        except DeposedError:
            raise
        except OrderedKafkaError as error:
            _log.warning("partitions are not looked at: %s", error)
            return
        for topic in topics:
            if stop.is_set():
                return
            try:
                if topic in uncovered:
                    self._covering.look(topic)
                self.look(topic)
                self._folding.look(topic)
            except DeposedError:
                raise
            except ConflictError:
                _log.debug("topic %s is being changed: it is looked at again", topic)
            except OrderedKafkaError as error:
                self._complain(topic, str(error))
            except Exception:  # noqa: BLE001 - a bug, and the other topics must not suffer from it
                _log.exception("topic %s was not looked at", topic)
            else:
                self._complaints.pop(topic, None)

    def _complain(self, topic: str, message: str) -> None:
        """Say once what keeps a topic from being looked at, not every few seconds."""
        if self._complaints.get(topic) != message:
            _log.warning("topic %s: removed partitions and old layouts are not looked at: %s", topic, message)
            self._complaints[topic] = message
