"""Canonical offsets and the admission limit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset, admit

positions = st.dictionaries(st.integers(0, 20), st.integers(0, 2**40))
ranges = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)).map(lambda pair: (pair[0], sum(pair))),
)


@given(st.dictionaries(st.sampled_from(["b", "a", "c"]), st.tuples(positions, st.integers(0, 9))))
def test_round_trip(topics: dict[str, tuple[dict[int, int], int]]) -> None:
    offset = SourceOffset({name: TopicOffset.of("id", epoch, at) for name, (at, epoch) in topics.items()})
    again = SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))
    assert again == offset
    for name, (at, _) in topics.items():
        assert all(again.topics[name].position(p) == at.get(p, 0) for p in range(25))


@given(positions)
def test_equal_offsets_are_equal_text(at: dict[int, int]) -> None:
    shuffled = dict(reversed(list(at.items()))) | {30: 0}
    texts = {
        json.dumps(
            SourceOffset({"z": TopicOffset.of("i", 1, one), "a": TopicOffset.of("i", 1, {})}).to_json()
        )
        for one in (at, shuffled)
    }
    assert len(texts) == 1


@pytest.mark.parametrize("value", [{}, {"version": 2, "topics": {}}, {"orders": {"0": 5}}])
def test_another_format_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="checkpoint offset version"):
        SourceOffset.from_json(value)


@given(ranges, st.integers(1, 3000))
def test_admission(available: dict[tuple[str, int], tuple[int, int]], limit: int) -> None:
    admitted = admit(available, limit)
    assert admitted.keys() == available.keys()
    assert all(start <= admitted[key] <= end for key, (start, end) in available.items())
    taken = {key: admitted[key] - start for key, (start, _) in available.items()}
    waiting = {key for key, (start, end) in available.items() if end > start}
    assert all(taken[key] > 0 for key in waiting), "every partition with data moves on"
    assert sum(taken.values()) <= limit + len(waiting)


@given(ranges)
def test_no_limit_admits_all(available: dict[tuple[str, int], tuple[int, int]]) -> None:
    assert admit(available, None) == {key: end for key, (_, end) in available.items()}
