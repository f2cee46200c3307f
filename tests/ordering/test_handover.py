"""What a committed offset says to the other members of a group."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.ordering import Layout, LayoutHistory, blockers, readable
from spark_ordered_kafka.ordering.handover import UNKNOWN_EPOCH, LastRead, Release, is_due, released

# 2 -> 4 -> 2 partitions; partition 3, whose keys come from 1 and go back there, has offsets 0 to 9.
HISTORY = LayoutHistory(2, [Layout(0, 2, []), Layout(1, 4, [5, 5]), Layout(2, 2, [8, 8, 10, 10])])


@pytest.mark.parametrize(
    "release", [Release(7), Release(7, 2, 1), Release(0, 2, 0, 10), Release(7, -1, 3, 9)]
)
def test_metadata_is_read_as_it_was_written(release: Release) -> None:
    assert Release.parse(release.offset, release.metadata()) in (
        release,
        Release(release.offset, release.layout_epoch, release.since),
    )
    assert Release.parse(release.offset, release.metadata()).reached == release.reached


@pytest.mark.parametrize("metadata", [None, "", "no JSON", "{}", "[]", '{"layout_epoch": 1}'])
def test_metadata_of_others_lets_nothing_go(metadata: str | None) -> None:
    assert Release.parse(7, metadata) == Release(7, UNKNOWN_EPOCH)
    # But it is known under which leader they have read.
    assert Release.parse(7, metadata, 3).last == LastRead(7, 3)


def test_a_truncation_is_known_by_the_last_record_and_not_by_markers_behind_it() -> None:
    release = Release(9, 2, 1, last=LastRead(7, 3))
    assert Release.parse(9, release.metadata(), 3).last == LastRead(7, 3)
    # An earlier offset than the last record's was kept by its leader, too.
    assert Release.parse(5, Release(5, 2, 1, last=LastRead(7, 3)).metadata(), 3).last == LastRead(5, 3)


class Replicas:
    """Three replicas of a log under any elections, unclean ones too: the records of each, as leader epoch and a number."""

    def __init__(self) -> None:
        self.logs: list[list[tuple[int, int]]] = [[], [], []]
        self.leader, self.epoch, self._written = 0, 0, 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self.logs[self.leader].append((self.epoch, self._written))
            self._written += 1

    def follow(self, replica: int, count: int) -> None:
        """Truncate to where the leader epochs are those of the leader (KIP-101), then copy some records."""
        log, leading = self.logs[replica], self.logs[self.leader]
        same = 0
        while same < min(len(log), len(leading)) and log[same][0] == leading[same][0]:
            same += 1
        self.logs[replica] = log[:same] + leading[same : same + count]

    def elect(self, replica: int) -> None:
        self.leader = replica
        self.epoch += 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("follow"), st.integers(0, 2), st.integers(0, 4)),
        st.tuples(st.just("elect"), st.integers(0, 2)),
    ),
    max_size=12,
)


@given(before=STEPS, after=STEPS)
def test_a_record_of_the_same_leader_shows_that_nothing_was_lost(before: list[Any], after: list[Any]) -> None:
    replicas = Replicas()
    for name, *arguments in before:
        getattr(replicas, name)(*arguments)
    read = list(replicas.logs[replicas.leader])
    if not read:
        return
    last = LastRead(len(read), read[-1][0])
    for name, *arguments in after:
        getattr(replicas, name)(*arguments)
    log = replicas.logs[replicas.leader]
    for offset, (epoch, _) in enumerate(log):
        if last.is_kept_by(offset, epoch):
            assert log[: len(read)] == read
            # Also for a member that begins in the middle of what was read.
            assert last.up_to(len(read) // 2).is_kept_by(offset, epoch)
    assert not last.is_kept_by(len(read) - 1, last.leader_epoch)
    assert not last.is_kept_by(len(read), None)


def test_nobody_waits_for_what_was_lost() -> None:
    ends = dict.fromkeys(range(4), 20)
    read = {p: Release(at, 2) for p, at in {0: 8, 1: 8, 2: 10}.items()}
    before = read | {3: Release(0, 2)}
    assert blockers(HISTORY, released(HISTORY, before)) == {1: [(3, 10)]}
    assert readable(HISTORY, released(HISTORY, before), ends)[1] == 8
    after = before | {3: Release(0, 2, lost_to=10)}
    assert blockers(HISTORY, released(HISTORY, after)) == {}
    assert readable(HISTORY, released(HISTORY, after), ends)[1] == 20
    assert is_due(HISTORY, 3, before[3], after[3])
