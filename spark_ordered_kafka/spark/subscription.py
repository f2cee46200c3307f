"""Which topics and partitions a query reads: ``subscribe``, ``subscribePattern`` or ``assign``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from spark_ordered_kafka.client.topic_layouts import TopicSnapshot
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import ConfigError, ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.clients import unknown_topic
from spark_ordered_kafka.spark.bounds import is_retired, partitions_shown
from spark_ordered_kafka.spark.options import Assignment, SourceOptions, TopicNames, TopicPattern

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observation:
    """The topics of a subscription at one time. ``missing``: those that are not there, and how that showed."""

    snapshots: Mapping[str, TopicSnapshot]
    missing: Mapping[str, OrderedKafkaError]


class Subscriber:
    """Follows the topics of a subscription."""

    def __init__(self, directory: TopicDirectory, options: SourceOptions) -> None:
        self._directory = directory
        self._options = options
        self._subscription = options.subscription
        self._reported: set[str] = set()

    def observe(self) -> Observation:
        """Snapshots of all topics there are."""
        names = self._names()
        # A snapshot asks again and again for what it does not find; this asks once for what was not there.
        missing: dict[str, OrderedKafkaError] = {
            topic: unknown_topic(topic)
            for topic in names
            if topic in self._reported and not self._directory.ranges.exists(topic)
        }
        snapshots: dict[str, TopicSnapshot] = {}
        wanted = [topic for topic in names if topic not in missing]
        for topic, found in zip(wanted, self._directory.snapshots(wanted), strict=True):
            if isinstance(found, TopicSnapshot):
                snapshots[topic] = found
            elif isinstance(found, RequestError) and found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
            else:
                missing[topic] = found
        return Observation(snapshots, missing)

    def select(
        self, observation: Observation, known: Collection[str], lost: Callable[[str], None]
    ) -> dict[str, TopicSnapshot]:
        """The snapshots, with the partitions that are read.

        ``known``: topics read before, whose absence is a data loss, for which ``lost`` is called once. Raises ConfigError or
        RequestError for any other topic that is not there, for a pattern that matches nothing, for an assigned
        partition that does not exist, and for an assignment that cannot be ordered.
        """
        gone = self._gone(observation, known)
        for topic, reason in gone.items():
            if topic not in self._reported:
                lost(f"topic {topic!r} has vanished, and with it what was not read of it: {reason}")
                self._reported.add(topic)
        self._reported -= observation.snapshots.keys()
        self._check_new(observation, known)
        if isinstance(self._subscription, TopicPattern) and not observation.snapshots and not gone:
            raise ConfigError(
                "option subscribePattern",
                self._subscription.pattern,
                "the whole name of at least one topic under management must match",
            )
        return {
            topic: self._assigned(snapshot, is_new=topic not in known)
            for topic, snapshot in observation.snapshots.items()
        }

    def _names(self) -> tuple[str, ...]:
        if isinstance(self._subscription, TopicNames):
            return self._subscription.names
        if isinstance(self._subscription, Assignment):
            return tuple(self._subscription.partitions)
        listed = (summary.topic for summary in self._directory.controller.topics().topics)
        return tuple(sorted(topic for topic in listed if self._subscription.matches(topic)))

    def _gone(self, observation: Observation, known: Collection[str]) -> dict[str, str]:
        """Topics read before that the subscription still wants and that are not there, with the reason."""
        gone = {topic: str(error) for topic, error in observation.missing.items() if topic in known}
        if isinstance(self._subscription, TopicPattern):
            for topic in known:
                if topic not in observation.snapshots and self._subscription.matches(topic):
                    gone.setdefault(topic, "it is no longer under management")
        return gone

    def _check_new(self, observation: Observation, known: Collection[str]) -> None:
        for topic, error in observation.missing.items():
            if topic in known:
                continue
            if not isinstance(self._subscription, TopicPattern):
                raise error
            if topic not in self._reported:
                # Deleted in Kafka and still managed; it was never read, so nothing is lost (D-058).
                _LOG.warning("left out of subscribePattern: %s", str(error))
                self._reported.add(topic)

    def _assigned(self, snapshot: TopicSnapshot, *, is_new: bool) -> TopicSnapshot:
        if not isinstance(self._subscription, Assignment):
            return snapshot
        assigned = self._subscription.partitions[snapshot.topic]
        ordered = self._options.ordering == "key" and snapshot.layouts.ordered
        read = assigned_partitions(snapshot, assigned, ordered=ordered, complete=is_new)
        return replace(
            snapshot,
            log_starts={p: offset for p, offset in snapshot.log_starts.items() if p in read},
            ends={p: offset for p, offset in snapshot.ends.items() if p in read},
            absent=snapshot.absent & read,
        )


def assigned_partitions(
    snapshot: TopicSnapshot, assigned: frozenset[int], *, ordered: bool, complete: bool
) -> frozenset[int]:
    """The partitions that an assignment reads.

    Keys never leave the initial bucket they are in, partition modulo initial count, but move between its partitions.
    So an ordered read takes a bucket as a whole: partitions added to it later are read too, and with ``complete`` the
    assignment must name all there are (but those that are removed and empty). Without order it is what it is.

    Raises ConfigError for a partition that does not exist, and for one that is missing (D-057).
    """
    topic, history = snapshot.topic, snapshot.history
    unknown = [p for p in assigned if p not in snapshot.ends]
    if unknown:
        raise ConfigError(
            "option assign",
            partitions_shown(topic, unknown),
            f"topic {topic!r} has the partitions 0 to {history.partition_count - 1}",
        )
    if not ordered:
        return assigned
    buckets = {p % history.initial_count for p in assigned}
    whole = frozenset(p for p in snapshot.ends if p % history.initial_count in buckets)
    missing = [p for p in whole - assigned if not is_retired(snapshot, p)]
    if complete and missing:
        raise ConfigError(
            "option assign",
            partitions_shown(topic, assigned),
            f"these hold keys in common with others, so without them no order can be kept: add"
            f" {partitions_shown(topic, missing)} (all partitions that are equal modulo the initial partition count"
            f" {history.initial_count} belong together), or set ordering=none",
        )
    return whole
