"""Releases topics from management: fences their writers and deletes what ZooKeeper has of them. Kafka keeps topic and data.

The intent is recorded first; from then on all other modules treat the topic as gone. The next controller completes a release
that was cut off (D-255). Every step may be repeated. Ledgers of the writers stay, or what a query writes again after a new
adoption would be there twice; Kafka drops them as it drops the offsets of any group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.policy import TopicChecks
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.pending import PendingMoves
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.creation import check_name
from spark_ordered_kafka.controller.topics.leaving import Leaving, LeavingTopics
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.listed import listed

_log = logging.getLogger(__name__)
_NAMED = 5

WaitingGroups = Callable[
    [str, str, Mapping[int, tuple[int, int]]], Mapping[int, Sequence[schemas.GroupPosition]]
]
"""Topic, its id, and log start and end by partition -> the groups that have not read a partition to that end."""


class TopicReleaser(LeavingTopics):
    """Releases topics; continues each release until it is done or this process is deposed.

    ``starting`` is the lock for starting a partition change.
    """

    what = "release"
    releases = True

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        pending: PendingMoves,
        checks: TopicChecks,
        waiting_groups: WaitingGroups,
        starting: threading.Lock,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        super().__init__(admin, znodes, topics, checks, clock, timeout)
        self._pending = pending
        self._waiting_groups = waiting_groups
        self._starting = starting

    def begin(
        self, topic: str, request: schemas.ReleaseTopicRequest, *, principal: str
    ) -> tuple[schemas.TopicResult, Leaving | None]:
        """Record that the topic is to be released, and release it in the background.

        The work completes with the release; it is None for ``validate_only``, and that of a release already in progress.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, also for a topic that is not under management; PARTITION_CHANGE_IN_PROGRESS;
                REASSIGNMENT_IN_PROGRESS; INVALID_REQUEST while consumer groups have not read all earlier layouts, unless
                forced; POLICY_VIOLATION.
            UnavailableError: a partition has no leader, or a coordinator does not answer.
        """
        result = schemas.TopicResult(topic=topic)
        check_name(topic)
        known = self._znodes.topic(topic)
        if known is not None and known.releasing:
            return result, None if request.validate_only else self._job(topic, known.topic_id)
        record, _ = self._topics.record(topic)
        refuse_second(topic, record.change)
        self._refuse_moving(topic)
        if not request.force:
            self._refuse_unread(topic, record)
        self._checks.check(topic, record, "release", principal=principal, validate_only=request.validate_only)
        if request.validate_only:
            return result, None
        return result, self._record(topic, record)

    def _record(self, topic: str, record: TopicRecord) -> Leaving:
        def check(current: TopicRecord) -> None:
            if (current.management, current.layout_epoch) != (record.management, record.layout_epoch):
                raise UnavailableError(f"topic {topic!r} was changed meanwhile; send the request again")
            refuse_second(topic, current.change)

        with self._starting:
            self._refuse_moving(topic)
            return self._leave(topic, record.topic_id, check)

    def _refuse_moving(self, topic: str) -> None:
        for request_id, move in self._pending.of(topic):
            raise RequestError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"reassignment {request_id} moves partition {topic}-{move.partition}: wait for its end, or cancel it "
                "(ordered-kafka reassign cancel)",
            )

    def _refuse_unread(self, topic: str, record: TopicRecord) -> None:
        """Readers that are behind the newest layout's start need the layouts to keep the order of keys."""
        if record.layout_epoch == 0 or not self._admin.has_topic(topic):
            return
        newest = self._znodes.layouts(topic, record, record.layout_epoch)[0]
        deleted = record.deleted(self._znodes.partition_statuses(topic))
        earlier = {p: start for p, start in enumerate(newest.starts) if start > 0 and p not in deleted}
        begins = self._admin.log_starts(topic, list(earlier))
        logs = {p: (begins[p], start) for p, start in earlier.items() if begins[p] < start}
        waiting = self._waiting_groups(topic, record.topic_id, logs)
        if not waiting:
            return
        partition = min(waiting)
        groups = sorted({one.group for positions in waiting.values() for one in positions})
        raise invalid_request(
            f"consumer group {listed(groups, _NAMED)} has not read all that was written before the last partition "
            f"change of topic {topic!r} (partition {partition}, for example, up to offset {earlier[partition]}), and without "
            "the layouts the order of its keys is lost; let it read on, or use force"
        )

    def _recorded(self) -> Mapping[str, str]:
        return self._znodes.releases()

    def _attempt(self, topic: str, topic_id: str, stop: threading.Event) -> None:
        # A writer that is not fenced would write by the old layout after a new adoption.
        self._fence(topic)
        self._znodes.await_claim(stop)
        self._znodes.end_release(topic, topic_id)
        _log.info("topic %s: released from management", topic)
