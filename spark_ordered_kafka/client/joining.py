"""Where an ordered consumer begins in the partitions that its group has assigned to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tenacity import (
    Retrying,
    retry_base,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential,
)

from spark_ordered_kafka.client.options import Reset
from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress, oldest_since, opened_before
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.errors import (
    DataLossError,
    ErrorCode,
    OrderedKafkaError,
    RebalancedError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.clients import is_end_of_client, translate, translating
from spark_ordered_kafka.kafka.ranges import TopicLog
from spark_ordered_kafka.ordering import LayoutHistory, blockers
from spark_ordered_kafka.ordering.handover import LastRead, Release, released

TIMEOUT = 10.0
"""Seconds for the group's coordinator to read or take offsets."""

# Seconds for one to answer that did not the last time: polls go on meanwhile.
_SILENT_TIMEOUT = 1.0
_UNUSED_PARTITION = 2**31 - 1
_ROUNDS = 5
# Kafka keeps the offsets of a commit as one batch, of at most max.message.bytes: 1 MB, unless that was changed.
_MOST_CLAIMS = 1000

# What a coordinator answers that has not taken the group over yet, or has given it away.
_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}

_LEFT = (
    "this consumer has given its place in the group up, as after max.poll.interval.ms without a poll, or a session without"
    " an answer of the group's coordinator, and takes it again with its next poll"
)

_LOG = logging.getLogger(__name__)


class GroupOffsets:
    """The committed offsets of a consumer's own group, ``is_member``: of which it is a member, too.

    ``has_ended``: the consumer does nothing any more, and a fresh one may take its place in the group again.
    """

    def __init__(
        self,
        consumer: Consumer,
        group: str,
        on_commit: Callable[..., object] | None = None,
        *,
        is_member: bool = True,
    ) -> None:
        self.is_member = is_member
        self.has_ended = False
        self._consumer = consumer
        self._group = group
        self._on_commit = on_commit
        self._patience = TIMEOUT

    def read(self, topic: str, topic_id: str | None, partitions: Collection[int]) -> dict[int, Release]:
        """What the group has committed, where it has, of the topic of that id (None: of any), or of an unknown one.

        Raises UnavailableError when its coordinator does not answer.
        """
        if not partitions:
            return {}
        with translating(f"reading the offsets of group {self._group!r}"):
            found = self._consumer.committed([TopicPartition(topic, p) for p in partitions], TIMEOUT)
        for one in found:
            if one.error is not None:
                raise translate(one.error, f"reading the offset of {topic}-{one.partition}")
        releases = {one.partition: release_of(one) for one in found if one.offset >= 0}
        # A member that does not know of a topic's deletion commits for the next one of its name.
        return {p: one for p, one in releases.items() if one.is_of(topic_id)}

    def commit(self, offsets: list[TopicPartition]) -> list[TopicPartition]:
        """Commit, once more where the coordinator moves.

        Raises RebalancedError when the group took the partitions, UnavailableError when its coordinator does not answer.
        """
        self._require_answer(offsets)
        return _retrying(TIMEOUT, retry_if_exception_type(UnavailableError))(self._commit, offsets)

    def _require_answer(self, offsets: list[TopicPartition]) -> None:
        """librdkafka's commit waits without an end for a coordinator that stands still, and not even Ctrl-C ends it (D-454)."""
        # One that no transaction has offsets of, whose end the answer would wait for.
        unused = [TopicPartition(one.topic, _UNUSED_PARTITION) for one in offsets[:1]]
        patience, self._patience = self._patience, _SILENT_TIMEOUT
        try:
            _retrying(patience, retry_if_exception(_is_moving))(self._consumer.committed, unused, patience)
        except KafkaException as error:
            self._report(error.args[0], offsets)
            raise translate(error.args[0], self._committing) from error
        self._patience = TIMEOUT

    def _commit(self, offsets: list[TopicPartition]) -> list[TopicPartition]:
        done, failed = self._ask_to_commit(offsets)
        self._report(failed, done if failed is None else offsets)
        if failed is not None:
            raise self._refused(failed)
        for one in done:
            if one.error is not None:
                raise translate(one.error, f"{self._committing}, {one.topic}-{one.partition}")
        return done

    def _ask_to_commit(self, offsets: list[TopicPartition]) -> tuple[list[TopicPartition], KafkaError | None]:
        if self.is_left():
            # For a static member Kafka would take it for a commit of another one, which ends librdkafka's client (D-499).
            return [], KafkaError(KafkaError.UNKNOWN_MEMBER_ID, _LEFT)
        try:
            return self._consumer.commit(offsets=offsets, asynchronous=False) or [], None
        except KafkaException as error:
            return [], error.args[0]

    def _refused(self, error: KafkaError) -> OrderedKafkaError:
        if not self.is_member and error.code() == KafkaError.UNKNOWN_MEMBER_ID:
            return RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {self._group!r} has members that subscribe, so partitions cannot be assigned by hand beside them:"
                " give those that are a group.id of their own",
            )
        return self.translate(error, self._committing)

    def translate(self, error: KafkaError, doing: str) -> OrderedKafkaError:
        """librdkafka's error as one of ours; ``doing`` completes "while ...".

        A client that has ended for good is a RequestError where another process has its place: a fresh one would take it
        back, for ever (D-363). Where the client had given its place up itself, it is retriable, and noted (D-499).
        """
        if not is_end_of_client(error):
            return translate(error, doing)
        if self.is_left():
            self.has_ended = True
            return RebalancedError(f"while {doing}: {_LEFT}: {error.str()}")
        why = "the group has no place for this consumer any more, as after another process joined with the same group.instance.id"
        return RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"while {doing}: {why}: {error.str()}")

    def is_left(self) -> bool:
        """Whether librdkafka has given its place in the group up, as when it did not get an answer for a session."""
        return self.is_member and not self._consumer.memberid()

    @property
    def _committing(self) -> str:
        return f"committing offsets to group {self._group!r}"

    def _report(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        # librdkafka calls it for asynchronous commits only.
        if self._on_commit is not None:
            self._on_commit(error, offsets)


def _retrying(seconds: float, retry: retry_base) -> Retrying:
    """Asks again for so long, and raises the last error."""
    wait = wait_exponential(0.05, max=0.5)
    return Retrying(stop=stop_after_delay(seconds), wait=wait, retry=retry, reraise=True)


def _is_moving(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _MOVING


def committable(topic: str, partition: int, release: Release) -> TopicPartition:
    """What librdkafka is to commit."""
    epoch = _leader_epoch(release.last)
    return TopicPartition(topic, partition, release.offset, release.metadata(), leader_epoch=epoch)


def fetch_position(topic: str, partition: int, progress: Progress) -> TopicPartition:
    """Where librdkafka is to fetch from. By the leader epoch it sees that the log was truncated meanwhile (D-400)."""
    return TopicPartition(topic, partition, progress.received, leader_epoch=_leader_epoch(progress.last))


def _leader_epoch(last: LastRead | None) -> int:
    """That of the last record before an offset; -1, librdkafka's word, where it is not known."""
    return -1 if last is None else last.leader_epoch


def release_of(one: TopicPartition) -> Release:
    """The inverse of :func:`committable`."""
    return Release.parse(one.offset, one.metadata, one.leader_epoch)


def report_lost(topic: str, partition: int, position: int, begin: int, reset: Reset) -> None:
    """Warn that ``[position, begin)`` is gone unread; raises DataLossError where ``auto.offset.reset`` is ``error``."""
    lost = f"offsets {position} to {begin - 1} of {topic}-{partition} are gone before they were read"
    if reset == "error":
        raise DataLossError(f"{lost} (set auto.offset.reset to earliest to continue without them)")
    _LOG.warning("%s; going on at offset %d", lost, begin)


class Joining:
    """Finds the start of assigned partitions, and claims it by a commit: what others wait for is then known to them."""

    def __init__(
        self, offsets: GroupOffsets, directory: TopicDirectory, reset: Reset, keeps_state: bool
    ) -> None:
        self._offsets = offsets
        self._directory = directory
        self._reset = reset
        self._keeps_state = keeps_state

    def join(
        self, layouts: TopicLayouts, partitions: Collection[int]
    ) -> tuple[TopicProgress, list[TopicPartition]]:
        """The progress of newly assigned partitions of a topic, whose layouts were asked for since they were assigned; and
        what is left to :meth:`claim` before anything is delivered.

        Raises:
            UnavailableError: a broker, the group's coordinator or the controller does not answer.
            RebalancedError: the assignment is out of date already.
            DataLossError: there is no offset to begin with, and ``auto.offset.reset`` is ``error``.
        """
        topic = layouts.topic
        for _ in range(_ROUNDS):
            everything = {*range(layouts.history.partition_count), *partitions}
            group = self._offsets.read(topic, layouts.topic_id, everything)
            since = oldest_since(group.values(), layouts.history.current.epoch)
            log = self._log(layouts, [p for p in partitions if p not in group], since)
            begun = {p: self._left(layouts, p, r.offset) for p, r in group.items() if p in partitions}
            begun |= self._starts(layouts, group, log, since)
            epoch = layouts.history.current.epoch
            known = {p: group.get(p, Release(0)) for p in begun}
            claims = {
                p: replace(known[p], offset=at, layout_epoch=epoch, since=since, topic_id=layouts.topic_id)
                for p, at in begun.items()
            }
            # An end that was taken under another layout than other members' ends leaves a gap inside a key (D-053).
            now = self._directory.refresh(topic) if self._reset == "latest" and log.ends else layouts
            if now is layouts:
                unclaimed = [
                    committable(topic, p, claim) for p, claim in claims.items() if group.get(p) != claim
                ]
                if self._reset == "latest":
                    # Who begins meanwhile takes it that this member's ends are of that later layout, too (D-053).
                    self.claim(unclaimed)
                    unclaimed = []
                own = {
                    p: Progress.starting(claim.offset, claim, opened_before(layouts, p, claim.offset))
                    for p, claim in claims.items()
                }
                return TopicProgress(layouts, own, group, since, self._keeps_state), unclaimed
            layouts = now
        raise UnavailableError(f"the layout of {topic!r} changed {_ROUNDS} times while its ends were read")

    def claim(self, offsets: list[TopicPartition]) -> None:
        """Commit what :meth:`join` has found, of all topics together; raises as :meth:`GroupOffsets.commit`."""
        for first in range(0, len(offsets), _MOST_CLAIMS):
            self._offsets.commit(offsets[first : first + _MOST_CLAIMS])

    def _log(self, layouts: TopicLayouts, partitions: Collection[int], since: int) -> TopicLog:
        topic = layouts.topic
        if not partitions:
            return TopicLog("", {}, {}, {})
        first = min(partitions)
        if self._reset == "error" and first < _count_at(layouts.history, since):
            raise DataLossError(
                f"the group has committed no offset of {topic!r}, partition {first}, and auto.offset.reset is error"
                " (set it to earliest or latest to begin there)"
            )
        log = self._directory.log(layouts, partitions)
        absent = set(partitions) - log.ends.keys()
        if self._reset != "latest":
            self._directory.require(layouts, absent, {})
        # No ordered writer has written behind the last start of a removed partition.
        begin = {p: layouts.history.current.start(p) for p in absent}
        return replace(log, starts={**log.starts, **begin}, ends={**log.ends, **begin})

    def _left(self, layouts: TopicLayouts, partition: int, position: int) -> int:
        """The position, or where the first known layout begins if that is later: what lay before it was deleted."""
        begin = layouts.history.first_offset(partition)
        if position < begin:
            report_lost(layouts.topic, partition, position, begin, self._reset)
        return max(position, begin)

    def _starts(
        self, layouts: TopicLayouts, group: Mapping[int, Release], log: TopicLog, since: int
    ) -> dict[int, int]:
        """Of partitions without a committed offset: the log start, or the end if the group is to begin there."""
        history = layouts.history
        log_starts = {p: max(at, history.first_offset(p)) for p, at in log.starts.items()}
        if self._reset == "error":
            for p, begin in log_starts.items():
                if layouts.may_hold(p, 0, begin):
                    report_lost(layouts.topic, p, 0, begin, self._reset)
        if self._reset != "latest":
            return log_starts
        # What a layout has added since the group began is read from its start (D-101).
        known = _count_at(history, since)
        ends = {p: end if p < known else log_starts[p] for p, end in log.ends.items()}
        # A member that began under an earlier layout still has records of keys that lie here now.
        waiting = blockers(
            history, {**_nothing_missing(history.partition_count), **released(history, group), **ends}
        )
        return {
            p: max(log_starts[p], history.start(history.epoch_of(p, end), p)) if p in waiting else end
            for p, end in ends.items()
        }


def _count_at(history: LayoutHistory, epoch: int) -> int:
    """How many partitions the topic had then, removed ones too; the initial count if the epoch was folded."""
    if epoch < history.first_epoch:
        return history.initial_count
    layout = history.layouts[epoch - history.first_epoch]
    return max(len(layout.starts) if epoch > 0 else 0, layout.count)


def _nothing_missing(partitions: int) -> dict[int, int]:
    # Members that have not committed yet take their ends later, hence under this layout or a newer one.
    return dict.fromkeys(range(partitions), 2**62)
