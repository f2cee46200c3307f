"""Covering: partitions made outside of a change get a layout, so that no record in them is hidden.

A cancelled change leaves the partitions it made, since Kafka cannot remove any, and other tools make some. Writers
that use Kafka's count write to them, and readers read only partitions of a layout. So a layout of the same count is
committed that includes them: their records belong elsewhere by key, and are delivered as misrouted.

**Writers are not blocked.** Under the same count every key keeps its partition, so writers of the two layouts write alike.
The new layout's starts may therefore lie among records of writers of the former one; they only decide which of two
equal epochs a record is shown under. Boundaries between different counts are exact as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from spark_ordered_kafka.controller.monitoring.changes import ChangeObserver
from spark_ordered_kafka.controller.state.paths import topic_path
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.zk.session import ConflictError
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import NO_LEADER
from spark_ordered_kafka.kafka.values import LogEnd, TopicDescription
from spark_ordered_kafka.updates import updated

_log = logging.getLogger(__name__)


def covering_layout(
    layout: LayoutRecord, ends: Mapping[int, LogEnd], existing: int, *, ordered_delivery: bool, now: float
) -> LayoutRecord:
    """``layout``, the newest one, widened to ``existing`` Kafka partitions. PURE.

    Args:
        ends: of partitions of ``layout``; a missing one leaves the start as it is, which is correct under the same count.
    """
    starts, leader_epochs = list(layout.starts), list(layout.leader_epochs)
    for partition, end in ends.items():
        # A truncated log ends before its start, and readers rely on the start.
        if end.offset > starts[partition]:
            starts[partition], leader_epochs[partition] = end.offset, end.leader_epoch
    more = existing - len(starts)
    return LayoutRecord(
        undeleted_partition_count=layout.undeleted_partition_count,
        starts=starts + [0] * more,
        leader_epochs=leader_epochs + [0] * more,
        committed_at=now,
        ordered_delivery=ordered_delivery,
        stray_from=len(starts),
    )


def stray_partitions(layouts: Sequence[LayoutRecord], existing: int) -> list[int]:
    """Partitions of ``existing`` in Kafka that no change has made or reused. PURE.

    ``layouts`` are all that remain, oldest first; partitions made before them cannot be judged.
    """
    found: set[int] = set()
    for layout in layouts:
        found = {p for p in found if p >= layout.undeleted_partition_count}
        if layout.stray_from is not None:
            found |= set(range(layout.stray_from, len(layout.starts)))
    return sorted(found | set(range(len(layouts[-1].starts), existing)))


class Covering:
    """Finds partitions beyond the newest layout while no change is in progress, and commits the layout that covers them.

    ``clock`` gives seconds since the epoch. Thread-safe.
    """

    def __init__(
        self, admin: KafkaAdmin, znodes: Znodes, observer: ChangeObserver, clock: Callable[[], float]
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._observer = observer
        self._clock = clock

    def is_covered(self, topic: str, record: TopicRecord, description: TopicDescription) -> bool:
        """Whether a layout covers all partitions, or covering has to wait for a change.

        Raises UnavailableError and DeposedError, and RequestError when ZooKeeper refuses.
        """
        if not _at_rest(record) or record.topic_id != description.topic_id:
            return True
        return len(description.partitions) <= len(self._newest(topic, record).starts)

    def described(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        """What Kafka says of ``topics``; without those that are not there, or of which it says nothing."""
        try:
            return self._admin.describe_topics(topics)
        except RequestError:
            # One topic that cannot be described must not keep the others from being checked.
            found: dict[str, TopicDescription] = {}
            for topic in topics:
                try:
                    found |= self._admin.describe_topics([topic])
                except RequestError as error:
                    _log.info("topic %s: its partitions are not known: %s", topic, error)
            return found

    def cover(self, topic: str) -> None:
        """Commit a layout that covers the topic's partitions, if some are not covered and no change is in progress.

        Raises ConflictError when the topic is being changed, and what Kafka or ZooKeeper refuse.
        """
        record, _ = self._znodes.read_topic(topic)
        if record is None or not _at_rest(record):
            return
        layout = self._newest(topic, record)
        description = described(self._admin, topic, record.topic_id)
        known, existing = len(layout.starts), len(description.partitions)
        if existing <= known:
            return
        led = [row.partition for row in description.partitions[:known] if row.leader != NO_LEADER]
        wider = covering_layout(
            layout,
            self._admin.log_ends(topic, led),
            existing,
            ordered_delivery=record.ordered_delivery,
            now=self._clock(),
        )

        def transform(current: TopicRecord) -> TopicRecord:
            same = (current.management, current.layout_epoch) == (record.management, record.layout_epoch)
            if not same or not _at_rest(current):
                raise ConflictError(topic_path(topic))
            return updated(current, layout_epoch=current.layout_epoch + 1)

        new = self._znodes.commit_layout(topic, transform, wider)
        self._observer.covered(topic, new.layout_epoch, known, existing)
        _log.warning(
            "topic %s: Kafka has %d partitions, of which no layout covered those from %d on, and no change is in progress: layout "
            "epoch %d covers them, so that readers deliver what lies there, as misrouted",
            topic,
            existing,
            known,
            new.layout_epoch,
        )

    def _newest(self, topic: str, record: TopicRecord) -> LayoutRecord:
        (layout,) = self._znodes.layouts(topic, record, record.layout_epoch)
        return layout


def _at_rest(record: TopicRecord) -> bool:
    return record.change is None and record.deleting_since is None and not record.is_newer
