"""Earlier layouts for writers of compacted topics, and which topics are compacted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent import futures

from spark_ordered_kafka.client.schemas import EarlierLayout
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.topics.earlier import earlier_layouts
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.configs import TopicConfigs

POLICY_AGE = 5.0
"""Seconds for which a topic's cleanup policy is cached: many writers check at the same time (D-079)."""

_POLICY = "cleanup.policy"
_COMPACT = "compact"


class EarlierLayouts:
    """:func:`earlier_layouts` of the topics that need it. ``clock`` in seconds; thread-safe.

    For any number of writers, Kafka is asked for a topic's policy at most once in :data:`POLICY_AGE` seconds, and never
    twice at the same time; ``timeout`` (seconds) limits the wait for another caller's query.
    """

    def __init__(self, configs: TopicConfigs, clock: Callable[[], float], timeout: float) -> None:
        self._configs = configs
        self._clock = clock
        self._timeout = timeout
        self._lock = threading.Lock()
        self._policies: dict[tuple[str, str], tuple[float, futures.Future[bool]]] = {}
        self._computed: dict[str, tuple[int, int, list[EarlierLayout]]] = {}

    def of(
        self, topic: str, record: TopicRecord, layouts: Callable[[], Sequence[LayoutRecord]]
    ) -> list[EarlierLayout]:
        """The entries of ``topic``; empty unless it is ordered, compacted and has been changed.

        ``layouts`` gives all its layouts up to the record's epoch.

        Raises:
            UnavailableError: Kafka did not return the policy in time.
            RequestError: Kafka refused to return it.
        """
        if not record.ordered_delivery or record.layout_epoch == 0 or not self._compacted(topic, record):
            return []
        known = self._computed.get(topic)
        if known is None or known[:2] != (record.management, record.layout_epoch):
            entries = earlier_layouts(record.initial_partition_count, layouts())
            known = self._computed[topic] = record.management, record.layout_epoch, entries
        return known[2]

    def _compacted(self, topic: str, record: TopicRecord) -> bool:
        key = topic, record.topic_id
        own: futures.Future[bool] | None = None
        with self._lock:
            now = self._clock()
            asked, answer = self._policies.get(key, (now, None))
            if answer is None or (answer.done() and (now - asked >= POLICY_AGE or answer.exception())):
                answer = own = futures.Future()
                self._policies[key] = now, answer
        if own is not None:
            self._ask(topic, own)
        try:
            return answer.result(self._timeout)
        except futures.TimeoutError as error:  # another class than the built-in one before Python 3.11
            raise UnavailableError(f"the configuration of topic {topic!r} is not known yet") from error

    def _ask(self, topic: str, answer: futures.Future[bool]) -> None:
        try:
            policies = self._configs.describe(topic).get(_POLICY, "").split(",")
            answer.set_result(_COMPACT in (policy.strip() for policy in policies))
        except OrderedKafkaError as error:
            answer.set_exception(error)
        except BaseException:
            answer.set_exception(UnavailableError(f"the configuration of topic {topic!r} was not read"))
            raise
