"""When an ordered consumer asks for the layouts of what it has fetched, and what it knows of its topics then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import Consumer, TopicPartition

from spark_ordered_kafka.client.delivery import Delivery
from spark_ordered_kafka.client.joining import report_lost
from spark_ordered_kafka.client.options import Reset
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.client.topic_layouts import require_same
from spark_ordered_kafka.client.topics import TopicDirectory

# Seconds between two questions for layouts: at least this, and this many times what one takes (D-097). One for several topics
# takes longer, and stands for as many questions: it may come as early as one for the first few of them (D-474).
_LEAST_INTERVAL, _SHARE, _FEW = 0.05, 20, 8
_IDLE_INTERVAL = 1.0
# Records in hand beyond which the layout is asked for at once.
_MOST_HELD = 10_000


class LayoutLooks:
    """Looks at the layouts of topics whose records are held, and at those of all topics from time to time.

    Args:
        consumer: librdkafka's.
        directory: layouts of topics.
        topics: the progress of the current assignment, by topic.
        delivery: what was fetched and not delivered.
        reset: ``auto.offset.reset``.
        fetch_from: lets librdkafka fetch from where each partition was received to.
        on_looked: called with the topics, and whether the layouts of any are newer than before.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        consumer: Consumer,
        directory: TopicDirectory,
        topics: Mapping[str, TopicProgress],
        delivery: Delivery,
        reset: Reset,
        fetch_from: Callable[[], None],
        on_looked: Callable[[Collection[str], bool], None],
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._directory = directory
        self._topics = topics
        self._delivery = delivery
        self._reset = reset
        self._fetch_from = fetch_from
        self._on_looked = on_looked
        self._clock = clock
        self._held_at = self._all_at = clock()

    # -- when ---------------------------------------------------------------------------------------------------

    def wait(self, longest: float) -> float:
        """How long to wait for records, so that none is held for longer than needed."""
        return min(longest, max(0.0, self._held_at - self._clock())) if self._delivery.held else longest

    def must_look_at_held(self, now: float) -> bool:
        """Whether it is time for :meth:`look_at_held`."""
        held = self._delivery.held
        return bool(held) and (now >= self._held_at or held >= _MOST_HELD)

    def must_look_at_all(self, now: float) -> bool:
        """Whether it is time for :meth:`look_at_all`."""
        return now >= self._all_at

    def put_off(self, until: float) -> None:
        """A server does not answer."""
        self._held_at = until
        self._all_at = until + _IDLE_INTERVAL

    def dropped_held(self) -> None:
        """Nothing in hand asks for the layouts any more: the look at all topics comes as early."""
        self._all_at = self._held_at

    # -- looks --------------------------------------------------------------------------------------------------

    def look_at_held(self) -> None:
        """Ask for the layouts of what was fetched by now."""
        self._held_at = self._look(self._delivery.held_topics(), _LEAST_INTERVAL)

    def look_at_all(self) -> None:
        """Ask for the layouts of all topics, which holds up no records of one."""
        self._all_at = self._look(set(self._topics), _IDLE_INTERVAL)

    def _look(self, names: Iterable[str], interval: float) -> float:
        """When to look again."""
        begun, asked = self._clock(), list(names)
        # Before any is asked for.
        ends = {
            name: {p: self.seen_end(name, p, progress) for p, progress in self._topics[name].own.items()}
            for name in asked
        }
        has_newer = False
        for name, layouts in zip(asked, self._directory.refresh_all(asked), strict=True):
            topic = self._topics[name]
            require_same(topic.layouts, layouts)
            for p, end in ends[name].items():
                topic.own[p].validated = max(topic.own[p].validated, end)
            if layouts is not topic.layouts:
                has_newer = True
                topic.follow(layouts)
                self.skip_folded(name)
        self._on_looked(asked, has_newer)
        now = self._clock()
        return now + max(interval, _SHARE * (now - begun) / max(1, min(_FEW, len(asked))))

    def skip_folded(self, name: str) -> None:
        """Move positions before the first known layout to its start: what lay there was deleted (D-008)."""
        topic = self._topics[name]
        missed = {
            p: begin
            for p, progress in topic.own.items()
            if progress.reached < (begin := topic.layouts.history.first_offset(p))
        }
        if not missed:
            return
        self._delivery.drop([(name, p) for p in missed])
        for p, begin in missed.items():
            progress = topic.own[p]
            report_lost(name, p, progress.position, begin, self._reset)
            progress.forget_pending()
            progress.received, progress.dropped = begin, None
        self._fetch_from()

    def seen_end(self, topic: str, partition: int, progress: Progress) -> int:
        """An offset that the log has reached for certain."""
        found = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
        return max(progress.received, progress.end, -1 if found is None else found[1])
