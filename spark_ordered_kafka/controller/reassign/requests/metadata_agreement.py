"""Whether one broker's metadata is current: brokers learn of a change one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import MAX_NAMED
from spark_ordered_kafka.controller.reassign.requests.validation import Known
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.kafka.leaders import existing_topics, metadata_of_all
from spark_ordered_kafka.kafka.requests import BrokerRequests
from spark_ordered_kafka.kafka.values import PROPAGATION, USUAL_PROPAGATION, PartitionId, TopicDescription
from spark_ordered_kafka.parsing import is_topic_name

POLL = 0.1
"""Seconds between two reads of metadata that may be stale: Kafka has no call that waits for it."""

Replicas = Mapping[PartitionId, tuple[int, ...]]
_ReadT = TypeVar("_ReadT")
View = tuple[set[int], dict[str, dict[int, tuple[int, ...]]]]
"""The brokers that one broker knows, and the replicas of partitions by topic."""


class MetadataAgreement:
    """Compares the metadata of all brokers, and with the results of recent requests. Thread-safe.

    ``clock`` gives seconds since the epoch, ``timeout`` is in seconds for each request to the brokers.
    """

    def __init__(
        self,
        requests: BrokerRequests,
        store: ReassignmentStore,
        clock: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        self._requests = requests
        self._store = store
        self._clock = clock
        self._timeout = timeout

    def moved(self, tps: Collection[PartitionId]) -> dict[PartitionId, Move]:
        """Moves of ``tps`` by requests that have just ended: not every broker may show their results yet.

        Raises ZooKeeperError.
        """
        since = self._clock() - PROPAGATION
        found: dict[PartitionId, Move] = {}
        for request_id, record in self._store.records().items():
            read = None
            if record.ended_at is not None and record.ended_at > since:
                read = self._store.find(request_id)
            for move in () if read is None else read[1].moves:
                if move.tp in tps and move.state == "done":
                    found[move.tp] = move
        return found

    def agree(self, known: Known, names: Collection[str]) -> bool:
        """Whether all brokers that answer have the same metadata of the topics ``names``, and of one another, as ``known``.

        Raises UnavailableError when no broker answers.
        """
        asked = sorted(name for name in names if is_topic_name(name))
        views = self._requests.retry(
            partial(self._views, asked), time.monotonic() + self._timeout, "ask all brokers for topics"
        )
        return all_show(views, known, asked)

    async def _views(self, names: list[str], deadline: float) -> list[View]:
        """The metadata of each broker that answers."""
        wanted = names if len(names) <= MAX_NAMED else None
        return [_view(one, names) for one in await metadata_of_all(self._requests, wanted, deadline)]


class StaleMetadata:
    """Decides for one request whether metadata may be stale. Metadata counts as current after a few seconds."""

    def __init__(self, agreement: MetadataAgreement, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._agreement = agreement
        self._monotonic = monotonic
        self._began = monotonic()

    def remains(self, known: Known, tps: Collection[PartitionId], *, refused: bool) -> bool:
        """Whether to read metadata again: ``known`` is older than the result of a request for ``tps``, or this request is
        ``refused`` because of metadata that not all brokers share. Raises as :class:`MetadataAgreement`."""
        if self.is_late(replicas_of(known.topics, tps)):
            return True
        waited = self._monotonic() - self._began
        if not refused or waited >= PROPAGATION:
            return False
        # All brokers may lack the same change for that long.
        return waited < USUAL_PROPAGATION or not self._agreement.agree(known, {topic for topic, _ in tps})

    def read_current(self, read: Callable[[], _ReadT], replicas: Callable[[_ReadT], Replicas]) -> _ReadT:
        """What ``read`` returns, repeated while the ``replicas`` in it are late. Raises ZooKeeperError."""
        while self.is_late(replicas(found := read())):
            time.sleep(POLL)  # the broker's metadata may be stale, and Kafka does not notify
        return found

    def is_late(self, replicas: Replicas) -> bool:
        """Whether these replicas are from before the end of a move that has just ended, so that a later read may differ.
        Raises ZooKeeperError."""
        if not replicas or self._monotonic() - self._began >= PROPAGATION:
            return False
        return contradicted(replicas, self._agreement.moved(replicas))


def all_show(views: Collection[View], known: Known, names: Collection[str]) -> bool:
    """Whether each view has the brokers and, of the topics ``names``, the replicas of ``known``. PURE."""
    described = {name: _replicas(known.topics[name]) for name in names if name in known.topics}
    return all(view == (set(known.alive), described) for view in views)


def contradicted(replicas: Replicas, moved: Mapping[PartitionId, Move]) -> bool:
    """Whether ``replicas`` of a partition are those from before its move, or those during it. PURE."""
    return any(move.precedes_end(replicas.get(tp, ())) for tp, move in moved.items())


def all_replicas(topics: Mapping[str, TopicDescription]) -> Replicas:
    """The replicas of all partitions. PURE."""
    return {(name, row.partition): row.replicas for name, topic in topics.items() for row in topic.partitions}


def replicas_of(topics: Mapping[str, TopicDescription], tps: Collection[PartitionId]) -> Replicas:
    """The replicas of those ``tps`` that exist. PURE."""
    return {
        (topic, partition): topics[topic].partitions[partition].replicas
        for topic, partition in tps
        if topic in topics and 0 <= partition < len(topics[topic].partitions)
    }


def _replicas(topic: TopicDescription) -> dict[int, tuple[int, ...]]:
    return {row.partition: row.replicas for row in topic.partitions}


def _view(metadata: Any, names: Collection[str]) -> View:
    wanted = set(names)
    topics = {
        topic.name: {row.partition_index: tuple(row.replica_nodes) for row in topic.partitions}
        for topic in existing_topics(metadata)
        if topic.name in wanted
    }
    return {row.node_id for row in metadata.brokers}, topics
