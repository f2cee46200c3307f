"""A consumer group in a model world: members that validate, deliver, commit, come and go while the topic changes.

Every delivery is held against the guarantee: the key's earlier records are processed, and nobody else holds its state.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from spark_ordered_kafka.ordering import readable
from spark_ordered_kafka.ordering.handover import LastRead, Release, gains, leaves, released
from tests.properties.group_model import MEMBERS, Group, Member
from tests.properties.model import Topic, epoch_at, hashes_of, model_readable, start_of, universe, waits
from tests.properties.test_gate_model import topics
from tests.seeds import examples

MAX_GROWTH = 3
# Few, so that a key's records are often read by several members.
KEYS = st.integers(0, 3)


class Consuming(RuleBasedStateMachine):
    """Everything in any order; at the end the group must finish."""

    group_of: type[Group] = Group

    @initialize(initial=st.integers(1, 2), keeps_state=st.booleans())
    def begin(self, initial: int, keeps_state: bool) -> None:
        self.group = self.group_of(Topic(initial), keeps_state)
        self.ends: dict[int, int] = {}
        self.group.rebalance(list(range(MEMBERS)), set(), True)

    @property
    def active(self) -> list[Member]:
        return [member for member in self.group.members if member.progress is not None]

    @rule(keys=st.lists(KEYS, max_size=12))
    def write(self, keys: list[int]) -> None:
        for key in keys:
            self.group.write(key)

    @rule(by=st.integers(0, MAX_GROWTH), markers=st.booleans(), writes=st.lists(KEYS, max_size=4))
    def change(self, by: int, markers: bool, writes: list[int]) -> None:
        """Records of transactions end with a marker; those that an adopted topic brought along do not."""
        for partition in range(len(self.group.topic.logs)):
            if markers and self.group.topic.logs[partition]:
                self.group.topic.append_nothing(partition)
        self.group.topic.change(self.group.topic.initial + by)
        self.write(writes)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Retention deletes records, also those that nobody has read."""
        topic = self.group.topic
        partition = data.draw(st.sampled_from(range(len(topic.logs))))
        topic.delete_records(partition, data.draw(st.integers(0, len(topic.logs[partition]))))

    @rule()
    def take_ends(self) -> None:
        self.ends = self.group.topic.ends()

    @rule(data=st.data())
    def validate(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.active)).validate(self.ends)

    @rule(data=st.data())
    def learn(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.active)).learn()

    @rule(data=st.data(), count=st.integers(1, 8))
    def deliver(self, data: st.DataObject, count: int) -> None:
        member = data.draw(st.sampled_from(self.active))
        assert member.progress is not None
        if member.progress.own:
            partition = data.draw(st.sampled_from(sorted(member.progress.own)))
            while count > 0 and member.deliver(partition):
                count -= 1

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.active)).commit()

    @rule(data=st.data())
    def commit_what_is_due(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.active))
        assert member.progress is not None
        member.commit({p: member.progress.release(p) for p in member.progress.due()})

    @rule(data=st.data())
    def commit_one_partition(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.active))
        assert member.progress is not None
        if member.progress.own:
            partition = data.draw(st.sampled_from(sorted(member.progress.own)))
            member.commit({partition: member.progress.release(partition)})

    @rule(
        order=st.permutations(range(MEMBERS)),
        leaving=st.sets(st.integers(0, MEMBERS - 1), max_size=1),
        gracefully=st.booleans(),
        looks=st.booleans(),
    )
    def rebalance(self, order: list[int], leaving: set[int], gracefully: bool, looks: bool) -> None:
        """``looks``: at the layouts, before anything has come."""
        self.group.rebalance(order, leaving, gracefully)
        for member in self.active if looks else ():
            member.validate({})

    @rule(data=st.data(), commits=st.booleans())
    def catch_up(self, data: st.DataObject, commits: bool) -> None:
        """A member reads all that it may."""
        member = data.draw(st.sampled_from(self.active))
        self._read_on(member)
        if commits:
            member.commit()

    def _read_on(self, member: Member) -> None:
        assert member.progress is not None
        member.validate(self.group.topic.ends())
        member.learn()
        for partition in member.progress.own:
            while member.deliver(partition):
                pass

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        self.group.rebalance(list(range(MEMBERS)), set(), True)
        while not self._is_finished():
            before = self._state()
            for member in self.active:
                self._read_on(member)
                member.commit()
            assert self._state() != before, "unread records, but nothing moves"

    def _state(self) -> Any:
        return dict(self.group.committed), [
            sorted((p, one.position) for p, one in member.progress.own.items())
            for member in self.active
            if member.progress is not None
        ]

    def _is_finished(self) -> bool:
        return all(self.group.is_committed(record, place) for record, place in self.group.place.items())


TestConsuming: Any = Consuming.TestCase
TestConsuming.settings = settings(max_examples=examples(400), stateful_step_count=50, deadline=None)


@st.composite
def committed(draw: st.DrawFn) -> tuple[Topic, dict[int, Release]]:
    topic = draw(topics())
    newest = len(topic.layouts) - 1
    releases = {}
    for p, log in enumerate(topic.logs):
        near = st.sampled_from([layout.start(p) for layout in topic.layouts])
        releases[p] = Release(draw(near | st.integers(0, len(log))), draw(st.integers(-1, newest)))
    return topic, releases


@settings(max_examples=examples(500), deadline=None)
@given(committed())
def test_a_segment_opens_only_when_all_its_keys_were_let_go(case: tuple[Topic, dict[int, Release]]) -> None:
    topic, releases = case
    history = topic.history
    allowed = readable(history, released(history, releases), topic.ends())
    for p, end in allowed.items():
        if end <= releases[p].offset:
            continue
        epoch = epoch_at(history, p, end - 1)
        for q, needed in waits(history, dict.fromkeys(releases, 0), epoch, p).items():
            boundary = max(
                e for e in range(len(topic.layouts)) if start_of(history, e, q) == needed and e <= epoch
            )
            let_go = releases[q].offset >= needed and releases[q].layout_epoch >= min(
                e for e in range(boundary + 1) if start_of(history, e, q) == needed
            )
            assert q == p or let_go, f"{p} reads to {end} of epoch {epoch}, {q} has committed {releases[q]}"


@settings(max_examples=examples(300), deadline=None)
@given(committed())
def test_with_every_layout_known_the_offsets_alone_decide(case: tuple[Topic, dict[int, Release]]) -> None:
    topic, releases = case
    newest = len(topic.layouts) - 1
    known = {p: Release(release.offset, newest) for p, release in releases.items()}
    offsets = {p: release.offset for p, release in releases.items()}
    assert released(topic.history, known) == offsets
    ends = topic.ends()
    assert readable(topic.history, released(topic.history, known), ends) == model_readable(
        topic.history, offsets, ends
    )


@settings(max_examples=examples(500), deadline=None)
@given(committed(), st.data())
def test_leaving_and_gaining_are_what_the_keys_do(
    case: tuple[Topic, dict[int, Release]], data: st.DataObject
) -> None:
    topic, releases = case
    history, counts = topic.history, topic.history.counts
    hashes = universe(topic.initial, *counts)
    p = data.draw(st.sampled_from(sorted(releases)))
    before, after = releases[p], Release(len(topic.logs[p]), len(counts) - 1)

    def keys(epoch: int) -> frozenset[int]:
        return hashes_of(p, topic.initial, counts[epoch], hashes) if p < counts[epoch] else frozenset()

    low, high = before.level(history, p), after.level(history, p)
    left = [e for e in range(low, high) if start_of(history, e + 1, p) > 0 and not keys(e) <= keys(e + 1)]
    assert leaves(history, p, before, after) == bool(left)
    assert gains(history, p, low, high) == any(not keys(e + 1) <= keys(e) for e in range(low, high))


@given(
    st.integers(0, 2**62),
    st.integers(-1, 1000),
    st.integers(0, 1000),
    st.none() | st.builds(LastRead, st.integers(0, 2**62), st.integers(0, 1000)),
    st.none() | st.text(),
)
def test_a_release_survives_its_metadata(
    offset: int, epoch: int, since: int, last: LastRead | None, topic_id: str | None
) -> None:
    release = Release(offset, epoch, since, 0, None if last is None else last.up_to(offset), topic_id)
    found = Release.parse(offset, release.metadata(), None if last is None else last.leader_epoch)
    assert (found, found.last, found.topic_id) == (release, release.last, topic_id)


def test_foreign_metadata_lets_nothing_go() -> None:
    for metadata in (None, "", "x", "{}", "[1]", "3", '{"layout_epoch":"x","since":0}', '{"layout_epoch":1}'):
        assert Release.parse(7, metadata) == Release(7)


def caught_up(group: Group, number: int, *, commits: bool) -> None:
    member = group.members[number]
    assert member.progress is not None
    member.validate(group.topic.ends())
    member.learn()
    for partition in member.progress.own:
        while member.deliver(partition):
            pass
    if commits:
        member.commit()


def test_whoever_stands_at_a_boundary_still_holds_the_keys() -> None:
    """A log without markers: the offset was committed before the layout was."""
    group = Group(Topic(2), keeps_state=True)
    group.topic.change(3)
    group.rebalance([0, 1, 2], set(), True)
    group.write(2)
    caught_up(group, 2, commits=True)
    group.topic.change(2)
    group.write(2)
    caught_up(group, 0, commits=True)
    assert group.committed[0].offset == 0, "partition 0 waits for the holder of partition 2"
    caught_up(group, 2, commits=True)
    caught_up(group, 0, commits=True)
    assert group.committed[0].offset == 1


def test_a_commit_stops_where_an_earlier_record_of_a_key_is_not_committed() -> None:
    group = Group(Topic(2), keeps_state=False)
    group.topic.change(3)
    group.rebalance([0], {1, 2}, True)
    group.write(2)
    group.topic.change(2)
    group.write(2)
    caught_up(group, 0, commits=False)
    caught_up(group, 0, commits=False)
    member = group.members[0]
    assert member.progress is not None
    assert member.progress.own[0].position == 1
    member.commit({0: member.progress.release(0)})
    assert group.committed[0].offset == 0
    member.commit()
    assert group.committed[0].offset == 1


def test_an_empty_partition_is_not_open_because_nothing_is_held_back() -> None:
    group = Group(Topic(2), keeps_state=False)
    group.write(2)
    group.topic.change(3)
    group.rebalance([0, 1, 2], set(), True)
    caught_up(group, 2, commits=True)
    group.write(2)
    caught_up(group, 2, commits=True)
    assert group.committed[2].offset == 0, "partition 0 has an earlier record of the key"
    caught_up(group, 0, commits=True)
    caught_up(group, 2, commits=True)
    assert group.committed[2].offset == 1


def test_a_partition_whose_first_records_are_gone_is_not_open_either() -> None:
    group = Group(Topic(2), keeps_state=False)
    group.write(2)
    group.topic.change(3)
    group.write(2)
    group.write(2)
    group.topic.delete_records(2, 1)
    group.rebalance([0, 1, 2], set(), True)
    member = group.members[2]
    member.validate({})
    caught_up(group, 2, commits=True)
    assert group.committed[2].offset == 1, "partition 0 has an earlier record of the key"
    caught_up(group, 0, commits=True)
    caught_up(group, 2, commits=True)
    assert group.committed[2].offset == 2
