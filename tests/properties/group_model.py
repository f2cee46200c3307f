"""A group of consumers as a model: what its members hold, read, process and commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress, oldest_since, opened_before
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.ordering.handover import Release
from spark_ordered_kafka.ordering.routing import Routing
from tests.properties.model import Record, Topic

MEMBERS = 3


def layouts_of(topic: Topic) -> TopicLayouts:
    routings = tuple(Routing("murmur3", topic.initial, layout.count) for layout in topic.layouts)
    return TopicLayouts("t", "id", topic.history, routings)


class Member:
    """Does with its :class:`TopicProgress` what the consumer does, one step at a time."""

    def __init__(self, group: Group, number: int) -> None:
        self.group = group
        self.number = number
        self.progress: TopicProgress | None = None
        self.held: dict[int, int] = {}
        self.unprocessed: set[Record] = set()

    def layouts(self) -> TopicLayouts:
        """What the controller and what is known already make together."""
        return layouts_of(self.group.topic)

    def join(self, partitions: set[int]) -> None:
        topic, group = self.group.topic, self.group.committed
        layouts = self.layouts()
        newest = layouts.history.current.epoch
        since = oldest_since(group.values(), newest)
        own = {}
        for p in partitions:
            offset = group[p].offset if p in group else topic.log_starts[p]
            claim = group[p] = Release(offset, newest, since)
            own[p] = Progress.starting(offset, claim, opened_before(layouts, p, offset))
        self.progress = TopicProgress(layouts, own, dict(group), since, self.group.keeps_state)
        self.held = {}
        self.unprocessed = set()

    def validate(self, ends: Mapping[int, int]) -> None:
        assert self.progress is not None
        for p, progress in self.progress.own.items():
            progress.validated = max(progress.validated, ends.get(p, 0))
        layouts = self.layouts()
        if layouts.history.current.epoch > self.progress.epoch:
            self.progress.follow(layouts)
        self.progress.gate()

    def learn(self) -> None:
        assert self.progress is not None
        committed = self.group.committed
        self.progress.learn({q: committed[q] for q in self.progress.awaited() if q in committed})
        self.progress.gate()

    def deliver(self, partition: int) -> bool:
        """The partition's next record, if it may be delivered; otherwise what is no record is passed."""
        assert self.progress is not None
        progress = self.progress.own[partition]
        log, begin = self.group.topic.logs[partition], self.group.topic.log_starts[partition]
        if progress.received < begin:
            # As where librdkafka reports an offset out of range: what was fetched is fetched again.
            progress.skip_deleted(begin)
            return False
        for offset in range(max(progress.position, begin), progress.limit):
            record = log[offset]
            if record is None:
                continue
            self.group.judge(self, partition, record)
            progress.position = progress.received = offset + 1
            progress.dirty = True
            self.held[record.key] = partition
            self.unprocessed.add(record)
            return True
        progress.received = max(progress.received, progress.limit)
        return False

    def commit(self, wanted: Mapping[int, Release] | None = None) -> None:
        """Commit ``wanted``, by default everything."""
        assert self.progress is not None
        progress = self.progress
        wanted = progress.uncommitted() if wanted is None else wanted
        releases = progress.in_order(wanted)
        leaving = progress.leaving(releases)
        self.held = {key: p for key, p in self.held.items() if p not in leaving}
        self.group.committed.update(releases)
        progress.committed(releases)
        self.unprocessed = {
            record
            for record in self.unprocessed
            if not self.group.is_committed(record, self.group.place[record])
        }


class Group:
    """The topic, what is committed, and the judge."""

    member: type[Member] = Member

    def __init__(self, topic: Topic, keeps_state: bool) -> None:
        self.topic = topic
        self.keeps_state = keeps_state
        self.committed: dict[int, Release] = {}
        self.members = [self.member(self, number) for number in range(MEMBERS)]
        self.written: dict[int, list[Record]] = defaultdict(list)
        self.place: dict[Record, tuple[int, int]] = {}
        self.delivered: set[Record] = set()

    def write(self, key: int) -> None:
        before = [len(log) for log in self.topic.logs]
        self.topic.write(key)
        (partition,) = (p for p, log in enumerate(self.topic.logs) if len(log) > before[p])
        record = self.topic.logs[partition][-1]
        assert record is not None
        self.written[key].append(record)
        self.place[record] = (partition, before[partition])

    def is_committed(self, record: Record, place: tuple[int, int]) -> bool:
        """Whether nothing waits for a record, of which one that retention has deleted is another."""
        partition, offset = place
        is_gone = offset < self.topic.log_starts[partition]
        return is_gone or (partition in self.committed and self.committed[partition].offset > offset)

    def judge(self, member: Member, partition: int, record: Record) -> None:
        for earlier in self.written[record.key]:
            if earlier.sequence >= record.sequence:
                break
            place = self.place[earlier]
            assert self.is_committed(earlier, place) or earlier in member.unprocessed, (
                f"{record} of partition {partition} before {earlier} of {place} is processed"
            )
        if not self.keeps_state:
            return
        for other in self.members:
            at = other.held.get(record.key, partition if other is member else None)
            assert at is None or (other is member and at == partition), (
                f"member {member.number} gets {record} while {other.number} holds its key in {at}"
            )
        self.delivered.add(record)

    def rebalance(self, order: list[int], leaving: set[int], gracefully: bool) -> None:
        for member in self.members:
            if gracefully and member.progress is not None:
                member.commit()
            member.held, member.progress, member.unprocessed = {}, None, set()
        staying = [self.members[i] for i in order if i not in leaving] or [self.members[order[0]]]
        shares: dict[int, set[int]] = defaultdict(set)
        for p in range(len(self.topic.logs)):
            shares[p % len(staying)].add(p)
        for number, member in enumerate(staying):
            member.join(shares[number])
