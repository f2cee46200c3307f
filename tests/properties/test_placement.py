"""Placement for random clusters."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.controller.placement import continue_placement, place


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str | None], int]:
    ids = draw(st.lists(st.integers(0, 50), min_size=1, max_size=9, unique=True))
    racked = draw(st.booleans())
    racks = {broker: draw(st.sampled_from("abcd")) if racked else None for broker in ids}
    return racks, draw(st.integers(1, len(ids)))


@given(clusters(), st.integers(1, 40), st.integers(0, 8))
def test_every_assignment_is_sound_and_spread(
    cluster: tuple[dict[int, str | None], int], partitions: int, start: int
) -> None:
    racks, factor = cluster
    placed = place(racks, partitions, factor, start=start)
    assert placed == place(dict(reversed(racks.items())), partitions, factor, start=start)
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        used = {racks[broker] for broker in replicas}
        assert len(used) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[broker] for broker in racks]
    assert max(counts) - min(counts) <= 1


@given(clusters(), st.integers(1, 20), st.integers(1, 20), st.integers(0, 8))
def test_growing_is_the_same_as_creating_at_once(
    cluster: tuple[dict[int, str | None], int], before: int, more: int, start: int
) -> None:
    racks, factor = cluster
    start %= len(racks)
    whole = place(racks, before + more, factor, start=start)
    existing = dict(enumerate(place(racks, before, factor, start=start)))
    assert continue_placement(racks, existing, more) == whole[before:]


@given(clusters(), st.integers(1, 30), st.data())
def test_capacity_is_kept(
    cluster: tuple[dict[int, str | None], int], partitions: int, data: st.DataObject
) -> None:
    racks, factor = cluster
    capacity = {broker: data.draw(st.integers(0, 40)) for broker in racks}
    usable = sum(1 for room in capacity.values() if room >= partitions)
    if usable < factor:
        return
    used = Counter(
        broker for replicas in place(racks, partitions, factor, capacity=capacity) for broker in replicas
    )
    assert all(used[broker] <= room for broker, room in capacity.items())
