"""Trees of segments against every pair of segments, and against keys."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.ordering import bucket, overlaps
from spark_ordered_kafka.ordering.trees import Root, roots


@st.composite
def written(draw: st.DrawFn) -> tuple[int, list[int], list[tuple[int, int]]]:
    """An initial count, a history of counts, and the (epoch, partition) that have records in what is read."""
    initial = draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(initial, 12 * initial), min_size=1, max_size=5))
    everything = [(e, p) for e, count in enumerate(counts) for p in range(count)]
    outside = st.tuples(st.integers(0, len(counts) - 1), st.integers(0, 12 * initial))
    read = draw(st.lists(st.sampled_from(everything) | outside, max_size=30, unique=True))
    return initial, counts, read


def found(initial: int, counts: list[int], read: list[tuple[int, int]]) -> dict[tuple[int, int], Root]:
    return dict(zip(read, roots(initial, [(p, counts[e]) for e, p in read]), strict=True))


@given(written())
def test_trees_are_what_is_connected_and_no_more(case: tuple[int, list[int], list[tuple[int, int]]]) -> None:
    initial, counts, read = case
    linked = {one: {one} for one in read}
    for one, other in combinations(read, 2):
        (d, p), (e, q) = one, other
        outside = p == q and p >= counts[d] and q >= counts[e]
        if outside or overlaps(p, counts[d], q, counts[e], initial):
            merged = linked[one] | linked[other]
            for member in merged:
                linked[member] = merged
    tree_of = found(initial, counts, read)
    assert all(
        (tree_of[one] == tree_of[other]) == (other in linked[one]) for one, other in combinations(read, 2)
    )


@given(written(), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_a_key_is_in_one_tree(case: tuple[int, list[int], list[tuple[int, int]]], hashes: list[int]) -> None:
    initial, counts, read = case
    tree_of = found(initial, counts, read)
    for key in hashes:
        places = [(e, bucket(key, initial, count)) for e, count in enumerate(counts)]
        assert len({tree_of[place] for place in places if place in tree_of}) <= 1
