"""What one topic's layouts and logs were at one moment, and whether two such moments are of one topic: values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from spark_ordered_kafka.client.layout_answers import LayoutHistoryView
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.kafka.ranges import Reached, TopicLog
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.routing import Routing, known_hash


@dataclass(frozen=True)
class TopicLayouts:
    """What the controller says of a topic. ``ordered``: whether writers are held to the newest layout.

    ``routings[i]`` says where the keys of the history's ``layouts[i]`` belong; None for one that writers were not held to.
    ``leader_epochs`` has by partition the leader epoch that the newest layout's start was read under, where it is known.
    ``adoptions``: how often the topic was released and adopted again since this process knows it; its layouts began anew.
    """

    topic: str
    topic_id: str
    history: LayoutHistory
    routings: tuple[Routing | None, ...]
    leader_epochs: tuple[int, ...] = ()
    adoptions: int = 0

    @classmethod
    def of(cls, view: LayoutHistoryView, adoptions: int) -> TopicLayouts:
        """As the controller has answered. Raises ConfigError for a hash that this version does not know."""
        hash_name, initial = known_hash(view.topic, view.hash), view.initial_partition_count
        routings = (
            Routing(hash_name, initial, one.undeleted_partition_count) if one.ordered_delivery else None
            for one in view.layouts
        )
        history, leader_epochs = layout_history(view), tuple(view.layouts[-1].leader_epochs)
        return cls(view.topic, view.topic_id, history, tuple(routings), leader_epochs, adoptions)

    @property
    def ordered(self) -> bool:
        """Whether the records written now are in order (``ordered_delivery``)."""
        return self.routings[-1] is not None

    def routing(self, epoch: int) -> Routing | None:
        """Where the keys of ``epoch`` belong, if its writers were held to it."""
        return self.routings[epoch - self.history.first_epoch]

    def hands_over(self, epoch: int) -> bool:
        """Whether ``epoch`` has its keys handed over in order: its writers were held to it, and the topic is ordered now."""
        return self.ordered and self.routing(epoch) is not None

    @property
    def removed(self) -> range:
        """The partitions that a shrink removed, which no ordered writer writes to."""
        return range(self.history.current.count, self.history.partition_count)

    @property
    def reached(self) -> dict[int, Reached]:
        """Log ends that the newest layout proves: its starts."""
        starts = self.history.current.starts
        return {
            p: Reached(start, epoch)
            for p, (start, epoch) in enumerate(zip(starts, self.leader_epochs, strict=False))
        }

    def until(self, epoch: int) -> TopicLayouts:
        """As it was when ``epoch`` was the newest layout; of one that was folded the first layout alone."""
        history = self.history.until(epoch)
        if history is self.history:
            return self
        routings = self.routings[: len(history.layouts)]
        return replace(self, history=history, routings=routings, leader_epochs=())

    def may_hold(self, partition: int, start: int, end: int) -> bool:
        """Whether ordered writers can have written offsets ``[start, end)`` of a partition.

        Under a layout that they are held to, a partition beyond its count gets tombstones of a compacted topic at most.
        """
        if start < min(end, self.history.first_offset(partition)):
            return True
        return any(
            self.routing(epoch) is None or partition < self.history.count(epoch)
            for epoch, _, _ in self.history.segments(partition, start, end)
        )


@dataclass(frozen=True)
class TopicSnapshot:
    """A topic's log ranges, taken first, and its layouts, validated after.

    Everything below ``ends`` was written under one of the layouts, and no end lies before the start of the newest one, but
    of a log that has been truncated. ``leader_epochs`` has the leader epoch that a partition's end was read under, if known.

    ``absent`` are removed partitions without a leader. Their logs are shown as empty, at the start of the newest layout:
    see :meth:`TopicDirectory.require`.
    """

    layouts: TopicLayouts
    log_starts: Mapping[int, int]
    ends: Mapping[int, int]
    leader_epochs: Mapping[int, int]
    absent: frozenset[int] = frozenset()

    @classmethod
    def of(cls, layouts: TopicLayouts, log: TopicLog) -> TopicSnapshot:
        """Raises DataLossError when the log is of another topic of that name."""
        if log.topic_id != layouts.topic_id:
            raise DataLossError(
                f"topic {layouts.topic!r} was deleted and created again: Kafka has the id {log.topic_id}, the"
                f" controller manages {layouts.topic_id}; adopt it to read it"
            )
        absent = frozenset(layouts.removed) - log.ends.keys()
        empty = {p: layouts.history.current.start(p) for p in absent}
        return cls(layouts, {**log.starts, **empty}, {**log.ends, **empty}, log.leader_epochs, absent)

    @cached_property
    def starts(self) -> Mapping[int, int]:
        """Where reading may begin: the log starts, or the first layout's where that is later.

        Layouts are folded once the logs begin behind them. Only a broker that was killed may show earlier log starts again,
        with records that were deleted, and whose epoch is not known any more (D-008).
        """
        first = self.history.layouts[0]
        return {p: max(at, min(first.start(p), self.ends[p])) for p, at in self.log_starts.items()}

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.layouts.topic

    @property
    def topic_id(self) -> str:
        """Kafka's id of the topic: another one after the topic was deleted and created again."""
        return self.layouts.topic_id

    @property
    def history(self) -> LayoutHistory:
        """The layout history."""
        return self.layouts.history


def layout_history(view: LayoutHistoryView) -> LayoutHistory:
    """The history that the controller has answered, from the first epoch on that was not folded."""
    return LayoutHistory(
        view.initial_partition_count,
        [Layout(one.epoch, one.undeleted_partition_count, one.starts) for one in view.layouts],
    )


def require_same(before: TopicLayouts, now: TopicLayouts) -> None:
    """Raises DataLossError when the topic was created again, or released and adopted again, which begins its layouts anew."""
    if now.topic_id != before.topic_id:
        raise DataLossError(
            f"topic {now.topic!r} was deleted and created again. Start again; what was committed of the old one does not count,"
            " so auto.offset.reset says where the new one is read from"
        )
    if now.adoptions != before.adoptions:
        raise adopted_again(now.topic)


def adopted_again(topic: str) -> DataLossError:
    """The error of a reader that knows layouts which do not count any more."""
    return DataLossError(
        f"topic {topic!r} was released from management and adopted again, or its znodes are those of an older backup: its layouts"
        " begin anew. Start again; what was not read before has no order"
    )


def origin_of(view: LayoutHistoryView) -> tuple[str, str, int]:
    """What all layouts of one life of a topic have in common."""
    return view.topic_id, view.hash, view.initial_partition_count


def is_adopted_again(known: LayoutHistoryView, answer: LayoutHistoryView) -> bool:
    """Whether both are of one topic, and a layout of theirs is not the same (D-256)."""
    if answer.topic_id != known.topic_id:
        return False
    committed = {one.epoch: one.committed_at for one in known.layouts}
    return origin_of(answer) != origin_of(known) or any(
        committed.get(one.epoch, one.committed_at) != one.committed_at for one in answer.layouts
    )


def with_earlier(known: LayoutHistoryView | None, answer: LayoutHistoryView) -> LayoutHistoryView:
    """``answer`` with the layouts before it that are ``known``, folded by the controller or not.

    Where those between the two were folded meanwhile, it stands alone: nothing is left of what was known.
    """
    first = answer.layouts[0].epoch
    if known is None or known.topic_id != answer.topic_id or known.layouts[-1].epoch < first - 1:
        return answer
    earlier = [one for one in known.layouts if one.epoch < first]
    return replace(answer, layouts=[*earlier, *answer.layouts])
