"""Pausing, resuming and seeking assigned partitions, as far as every key stays in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaException,
    TopicPartition,
)

from spark_ordered_kafka.client.committing import Commits
from spark_ordered_kafka.client.delivery import Delivery
from spark_ordered_kafka.client.joining import TIMEOUT, fetch_position
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.errors import ConfigError, UnavailableError
from spark_ordered_kafka.kafka.clients import log_range
from spark_ordered_kafka.kafka.values import PartitionId


class Moves:
    """What the application does to the positions of its partitions.

    Args:
        consumer: librdkafka's.
        topics: the progress of the current assignment, by topic.
        delivery: what was fetched and not delivered.
        commits: commits of the assignment.
        fetch_from: lets librdkafka fetch from where each partition was received to.
        open_gates: looks how far partitions of topics may be read.

    Attributes:
        paused: partitions that the application has paused, those of others included, which may come back.
        wanted: where to begin in partitions whose start is not known yet.
    """

    def __init__(
        self,
        consumer: Consumer,
        topics: Mapping[str, TopicProgress],
        delivery: Delivery,
        commits: Commits,
        fetch_from: Callable[[], None],
        open_gates: Callable[[Collection[str]], None],
    ) -> None:
        self.paused: set[PartitionId] = set()
        self._consumer = consumer
        self._topics = topics
        self._delivery = delivery
        self._commits = commits
        self._fetch_from = fetch_from
        self._open_gates = open_gates
        self.wanted: dict[PartitionId, int] = {}

    def clear(self) -> None:
        """The partitions are not assigned any more."""
        self.wanted.clear()

    def settled(self) -> None:
        """The start of the partitions is known by now: go to where the application wants them.

        Raises as :meth:`seek`, and again at the next call, until the application seeks the partition elsewhere.
        """
        for (name, p), offset in list(self.wanted.items()):
            self._move(name, p, offset)
            del self.wanted[name, p]

    def pause(self, tps: Iterable[PartitionId]) -> None:
        """Deliver nothing of these partitions until :meth:`resume`."""
        wanted = set(tps)
        self.paused |= wanted
        self._stop(tp for tp in wanted if self._is_settled(tp))

    def resume(self, tps: Iterable[PartitionId]) -> None:
        """Deliver of these partitions again, as far as the gate is open."""
        for tp in set(tps) & self.paused:
            self.paused.discard(tp)
            if self._is_settled(tp):
                progress = self._topics[tp[0]].own[tp[1]]
                progress.stopped = False
                if not progress.paused:
                    self.fetch_again(tp)

    def fetch_again(self, tp: PartitionId) -> None:
        """Let librdkafka fetch a paused partition again, unless the application has paused it, too."""
        if tp in self.paused:
            return
        try:
            # In this order: otherwise it would first fetch from where it was stopped, and meet the end (D-098).
            self._consumer.seek(fetch_position(*tp, self._topics[tp[0]].own[tp[1]]))
            self._consumer.resume([TopicPartition(*tp)])
        except KafkaException:
            # Of a partition that is not being fetched, such as one without a leader.
            self._fetch_from()

    def assigned(self) -> None:
        """Librdkafka was given the partitions anew: those that are paused have to be paused again."""
        stopped = [
            TopicPartition(name, p)
            for name, topic in self._topics.items()
            for p, progress in topic.own.items()
            if progress.stopped
        ]
        if stopped:
            self._consumer.pause(stopped)

    def begin_at(self, tp: PartitionId, offset: int) -> None:
        """As :meth:`seek`, of a partition whose start is not known yet."""
        self.wanted[tp] = offset

    def seek(self, name: str, partition: int, offset: int) -> None:
        """Deliver the record at ``offset`` next, or the first one behind it. See :meth:`OrderedConsumer.seek`."""
        self._move(name, partition, offset)
        self.wanted.pop((name, partition), None)

    def _is_settled(self, tp: PartitionId) -> bool:
        return tp[0] in self._topics and tp[1] in self._topics[tp[0]].own

    def _stop(self, tps: Iterable[PartitionId]) -> None:
        stopped = list(tps)
        self._delivery.drop(stopped)
        for name, p in stopped:
            progress = self._topics[name].own[p]
            progress.forget_pending()
            progress.stopped = True
        if stopped:
            self._consumer.pause([TopicPartition(*tp) for tp in stopped])

    def _move(self, name: str, partition: int, wanted: int) -> None:
        topic = self._topics[name]
        if self._commits.transactions.are_under_way():
            raise UnavailableError(
                f"a transaction with offsets of {name!r} is being committed: wait for commit(), then seek"
            )
        offset = self._offset(topic, name, partition, wanted)
        progress = topic.own[partition]
        if offset == progress.position:
            return
        overtaken = topic.overtaken(partition, offset)
        if overtaken:
            raise ConfigError("partition", f"{name}-{partition} at {offset}", _advice(topic, name, overtaken))
        if offset < progress.committed.offset:
            # Other members, and the one that gets the partition next, go by what is committed.
            self._commits.take_back(name, partition, offset)
        for p in topic.own:
            self._delivery.drop([(name, p)])
        topic.move(partition, offset)
        self._fetch_from()
        self._open_gates([name])

    def _offset(self, topic: TopicProgress, name: str, partition: int, wanted: int) -> int:
        if wanted == OFFSET_STORED:
            return topic.own[partition].committed.offset
        low, high = log_range(self._consumer, name, partition, TIMEOUT)
        low = min(max(low, topic.layouts.history.first_offset(partition)), high)
        named = {OFFSET_BEGINNING: low, OFFSET_END: high}
        offset = named.get(wanted, wanted)
        if not low <= offset <= high:
            expected = (
                f"an offset from {low} to {high}, which the log has, or OFFSET_BEGINNING, _END or _STORED"
            )
            raise ConfigError("partition", f"{name}-{partition} at {wanted}", expected)
        return offset


def _advice(topic: TopicProgress, name: str, overtaken: Mapping[int, int]) -> str:
    shown = ", ".join(f"{name}-{p} to {offset}" for p, offset in sorted(overtaken.items()))
    others = [p for p in overtaken if p not in topic.own]
    why = "later records of its keys were read from other partitions, so its own would come out of order"
    if others:
        return (
            f"{why}; members of the group have {', '.join(f'{name}-{p}' for p in sorted(others))}: seek while one member"
            " has all partitions, or begin with a new group"
        )
    return f"{why}: seek these first, in this order: {shown}"


def explicit(partitions: Iterable[TopicPartition]) -> dict[PartitionId, int]:
    """The partitions that have an offset to begin at."""
    return {(one.topic, one.partition): one.offset for one in partitions if one.offset != OFFSET_INVALID}
