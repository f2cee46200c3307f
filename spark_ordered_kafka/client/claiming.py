"""Partitions that an expansion has added, and that no member of the group reads yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer

from spark_ordered_kafka.client.joining import TIMEOUT, GroupOffsets
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.kafka.clients import refresh_metadata
from spark_ordered_kafka.kafka.values import PartitionId

_LOG = logging.getLogger(__name__)

# Seconds in which members take up new partitions before they call for another rebalance; each time twice as many.
_FIRST_INTERVAL, _LAST_INTERVAL = 1.0, 16.0


class Claims:
    """Calls for a rebalance until every partition has a member that reads it.

    Args:
        consumer: librdkafka's, a member of the group.
        offsets: the group's committed offsets.
        topics: what the consumer reads, by name; it changes with the assignment.
        rejoin: makes the group assign its partitions anew.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        consumer: Consumer,
        offsets: GroupOffsets,
        topics: Mapping[str, TopicProgress],
        rejoin: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._offsets = offsets
        self._topics = topics
        self._rejoin = rejoin
        self._clock = clock
        self._next_at = 0.0
        self._interval = _FIRST_INTERVAL
        self._reported: set[PartitionId] = set()

    def settled(self) -> None:
        """After an assignment, give the other members time to take up theirs."""
        self._next_at = self._clock() + self._interval

    def claim(self, name: str) -> None:
        """Call for a rebalance if partitions of a topic have no member that reads them."""
        topic = self._topics[name]
        unclaimed = topic.unclaimed()
        if not unclaimed or self._clock() < self._next_at:
            return
        topic.learn(self._offsets.read(name, topic.layouts.topic_id, unclaimed))
        if not topic.unclaimed():
            self._interval = _FIRST_INTERVAL
            return
        # Any member may be the one that assigns partitions, by its own metadata: so all refresh theirs (D-100).
        refresh_metadata(self._consumer, name, TIMEOUT)
        self._next_at = self._clock() + self._interval
        self._interval = min(2 * self._interval, _LAST_INTERVAL)
        self._rejoin()

    def report(self) -> None:
        """Warn of partitions that no consumer of the group reads, once."""
        found = {(name, p) for name, topic in self._topics.items() for p in topic.unclaimed()}
        if found != self._reported:
            self._reported = found
            shown = ", ".join(f"{name}-{p}" for name, p in sorted(found))
            _LOG.warning("no consumer of the group reads %s: assign them to a consumer", shown)
