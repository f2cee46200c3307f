"""Tombstones against a topic played through record by record: none is missing, none is sent without need."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.state.records import LayoutRecord
from spark_ordered_kafka.controller.topics.earlier import earlier_layouts
from spark_ordered_kafka.ordering import tombstone_targets, vacated
from tests.properties.model import split_bucket
from tests.seeds import examples

HASHES = 64


@dataclass
class Played:
    """A topic whose logs hold hashes instead of records; ``None`` is anything that is no record of a key."""

    initial: int
    layouts: list[LayoutRecord] = field(default_factory=list)
    logs: list[list[int | None]] = field(default_factory=list)

    def change(self, count: int, ordered: bool) -> None:
        while len(self.logs) < count:
            self.logs.append([])
        starts = [len(log) for log in self.logs]
        self.layouts.append(
            LayoutRecord(
                undeleted_partition_count=count,
                starts=starts,
                leader_epochs=[0] * len(starts),
                committed_at=0.0,
                ordered_delivery=ordered,
            )
        )

    def counts_in_use(self) -> list[int]:
        """The counts that a writer may hold to now: since the last fence, which both ends of an unordered time have."""
        in_use = []
        for layout in reversed(self.layouts):
            if layout.ordered_delivery != self.layouts[-1].ordered_delivery:
                break
            in_use.append(layout.undeleted_partition_count)
            if layout.ordered_delivery:
                break
        return in_use


@st.composite
def played(draw: st.DrawFn) -> Played:
    topic = Played(draw(st.integers(1, 3)))
    changes = draw(st.lists(st.tuples(st.integers(topic.initial, 12), st.booleans()), max_size=5))
    last = draw(st.integers(topic.initial, 12))
    for count, ordered in [(topic.initial, True), *changes, (last, True)]:
        topic.change(count, ordered)
        for hash_ in draw(st.lists(st.integers(0, HASHES - 1), max_size=6)):
            used = draw(st.sampled_from(topic.counts_in_use()))
            topic.logs[split_bucket(hash_, topic.initial, used)].append(hash_)
        for partition in draw(st.lists(st.integers(0, count - 1), max_size=3)):
            topic.logs[partition].append(None)
    return topic


@settings(max_examples=examples(600))
@given(played(), st.data())
def test_every_old_record_gets_its_tombstone_and_nothing_else_does(
    topic: Played, data: st.DataObject
) -> None:
    count = topic.layouts[-1].undeleted_partition_count
    log_starts = {p: data.draw(st.integers(0, len(log))) for p, log in enumerate(topic.logs)}
    entries = earlier_layouts(topic.initial, topic.layouts)
    targets = tombstone_targets(
        topic.initial, count, [(e.undeleted_partition_count, e.ends) for e in entries], log_starts
    )
    rows, partitions = targets.pairs(np.arange(HASHES, dtype=np.uint32))
    sent = list(zip(rows.tolist(), partitions.tolist(), strict=True))
    assert len(set(sent)) == len(sent)
    starts = topic.layouts[-1].starts
    for partition, log in enumerate(topic.logs):
        for offset in range(log_starts[partition], min(len(log), starts[partition])):
            hash_ = log[offset]
            if hash_ is not None and split_bucket(hash_, topic.initial, count) != partition:
                assert (hash_, partition) in sent, f"{hash_} at {partition}@{offset}"
    if all(layout.ordered_delivery for layout in topic.layouts):
        assert set(sent) == {
            (hash_, q)
            for before, after in zip(topic.layouts, topic.layouts[1:], strict=False)
            for hash_ in range(HASHES)
            if (q := split_bucket(hash_, topic.initial, before.undeleted_partition_count))
            != split_bucket(hash_, topic.initial, count)
            and log_starts[q] < after.starts[q]
        }, "(hash, partition) of what is owed"


@given(st.integers(1, 4), st.integers(0, 20), st.integers(0, 20))
def test_vacated_partitions_are_those_whose_keys_moved(initial: int, more: int, now: int) -> None:
    earlier, count = initial + more, initial + now
    moved = {
        split_bucket(h, initial, earlier)
        for h in range(256)
        if split_bucket(h, initial, earlier) != split_bucket(h, initial, count)
    }
    assert set(np.flatnonzero(vacated(initial, earlier, count)).tolist()) == moved
