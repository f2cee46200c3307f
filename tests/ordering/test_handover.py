"""What a committed offset says to the other members of a group."""

from __future__ import annotations

import pytest

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
