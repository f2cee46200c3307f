"""What two samples of a topic and a group tell, beside what really happened."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.autoscale.load import GroupLoad
from spark_ordered_kafka.controller.autoscale.sampling import Sample, group_load, write_rates
from spark_ordered_kafka.kafka.groups import CommittedOffset, GroupDescription, GroupMember
from spark_ordered_kafka.kafka.leader_logs import LeaderLog

SECONDS = 10.0


def group(
    committed: Mapping[int, int], *, state: str = "Empty", members: int = 0, assigned: int = 0
) -> GroupDescription:
    reads = {("t", p): GroupMember(f"m{p}", "c", "/h") for p in range(assigned)}
    offsets = {p: CommittedOffset(offset, None) for p, offset in committed.items()}
    return GroupDescription(state, {"t": offsets} if offsets else {}, reads, members)


def sample(at: float, logs: Mapping[int, tuple[int, int]], found: GroupDescription | None = None) -> Sample:
    held = {p: LeaderLog(start, end, 100 * (end - start)) for p, (start, end) in logs.items()}
    return Sample(at, {"t": held}, {} if found is None else {"g": found})


def load(before: Sample, after: Sample, count: int = 1) -> GroupLoad:
    found = group_load(before, after, "t", "g", count)
    assert found is not None
    return found


@given(
    start=st.integers(0, 50),
    written=st.integers(0, 50),
    deleted=st.integers(0, 60),
    position=st.integers(0, 50),
    read=st.integers(0, 50),
)
def test_retention_is_not_reading(start: int, written: int, deleted: int, position: int, read: int) -> None:
    end = start + 50
    later = min(position + read, end + written)
    after_start = min(start + deleted, end + written)
    before = sample(0.0, {0: (start, end)}, group({0: position}))
    after = sample(SECONDS, {0: (after_start, end + written)}, group({0: later}))
    found = load(before, after)
    assert found.lag == [end + written - max(later, after_start)]
    # A reader begins at the log's start when what it has committed is gone.
    assert found.read == [max(0, later - max(position, start)) / SECONDS]


def test_a_partition_without_a_committed_offset_is_read_from_its_start() -> None:
    before = sample(0.0, {0: (5, 100), 1: (0, 10)}, group({1: 3}))
    after = sample(SECONDS, {0: (5, 100), 1: (0, 10)}, group({1: 3}))
    assert load(before, after, 2) == GroupLoad([95.0, 7.0], [0.0, 0.0])
    begun = sample(SECONDS, {0: (5, 100), 1: (0, 10)}, group({0: 25, 1: 3}))
    assert load(before, begun, 2) == GroupLoad([75.0, 7.0], [2.0, 0.0])
    assert group_load(before, sample(SECONDS, {0: (5, 100)}, group({0: 25})), "t", "g", 2) is None
    assert group_load(before, sample(SECONDS, {0: (0, 1)}, group({})), "t", "g", 1) is None


def test_a_group_that_rebalances_has_its_members() -> None:
    before = sample(0.0, {0: (0, 9)}, group({0: 3}, state="Stable", members=3, assigned=2))
    for state, members, assigned, expected in (
        ("Stable", 3, 2, 2),
        ("PreparingRebalance", 3, 0, 3),
        ("Empty", 0, 0, 0),
    ):
        after = group({0: 3}, state=state, members=members, assigned=assigned)
        assert load(before, sample(SECONDS, {0: (0, 9)}, after)).members == expected


def test_records_written_are_counted_by_offsets_and_weighed_by_the_log() -> None:
    before, after = sample(0.0, {0: (0, 10), 1: (4, 4)}), sample(SECONDS, {0: (9, 30), 1: (4, 4)})
    assert write_rates(before, after, "t", 2) == ([200.0, 0.0], [2.0, 0.0])
    assert write_rates(before, after, "t", 3) is None
    assert write_rates(after, after, "t", 2) is None
