"""What an ordered consumer commits, and when: what is processed, after the listener has let go of keys."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from confluent_kafka import OFFSET_INVALID, TopicPartition

from spark_ordered_kafka.client.backlog import CommitRequest
from spark_ordered_kafka.client.joining import GroupOffsets, committable, release_of
from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress, progress_of
from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.ordering.handover import Release

_LOG = logging.getLogger(__name__)

# Seconds between two commits of what is committed already, in a group without members.
RENEWAL_INTERVAL = 3600.0

Releases = Mapping[str, Mapping[int, Release]]
"""Per topic and partition what is to be committed."""


class Transactions:
    """Those that commit offsets of a consumer, also of partitions that are not assigned to it any more."""

    def __init__(self) -> None:
        self._begun: list[CommitRequest] = []
        # Without what was delivered for these, what was delivered later must not be committed.
        self._relied_on: list[CommitRequest] = []

    def begun(self, request: CommitRequest) -> None:
        """The commit of one is under way."""
        self._begun = [*(one for one in self._begun if not one.done), request]
        self._relied_on = [*self.relied_on(), request]

    def relied_on(self) -> list[CommitRequest]:
        """Those that later ones have to follow: not committed yet, or given up."""
        return [one for one in self._relied_on if not one.done or one.error is not None]

    def rewound(self) -> None:
        """What is delivered from here on is what is not committed when all have ended."""
        self._relied_on = []

    def are_under_way(self) -> bool:
        """Whether one is being committed, so that what the group has committed may be about to change."""
        return not all(one.done for one in self._begun)


class Commits:
    """Commits of the assigned partitions.

    ``transactions``: those that commit them in its place.

    Args:
        topics: the progress of the current assignment, by topic.
        offsets: the group's committed offsets.
        listener: called before keys may go.
        on_committed: called after each commit, which may open partitions.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        topics: Mapping[str, TopicProgress],
        offsets: GroupOffsets,
        listener: PartitionKeyRebalanceListener | None,
        on_committed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._listener = listener
        self._on_committed = on_committed
        self._clock = clock
        self._renew_at = clock() + RENEWAL_INTERVAL
        # Partitions whose keys the listener was asked to let go, for a commit that is not done yet.
        self._leaving: set[tuple[str, int]] = set()
        self.transactions = Transactions()

    def is_dirty(self) -> bool:
        """Whether something was delivered and not committed."""
        return bool(self.dirty())

    def dirty(self) -> set[PartitionId]:
        """The partitions of which something was delivered and not committed."""
        return {
            (name, p)
            for name, topic in self._topics.items()
            for p, progress in topic.own.items()
            if progress.dirty
        }

    def position(self, topic: str, partition: int) -> TopicPartition:
        """The offset of the next record to be delivered."""
        progress = progress_of(self._topics, topic, partition)
        return TopicPartition(topic, partition, OFFSET_INVALID if progress is None else progress.position)

    def due(self, *, processed: bool) -> Releases:
        """What others may wait for and may be committed; ``processed``: what was delivered is processed."""
        found = {}
        for name, topic in self._topics.items():
            due = [p for p in topic.due() if processed or _is_processed(topic.own[p])]
            if due:
                found[name] = {p: topic.release(p) for p in due}
        return self._in_order(found)

    def releases(self, wanted: Sequence[TopicPartition] | None) -> Releases:
        """What to commit when everything delivered is processed, or everything below the offsets ``wanted``.

        Raises ConfigError for an offset that is not the consumer's to commit.
        """
        if wanted is not None:
            found: dict[str, dict[int, Release]] = defaultdict(dict)
            for one in wanted:
                self._check_wanted(one)
                topic = self._topics[one.topic]
                release = topic.release(one.partition, one.offset)
                _check_order(topic, one, release)
                found[one.topic][one.partition] = release
            return self._in_order(found)
        # A successor that begins behind all that was delivered gets every key in order (D-104).
        return {name: topic.uncommitted() for name, topic in self._topics.items()}

    def stored(self) -> list[TopicPartition]:
        """What the application has stored to be committed."""
        return [
            TopicPartition(name, p, progress.stored)
            for name, topic in self._topics.items()
            for p, progress in topic.own.items()
            if progress.stored is not None
        ]

    def store(self, wanted: Iterable[TopicPartition]) -> None:
        """Note what is processed; raises ConfigError, with nothing stored, for an offset that is not the consumer's.

        As with librdkafka, offsets that are committed already are no news.
        """
        offsets = list(wanted)
        for one in offsets:
            self._check_wanted(one)
        for one in offsets:
            progress = self._topics[one.topic].own[one.partition]
            if one.offset > progress.committed.offset:
                progress.stored = one.offset

    def take_back(self, topic: str, partition: int, offset: int) -> None:
        """Commit an offset that lies before what is committed; raises as :meth:`GroupOffsets.commit`."""
        progress = self._topics[topic]
        one = committable(topic, partition, replace(progress.release(partition, offset), lost_to=0))
        self._offsets.commit([one])
        progress.own[partition].lost_to = 0
        self.note([one])

    def must_renew(self) -> bool:
        """Whether it is time for :meth:`renew`."""
        return self._clock() >= self._renew_at and not self._offsets.is_member

    def renew(self) -> None:
        """Commit once more what is committed of partitions that are idle; raises as :meth:`GroupOffsets.commit`.

        In a group without members Kafka lets each offset expire for itself, and others would wait for it (D-365). What was
        delivered since may be committed by a transaction whose end is not known here, so the rest is left out.
        """
        if self.transactions.are_under_way():
            return
        idle = [
            committable(name, p, progress.committed)
            for name, topic in self._topics.items()
            for p, progress in topic.own.items()
            if not progress.dirty
        ]
        if idle:
            self._offsets.commit(idle)
        self._renew_at = self._clock() + RENEWAL_INTERVAL

    def let_go(self, releases: Releases) -> list[TopicPartition]:
        """Have the listener let keys go that ``releases`` gives up; the offsets to commit."""
        leaving = [
            TopicPartition(name, p)
            for name, wanted in releases.items()
            for p in self._topics[name].leaving(wanted)
        ]
        if leaving and self._listener is not None:
            self._listener.on_partition_key_maybe_revoked(leaving)
            self._leaving.update((one.topic, one.partition) for one in leaving)
        return [
            committable(name, p, release)
            for name, wanted in releases.items()
            for p, release in wanted.items()
        ]

    def commit(self, releases: Releases) -> list[TopicPartition]:
        """Let go of keys and commit; raises as :meth:`GroupOffsets.commit`."""
        offsets = self.let_go(releases)
        if not offsets:
            return []
        done = self._offsets.commit(offsets)
        self.note(offsets)
        return done

    def note(self, offsets: Iterable[TopicPartition]) -> None:
        """These offsets are committed."""
        for one in offsets:
            topic = self._topics.get(one.topic)
            if topic is not None and one.partition in topic.own:
                topic.committed({one.partition: release_of(one)})
                self._leaving.discard((one.topic, one.partition))
        self._on_committed()

    def take_leaving(self) -> set[tuple[str, int]]:
        """The partitions whose keys the listener let go of, and which did not go; they are forgotten."""
        leaving, self._leaving = self._leaving, set()
        return leaving

    def _in_order(self, releases: Releases) -> Releases:
        return {name: self._topics[name].in_order(wanted) for name, wanted in releases.items()}

    def _check_wanted(self, one: TopicPartition) -> None:
        progress = progress_of(self._topics, one.topic, one.partition)
        shown = f"{one.topic}-{one.partition} at {one.offset}"
        if progress is None:
            hint = "only assigned partitions that something was delivered from since then can be committed"
            raise ConfigError("offsets", shown, hint)
        if not 0 <= one.offset <= progress.position:
            raise ConfigError("offsets", shown, f"from 0 to {progress.position}, what was delivered")
        if one.metadata:
            raise ConfigError("offsets", shown, "the metadata of offsets is the consumer's own; leave it out")


def _check_order(topic: TopicProgress, one: TopicPartition, release: Release) -> None:
    """Raises ConfigError for an offset that a seek could not go back to either (D-240)."""
    committed = topic.own[one.partition].committed.offset
    overtaken = topic.overtaken(one.partition, release.offset) if release.offset < committed else {}
    if overtaken:
        others = ", ".join(f"{one.topic}-{p}" for p in sorted(overtaken))
        hint = (
            f"{committed} or more, since it is committed already, and later records of its keys were read from {others}:"
            " a reader that continues there would get them out of order. seek() can go back"
        )
        raise ConfigError("offsets", f"{one.topic}-{one.partition} at {one.offset}", hint)


def _is_processed(progress: Progress) -> bool:
    return not progress.dirty or progress.stored == progress.position


class AutoCommit:
    """Commits what others wait for at once, and from time to time everything that is processed.

    Args:
        interval: seconds between two commits of everything; None: only what others wait for is committed.
        clock: seconds, monotonic.
        stores: whether the application says what is processed (``enable.auto.offset.store`` false).
    """

    def __init__(self, interval: float | None, clock: Callable[[], float], *, stores: bool = False) -> None:
        self._interval = interval
        self._stores = stores
        self._clock = clock
        self._committed_at = clock()

    @property
    def is_on(self) -> bool:
        """Whether what was delivered counts as processed at the next call."""
        return self._interval is not None

    def processed_by(self, commits: Commits) -> Releases:
        """What is processed when everything delivered is, or what the application has stored."""
        return commits.releases(commits.stored() if self._stores else None)

    def commit_due(self, commits: Commits) -> None:
        """Commit what is due."""
        due = commits.due(processed=self.is_on and not self._stores)
        if self._interval is not None and self._clock() - self._committed_at >= self._interval:
            due = self.processed_by(commits)
        if not due:
            return
        self._committed_at = self._clock()
        self._commit_or_wait(commits, due)

    def processed(self, commits: Commits) -> None:
        """Commit everything delivered, with ``enable.auto.commit``."""
        if self.is_on:
            self._commit_or_wait(commits, self.processed_by(commits))

    @staticmethod
    def _commit_or_wait(commits: Commits, releases: Releases) -> None:
        try:
            commits.commit(releases)
        except OrderedKafkaError as error:
            if not error.retriable:
                raise
            # It is tried again at the next interval, or the records are delivered again.
            _LOG.warning("%s", str(error))
