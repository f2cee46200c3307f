"""What the logs have lost of what an ordered consumer or its group still needs, and the positions behind that."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import Consumer, Message

from spark_ordered_kafka.client.delivery import Delivery
from spark_ordered_kafka.client.joining import TIMEOUT, report_lost
from spark_ordered_kafka.client.layout_answers import PositionCheck
from spark_ordered_kafka.client.options import Reset
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.kafka.attempts import retriable_failure
from spark_ordered_kafka.kafka.clients import leader_epochs, log_range, refresh_metadata
from spark_ordered_kafka.kafka.segments import offset_of, tp_of
from spark_ordered_kafka.kafka.values import PartitionId

_LOG = logging.getLogger(__name__)

INTERVAL = 10.0
"""Seconds between two looks for what was lost, and for which a log has to end too early before that is believed."""
_RETRY_INTERVAL = 0.5
# Beyond so many, to ask the controllers about each takes longer than to ask all leaders, whose answers wait for those to the
# fetches before (fetch.wait.max.ms); and for how many seconds.
_FEW_TOPICS, _EPOCHS_TIMEOUT = 8, 3.0


class Losses:
    """Finds out why what is waited for does not come, and follows ``auto.offset.reset``: ``error`` raises DataLossError.

    With any other value what is gone is skipped. Of a log that was truncated the rest counts as read, so that no member
    waits for it; what is written in its place is read (D-099).

    ``look_at`` is when to call :meth:`look` again, ``out_of_range`` has the partitions whose position librdkafka rejects.

    Args:
        consumer: librdkafka's.
        directory: layouts of topics, and the controller.
        topics: the progress of the current assignment, by topic.
        delivery: what was fetched and not delivered.
        reset: ``auto.offset.reset``.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        consumer: Consumer,
        directory: TopicDirectory,
        topics: Mapping[str, TopicProgress],
        delivery: Delivery,
        reset: Reset,
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._directory = directory
        self._topics = topics
        self._delivery = delivery
        self._reset = reset
        self._clock = clock
        self.look_at = clock() + INTERVAL
        self.out_of_range: set[PartitionId] = set()
        self._range_at = 0.0
        # Not known to hold what was read of them before.
        self._unchecked: set[PartitionId] = set()
        # Since when a log ends before what was read of it; what was waited for at the last look.
        self._short_since: dict[PartitionId, float] = {}
        self._waits: dict[str, dict[int, list[tuple[int, int]]]] = {}

    # -- what was read before -----------------------------------------------------------------------------------

    def assigned(self) -> None:
        """Librdkafka was given all partitions anew, and looks for truncations only of what it fetches from here on."""
        self._unchecked = {
            (name, p)
            for name, topic in self._topics.items()
            for p, progress in topic.own.items()
            if progress.last is not None
        }

    def received(self, record: Message) -> None:
        """A record has come, which may show that nothing was lost of what was read before: then nothing is asked (D-475)."""
        if not self._unchecked or (tp := tp_of(record)) not in self._unchecked:
            return
        last = self._progress(tp).last
        if last is not None and last.is_kept_by(offset_of(record), record.leader_epoch()):
            self._unchecked.discard(tp)

    def has_begun(self) -> bool:
        """Whether there is a partition for :meth:`check_begun`."""
        return bool(self._unchecked) and bool(self._begun())

    def check_begun(self) -> bool:
        """Go back to where logs were truncated before librdkafka was given them; whether any was (D-375).

        To be called before anything of a partition is delivered, and once its leader has answered: the other partitions are
        read while one has no leader.
        """
        begun = self._begun()
        asks_leaders = len({name for name, _ in begun}) > _FEW_TOPICS
        doubtful: dict[str, list[int]] = defaultdict(list)
        for name, p in self._under_other_leaders(begun) if asks_leaders else begun:
            doubtful[name].append(p)
        # All topics are asked about before anything is moved: where that fails, librdkafka is not given what was moved.
        found = {
            (name, p): end
            for name, partitions in doubtful.items()
            for p, end in self._truncated(name, partitions).items()
        }
        for (name, p), end in found.items():
            progress = self._progress((name, p))
            high = max(progress.received, progress.end)
            self._delivery.drop([(name, p)])
            self._report_truncated(name, p, end, progress.position)
            self._topics[name].cut(p, end, high)
        self._unchecked -= set(begun)
        return bool(found)

    def _begun(self) -> list[PartitionId]:
        """The unchecked partitions of which something has come."""

        def has_begun(progress: Progress) -> bool:
            return bool(progress.pending) or progress.end >= 0

        return [tp for tp in sorted(self._unchecked) if has_begun(self._progress(tp))]

    def _under_other_leaders(self, tps: Collection[PartitionId]) -> list[PartitionId]:
        """Those without the leader epoch that their last record was written under: a log is truncated by elections only.

        Where leaders do not answer, all of them.
        """
        epochs: dict[PartitionId, int | None] = {}
        retriable_failure(lambda: epochs.update(leader_epochs(self._consumer, tps, _EPOCHS_TIMEOUT)))
        return [
            tp
            for tp in tps
            if (last := self._progress(tp).last) is not None and epochs.get(tp) != last.leader_epoch
        ]

    def _progress(self, tp: PartitionId) -> Progress:
        return self._topics[tp[0]].own[tp[1]]

    # -- positions out of range ---------------------------------------------------------------------------------

    def must_find_ranges(self) -> bool:
        """Whether it is time for :meth:`find_ranges`."""
        return bool(self.out_of_range) and self._clock() >= self._range_at

    def find_ranges(self) -> bool:
        """Move positions that a log does not hold to its start, or back to its end; whether any is to be fetched from."""
        self._range_at = self._clock() + _RETRY_INTERVAL
        found = {tp for tp in sorted(self.out_of_range) if self.find_range(*tp)}
        self.out_of_range -= found
        return bool(found)

    def find_range(self, name: str, partition: int) -> bool:
        """Move a position that the log does not hold into it; False: it is not known yet where to."""
        topic, tp = self._topics[name], (name, partition)
        progress = topic.own[partition]
        # A former leader may answer: the brokers are asked first who leads.
        refresh_metadata(self._consumer, name, TIMEOUT)
        low, high = log_range(self._consumer, name, partition, TIMEOUT)
        # Whatever it is, it is fetched again from where it is delivered to.
        self._delivery.drop([tp])
        progress.forget_pending()
        if progress.received < low:
            if topic.layouts.may_hold(partition, progress.received, low):
                report_lost(name, partition, progress.received, low, self._reset)
            progress.skip_deleted(low)
        elif (end := self._truncated(name, [partition]).get(partition)) is not None:
            self._report_truncated(name, partition, end, progress.position)
            topic.cut(partition, end, high)
        elif progress.received <= high:
            topic.read_anew(partition, low)
        elif self._clock() < self._since(tp, progress, high) + INTERVAL:
            return False
        else:
            self._report_truncated(name, partition, high, progress.received)
            topic.cut(partition, high, high)
        self._short_since.pop(tp, None)
        return True

    def forget(self, tps: Collection[PartitionId]) -> None:
        """These partitions are not assigned any more."""
        self.out_of_range.difference_update(tps)
        self._unchecked.difference_update(tps)
        for tp in tps:
            self._short_since.pop(tp, None)

    def _truncated(self, name: str, partitions: Collection[int]) -> dict[int, int]:
        """Where logs end for those that read them under the leader of the last record, by partition, if that is before it.

        They may have grown again beyond the position, so that offsets alone do not show it (D-364).
        """
        checks = [
            PositionCheck(p, last.offset, last.leader_epoch)
            for p in partitions
            if (last := self._progress((name, p)).last) is not None
        ]
        if not checks:
            return {}
        found = self._directory.client.truncations(name, checks, [])
        return {one.partition: one.end_offset for one in found.truncations if one.layout_epoch is None}

    def _since(self, tp: PartitionId, progress: Progress, high: int) -> float:
        if tp not in self._short_since:
            self._short_since[tp] = self._clock()
            _LOG.warning(
                "%s-%d ends at offset %d, but the group has read to %d: waiting %g s for a leader that has it",
                *tp,
                high,
                progress.received,
                INTERVAL,
            )
        return self._short_since[tp]

    # -- boundaries that will not be reached --------------------------------------------------------------------

    def look(self) -> bool:
        """Log what is waited for, and give up what was lost; whether anything was. To be called at ``look_at``."""
        self.look_at = self._clock() + INTERVAL
        given_up = False
        for name, topic in self._topics.items():
            awaited = topic.awaited()
            short = {p for p, progress in topic.own.items() if _is_short(topic, p, progress)}
            if awaited or short:
                given_up |= self._give_up(name, short, awaited)
            self._report_waiting(name, topic)
        return given_up

    def _give_up(self, name: str, short: Collection[int], awaited: Collection[int]) -> bool:
        """Count as read what was lost before the boundaries of partitions that end before them."""
        # The leaders of all other partitions may be away.
        found = self._directory.client.truncations(name, partitions=sorted({*short, *awaited})).truncations
        # By partition, the last of the layouts whose start is gone.
        lost = {
            one.partition: one
            for one in sorted(found, key=lambda one: one.offset)
            if one.layout_epoch is not None
        }
        given_up = False
        for p, one in lost.items():
            # In an awaited partition the owner skips what is lost.
            if p in short or (p in awaited and self._reset == "error"):
                self._report_truncated(name, p, one.end_offset, one.offset)
            if p in short:
                self._topics[name].own[p].lose(one.offset)
                given_up = True
        return given_up

    def _report_truncated(self, name: str, partition: int, end: int, before: int) -> None:
        lost = f"offsets {end} to {before - 1} of {name}-{partition}, which are waited for or were read, were lost"
        if self._reset == "error":
            raise DataLossError(
                f"{lost} with their log's end (an unclean leader election, or a disk): set auto.offset.reset to earliest"
                " to continue without them"
            )
        _LOG.warning("%s with their log's end; going on without them", lost)

    def _report_waiting(self, name: str, topic: TopicProgress) -> None:
        """Warn of each partition that waits, if all waited for the same at the last call."""
        waits, before = topic.waits(), self._waits.get(name)
        self._waits[name] = waits
        if waits != before:
            return
        for p, needed in sorted(waits.items()):
            shown = ", ".join(
                f"{name}-{q} to be processed up to offset {offset}" for q, offset in needed[:10]
            )
            _LOG.warning("%s-%d waits for %s", name, p, shown)


def _is_short(topic: TopicProgress, partition: int, progress: Progress) -> bool:
    """Whether the log ends before the newest layout begins."""
    start = topic.layouts.history.current.start(partition)
    return progress.is_at_end and max(progress.reached, progress.lost_to) < start
