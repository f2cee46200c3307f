"""Records on their way from librdkafka to the application: held until they may be delivered, then in runs."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain

from confluent_kafka import Message

from spark_ordered_kafka.client.counts import ReaderCounts
from spark_ordered_kafka.client.progress import TopicProgress, progress_of
from spark_ordered_kafka.kafka.misrouted import MisroutedFilter
from spark_ordered_kafka.kafka.segments import Segment, offset_of, tp_of
from spark_ordered_kafka.kafka.values import PartitionId
from spark_ordered_kafka.ordering.handover import LastRead

OnOpened = Callable[[str, int], None]
"""Called with topic and partition before the first record is delivered whose key may be new there."""


class _Run:
    """Messages of one partition and, once they may be delivered, of one layout epoch; ``epoch`` None: an event.

    Those before ``at`` are delivered already.
    """

    def __init__(self, tp: PartitionId, messages: list[Message], epoch: int | None = None) -> None:
        self.tp = tp
        self.messages = messages
        self.epoch = epoch
        self.at = 0

    def __len__(self) -> int:
        return len(self.messages) - self.at


class Delivery:
    """Keeps the order of each partition; delivers nothing beyond a partition's limit.

    ``topics``: the topics of the current assignment, by name; whatever is of none of them is dropped.
    """

    def __init__(self, topics: Mapping[str, TopicProgress], misrouted: MisroutedFilter) -> None:
        self._topics = topics
        self._filter = misrouted
        self._held: deque[_Run] = deque()
        self._ready: deque[_Run] = deque()
        self.ready = 0
        self.held = 0
        self.counts = ReaderCounts()

    def receive(self, records: list[Message]) -> None:
        """Take records of one partition from librdkafka."""
        tp = tp_of(records[0])
        progress = progress_of(self._topics, *tp)
        if progress is None or progress.paused or progress.stopped:
            return
        progress.receive(offset_of(records[0]), offset_of(records[-1]), len(records))
        self._hold(_Run(tp, records))

    def event(self, message: Message) -> None:
        """Take an event to be delivered after what was received before it, such as the end of a partition."""
        self._hold(_Run(tp_of(message), [message]))

    def sort(self) -> set[PartitionId]:
        """Make ready what may be delivered; the partitions whose next record is beyond a closed gate.

        What is beyond the gate is dropped, to be fetched again; what lies in a layout that is not known yet is kept.
        """
        closed: dict[PartitionId, int] = {}
        held, self._held, self.held = self._held, deque(), 0
        unknown: set[PartitionId] = set()
        for run in held:
            progress = progress_of(self._topics, *run.tp)
            if progress is None or run.tp in closed:
                continue
            if run.tp in unknown:
                self._hold(run)
                continue
            if offset_of(run.messages[-1]) < progress.limit or self._is_event(run):
                self._make_ready(run)
                continue
            cut = bisect_left(run.messages, progress.limit, key=offset_of)
            if cut > 0:
                self._make_ready(_Run(run.tp, run.messages[:cut]))
                run = _Run(run.tp, run.messages[cut:])
            first = offset_of(run.messages[0])
            if first < progress.validated:
                closed[run.tp] = first
            else:
                unknown.add(run.tp)
                self._hold(run)
        self._close(closed)
        return set(closed)

    def close_unknown(self) -> set[PartitionId]:
        """Drop what lies in layouts that are not known yet, to be fetched again; the partitions that it was of."""
        closed: dict[PartitionId, int] = {}
        for run in self._held:
            closed.setdefault(run.tp, offset_of(run.messages[0]))
        self._held, self.held = deque(), 0
        self._close(closed)
        return set(closed)

    def _close(self, closed: Mapping[PartitionId, int]) -> None:
        for tp, dropped in closed.items():
            self.counts.blocks[tp[0]] += 1
            ready = sum(len(run) for run in self._ready if run.tp == tp and run.epoch is not None)
            self._topics[tp[0]].own[tp[1]].close_gate(ready, dropped)

    def take(self, count: int, on_opened: OnOpened) -> list[Message]:
        """Up to ``count`` messages, which count as delivered. When ``on_opened`` raises, none does."""
        wanted, runs = count, 0
        for run in self._ready:
            if wanted <= 0:
                break
            self._open(run, on_opened)
            wanted -= len(run)
            runs += 1
        # What is one run is not copied: each copy touches every message.
        taken = self._deliver(self._ready[0], count) if runs else []
        for _ in range(1, runs):
            taken += self._deliver(self._ready[0], count - len(taken))
        return taken

    def drop(self, tps: Collection[PartitionId]) -> None:
        """Forget what is of these partitions."""
        self._held = deque(run for run in self._held if run.tp not in tps)
        self._ready = deque(run for run in self._ready if run.tp not in tps)
        self.held = sum(map(len, self._held))
        self.ready = sum(map(len, self._ready))

    def held_topics(self) -> set[str]:
        """Topics with records in layouts that are not known yet."""
        return {run.tp[0] for run in self._held}

    def _hold(self, run: _Run) -> None:
        self._held.append(run)
        self.held += len(run)

    @staticmethod
    def _is_event(run: _Run) -> bool:
        return run.messages[0].error() is not None

    def _make_ready(self, run: _Run) -> None:
        pieces = [run] if self._is_event(run) else list(self._judged(run))
        self._ready.extend(pieces)
        self.ready += sum(map(len, pieces))

    def _judged(self, run: _Run) -> Iterator[_Run]:
        """The run by epochs, without the tombstones that writers of a compacted topic put into other partitions."""
        name, partition = run.tp
        layouts = self._topics[name].layouts
        first, last = offset_of(run.messages[0]), offset_of(run.messages[-1]) + 1
        for epoch, start, end in layouts.history.segments(partition, first, last):
            messages = run.messages
            if (start, end) != (first, last):
                low, high = (bisect_left(messages, at, key=offset_of) for at in (start, end))
                messages = messages[low:high]
            segment = Segment(name, partition, epoch, start, end, layouts.routing(epoch))
            kept = self._filter.judge_messages(messages, segment)
            self._topics[name].own[partition].pending -= len(messages) - len(kept)
            if kept:
                yield _Run(run.tp, kept, epoch)

    def _open(self, run: _Run, on_opened: OnOpened) -> None:
        if run.epoch is None:
            return
        topic = self._topics[run.tp[0]]
        progress = topic.own[run.tp[1]]
        if run.epoch > progress.opened or progress.is_let_go:
            if progress.is_let_go or topic.opens(run.tp[1], run.epoch):
                on_opened(*run.tp)
            progress.opened, progress.is_let_go = max(progress.opened, run.epoch), False

    def _deliver(self, run: _Run, most: int) -> list[Message]:
        messages = run.messages
        if run.at > 0 or len(messages) > most:
            messages = messages[run.at : run.at + most]
        run.at += len(messages)
        self.ready -= len(messages)
        if len(run) == 0:
            self._ready.popleft()
        if run.epoch is not None:
            progress = self._topics[run.tp[0]].own[run.tp[1]]
            progress.position = offset_of(messages[-1]) + 1
            leader_epoch = messages[-1].leader_epoch()
            progress.last = None if leader_epoch is None else LastRead(progress.position, leader_epoch)
            progress.pending -= len(messages)
            progress.following = self._following(run)
            progress.dirty = True
            self.counts.records[run.tp[0]] += len(messages)
        return messages

    def _following(self, run: _Run) -> int:
        """The offset of the partition's next record in hand; 0 if there is none."""
        if run.at < len(run.messages):
            return offset_of(run.messages[run.at])
        for other in chain(self._ready, self._held):
            if other.tp == run.tp and not self._is_event(other):
                return offset_of(other.messages[other.at])
        return 0
