"""Deletes topics under management: fences the writers, then deletes topic, writers' ledgers, and records.

The intent is recorded first; from then on all other modules treat the topic as deleted (D-036). The next controller
completes a deletion that was cut off. Every step may be repeated.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.policy import TopicChecks
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.capacities import Capacities
from spark_ordered_kafka.controller.topics.creation import check_name
from spark_ordered_kafka.controller.topics.leaving import Leaving, LeavingTopics
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.deletions import TopicDeletions
from spark_ordered_kafka.kafka.groups import ConsumerGroups
from spark_ordered_kafka.kafka.ids import id_prefix

_log = logging.getLogger(__name__)


class TopicDeleter(LeavingTopics):
    """Deletes topics; continues each deletion until it is done or this process is deposed."""

    what = "deletion"
    releases = False

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        topics: Topics,
        capacities: Capacities,
        checks: TopicChecks,
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        super().__init__(admin, znodes, topics, checks, clock, timeout)
        self._capacities = capacities
        self._kafka = TopicDeletions(admin.requests, timeout=timeout)
        self._groups = ConsumerGroups(admin.requests, timeout=timeout)

    def begin(
        self, topic: str, *, principal: str, validate_only: bool
    ) -> tuple[schemas.TopicResult, Leaving | None]:
        """Record that the topic is to be deleted, and delete it in the background.

        The work completes with the deletion; it is None for ``validate_only``, and that of a deletion already in progress.
        Raises RequestError: UNKNOWN_TOPIC_OR_PARTITION, also for a topic that is not under management,
        PARTITION_CHANGE_IN_PROGRESS, or POLICY_VIOLATION.
        """
        result = schemas.TopicResult(topic=topic)
        check_name(topic)
        pending = self._znodes.topic(topic)
        if pending is not None and pending.deleting_since is not None and not pending.releasing:
            return result, None if validate_only else self._job(topic, pending.topic_id)
        record, _ = self._topics.record(topic)
        refuse_second(topic, record.change)
        self._checks.check(topic, record, "delete", principal=principal, validate_only=validate_only)
        if validate_only:
            return result, None

        return result, self._leave(
            topic, record.topic_id, lambda current: refuse_second(topic, current.change)
        )

    def _recorded(self) -> Mapping[str, str]:
        return self._znodes.deletions()

    def _attempt(self, topic: str, topic_id: str, stop: threading.Event) -> None:
        unfenced: UnavailableError | None = None
        try:
            try:
                # Fenced before the deletion, writers ask for the layout and get the reason to stop. An unfenced one would
                # write to a new topic of that name by the old layout (D-034).
                self._fence(topic)
            except UnavailableError as error:
                unfenced = error
            self._znodes.await_claim(stop)
            self._kafka.delete(topic, topic_id)
        except DeposedError:
            raise
        except RequestError as error:
            if not error.retriable:
                self._znodes.drop_deletion(topic, topic_id)
            raise
        if unfenced is not None:
            raise UnavailableError(
                f"it is gone, but its writers are not fenced yet: {unfenced}"
            ) from unfenced
        # Kafka may have taken long: a new topic of that name may have writers.
        self._znodes.await_claim(stop)
        self._forget_ledgers(topic)
        self._znodes.end_deletion(topic, topic_id)
        self._capacities.forget(topic)
        _log.info("topic %s: deleted", topic)

    def _forget_ledgers(self, topic: str) -> None:
        """Else a writer of the same name would take its first batches in a new topic of that name for written (D-035).

        Brokers drop offsets of a deleted topic themselves, but not those whose coordinator is down at that moment.
        """
        try:
            self._groups.delete(id_prefix(topic))
        except RequestError as error:
            if error.retriable:
                raise
            _log.warning("topic %s: the ledgers of its writers are left to Kafka: %s", topic, error)
