"""Answers about topics under management."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.results import result, view
from spark_ordered_kafka.controller.state.change import AnyChange
from spark_ordered_kafka.controller.state.records import LayoutRecord, RemovedStatus, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.compaction import EarlierLayouts
from spark_ordered_kafka.controller.topics.creation import check_name
from spark_ordered_kafka.controller.topics.foreign_partitions import stray_partitions
from spark_ordered_kafka.controller.topics.kafka_state import described, newest
from spark_ordered_kafka.controller.topics.views import finished_view, leader_epochs_view, topic_summary
from spark_ordered_kafka.controller.zk.session import ZooKeeperError
from spark_ordered_kafka.errors import (
    ErrorCode,
    LayoutChangingError,
    OrderedKafkaError,
    RequestError,
    invalid_request,
)
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import USUAL_PROPAGATION, TopicDescription
from spark_ordered_kafka.parsing import is_topic_name

_RETRY_AFTER = 1.0
_MOST_STARTS = 200_000
"""Of the layouts in an answer about several topics: some megabytes."""
# Members written by a newer controller may not be meant for readers.
_VIEW_FIELDS = set(LayoutRecord.model_fields) - {"version"}


def refuse_leaving(topic: str, record: TopicRecord) -> None:
    """Raises RequestError UNKNOWN_TOPIC_OR_PARTITION for a topic that is about to leave management."""
    if record.deleting_since is not None:
        how = "released from management" if record.releasing else "deleted"
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} is being {how}")


class Topics:
    """Queries about topics under management."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, earlier: EarlierLayouts) -> None:
        self._admin = admin
        self._znodes = znodes
        self._earlier = earlier

    def record(self, topic: str) -> tuple[TopicRecord, int]:
        """The topic's record, read linearizably, and its znode version.

        Raises RequestError UNKNOWN_TOPIC_OR_PARTITION; its text shows whether Kafka has such a topic.
        """
        check_name(topic)
        record, version = self._znodes.read_topic(topic)
        if record is not None:
            refuse_leaving(topic, record)
            return record, version
        if topic in self._admin.describe_topics([topic]):
            reason = "is not under management: adopt it (ordered-kafka topics adopt)"
        else:
            reason = "does not exist"
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} {reason}")

    def managed(self, topic: str) -> TopicRecord | None:
        """The topic's record, read linearizably; None: it is not under management."""
        return self._znodes.topic(topic)

    def covered(self, topic: str, record: TopicRecord) -> int:
        """How many Kafka partitions the newest layout covers: no reader can have read the others."""
        return _covered(self._znodes.layouts(topic, record, record.layout_epoch))

    def summaries(self, current: Callable[[AnyChange], AnyChange]) -> schemas.TopicList:
        """All topics under management; from ZooKeeper alone. Those that cannot be read are left out: :meth:`view` says why."""
        rows = []
        topics = self._znodes.topics()
        for topic, record in zip(topics, self._znodes.peek_topics(topics), strict=True):
            # The check of all topics logs what cannot be read.
            if isinstance(record, TopicRecord) and record.deleting_since is None:
                change = None if record.change is None else current(record.change)
                rows.append(topic_summary(topic, record, change))
        return schemas.TopicList(topics=rows)

    def view(self, topic: str, current: Callable[[AnyChange], AnyChange]) -> tuple[schemas.TopicView, str]:
        """A topic and the ETag of its record: ``<layout epoch>-<znode version>``."""
        record, version = self.record(topic)
        layouts = self._znodes.layouts(topic, record)
        partitions = self._partitions(
            record, described(self._admin, topic, record.topic_id, _covered(layouts)), layouts
        )
        finished = None if record.last_change is None else finished_view(record.last_change)
        change = None if record.change is None else current(record.change)
        answer = view(
            schemas.TopicView,
            topic_summary(topic, record, change),
            cluster_id=self._admin.cluster_id,
            last_change=finished,
            stray_partitions=stray_partitions(layouts, len(partitions)),
            partitions=partitions,
        )
        return answer, f'"{record.layout_epoch}-{version}"'

    def partitions(self, topic: str, *, timeout: float = USUAL_PROPAGATION) -> list[schemas.PartitionView]:
        """The partitions of a topic, as in :meth:`view`. One that no broker shows for ``timeout`` seconds is gone."""
        record, _ = self.record(topic)
        layouts = self._znodes.layouts(topic, record)
        shown = described(self._admin, topic, record.topic_id, _covered(layouts), timeout=timeout)
        return self._partitions(record, shown, layouts)

    def ready_partitions(self, topics: Sequence[str]) -> dict[str, list[schemas.PartitionView]]:
        """As :meth:`partitions` of each with as few requests to Kafka as of one, without those that the broker asked does not
        show, or not whole: :meth:`partitions` of such a topic waits for it, or says what is wrong.

        Raises RequestError when Kafka does not show some topic to the controller.
        """
        records = zip(topics, self._znodes.read_topics(topics), strict=True)
        stay = {t: one for t, one in records if isinstance(one, TopicRecord) and one.deleting_since is None}
        found = self._admin.describe_topics(list(stay))
        ready = {}
        for topic, record in stay.items():
            layouts = self._znodes.layouts(topic, record)
            shown = newest([found.get(topic)], record.topic_id)
            if shown is not None and len(shown.partitions) >= _covered(layouts):
                ready[topic] = self._partitions(record, shown, layouts)
        return ready

    def _partitions(
        self, record: TopicRecord, description: TopicDescription, layouts: Sequence[LayoutRecord]
    ) -> list[schemas.PartitionView]:
        count = record.undeleted_partition_count
        has_removed = len(description.partitions) > count
        statuses = self._znodes.partition_statuses(description.topic) if has_removed else {}

        def unmarked(partition: int) -> RemovedStatus:
            # Partitions outside every layout have not been checked, and may hold records.
            return "deleted" if partition < _covered(layouts) else "marked"

        return [
            view(
                schemas.PartitionView,
                p,
                status="live" if p.partition < count else statuses.get(p.partition, unmarked(p.partition)),
            )
            for p in description.partitions
        ]

    def layouts(self, topic: str, from_epoch: int) -> schemas.LayoutHistoryView:
        """The committed layouts from ``from_epoch`` on, without folded ones. Reads ZooKeeper only."""
        record, _ = self.record(topic)
        return self._history(topic, record, from_epoch)

    def histories(
        self, asked: Sequence[schemas.LayoutQuestion], refused: Mapping[str, RequestError]
    ) -> schemas.LayoutHistories:
        """As :meth:`layouts` of each, with its own result; ``refused`` are topics that are not looked at.

        Answers at least one, and no further ones once :data:`_MOST_STARTS` are exceeded.
        """
        topics = [topic for topic in dict.fromkeys(one.topic for one in asked) if topic not in refused]
        named = [topic for topic in topics if is_topic_name(topic)]
        records = {**dict(zip(named, self._znodes.read_topics(named), strict=True)), **refused}
        rows: list[schemas.LayoutHistoryResult] = []
        starts = 0
        for one in asked:
            rows.append(self._row(one, records.get(one.topic)))
            if (history := rows[-1].history) is not None:
                starts += sum(len(layout.starts) for layout in history.layouts)
            if starts > _MOST_STARTS:
                break
        return schemas.LayoutHistories(rows)

    def _row(
        self, asked: schemas.LayoutQuestion, record: TopicRecord | RequestError | None
    ) -> schemas.LayoutHistoryResult:
        topic = asked.topic
        try:
            check_name(topic)
            if record is None:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic!r} is not under management: create it, or adopt it if Kafka has it (ordered-kafka topics"
                    " adopt)",
                )
            if isinstance(record, RequestError):
                raise record
            refuse_leaving(topic, record)
            return schemas.LayoutHistoryResult(topic, history=self._history(topic, record, asked.from_epoch))
        except ZooKeeperError:
            raise  # another controller may answer
        except OrderedKafkaError as error:
            failed = result(schemas.Result, error)
            return schemas.LayoutHistoryResult(topic, failed.error_code, failed.error, failed.error_message)

    def _history(self, topic: str, record: TopicRecord, from_epoch: int) -> schemas.LayoutHistoryView:
        if from_epoch > record.layout_epoch + 1:
            raise invalid_request(
                f"from_epoch has the value {from_epoch}: topic {topic!r} is at layout epoch {record.layout_epoch}"
            )
        layouts = self._znodes.layouts(topic, record, from_epoch)
        return schemas.LayoutHistoryView(
            topic=topic,
            topic_id=record.topic_id,
            cluster_id=self._admin.cluster_id,
            hash=record.hash,
            ordered_delivery=record.ordered_delivery,
            initial_partition_count=record.initial_partition_count,
            layouts=[
                schemas.LayoutView(epoch=epoch, **layout.model_dump(include=_VIEW_FIELDS))
                for epoch, layout in enumerate(layouts, max(from_epoch, record.first_layout_epoch))
            ],
            changing=record.change is not None and record.change.closing,
        )

    def writer_layout(self, topic: str) -> schemas.WriterLayoutView:
        """What a writer needs. Reads ZooKeeper, and for a topic that was changed sometimes its cleanup policy from Kafka.

        Raises LayoutChangingError while a change is closing.
        """
        record, _ = self.record(topic)
        if record.change is not None and record.change.closing:
            raise LayoutChangingError(topic, _RETRY_AFTER)
        return schemas.WriterLayoutView(
            topic=topic,
            topic_id=record.topic_id,
            cluster_id=self._admin.cluster_id,
            hash=record.hash,
            ordered_delivery=record.ordered_delivery,
            initial_partition_count=record.initial_partition_count,
            undeleted_partition_count=record.undeleted_partition_count,
            layout_epoch=record.layout_epoch,
            earlier=self._without_deleted(topic, record),
        )

    def _without_deleted(self, topic: str, record: TopicRecord) -> list[schemas.EarlierLayout]:
        """The earlier layouts of a compacted topic without deleted partitions: those are empty, and may be on a broker that is
        lost."""
        earlier = self._earlier.of(topic, record, lambda: self._znodes.layouts(topic, record))
        removed = any(any(one.ends[record.undeleted_partition_count :]) for one in earlier)
        deleted = record.deleted(self._znodes.partition_statuses(topic) if removed else {})
        if not deleted:
            return earlier
        return [
            replace(one, ends=[0 if p in deleted else end for p, end in enumerate(one.ends)])
            for one in earlier
        ]

    def leader_epochs(self, topic: str, partitions: Sequence[int] | None) -> schemas.LeaderEpochsView:
        """KIP-253's maps, computed from the layouts. ``None`` means every partition."""
        record, _ = self.record(topic)
        layouts = self._znodes.layouts(topic, record)
        known = len(layouts[-1].starts)
        for partition in partitions or ():
            if not 0 <= partition < known:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"partitions has the value {partition}: topic {topic!r} has partitions 0 to {known - 1}",
                )
        wanted = range(known) if partitions is None else partitions
        return schemas.LeaderEpochsView(
            topic=topic,
            topic_id=record.topic_id,
            partitions=[leader_epochs_view(layouts, partition) for partition in wanted],
        )


def _covered(layouts: Sequence[LayoutRecord]) -> int:
    return len(layouts[-1].starts)
