"""Canonical offsets and the admission limit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset, admit, shares

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


topics = st.dictionaries(
    st.sampled_from(["b", "a", "c"]),
    st.builds(
        TopicOffset.of,
        st.just("id"),
        st.integers(0, 3),
        st.dictionaries(st.integers(0, 5), st.integers(0, 50)),
    ),
)


@given(topics, topics, st.integers(1, 100))
def test_ranges_that_share_a_task_are_in_the_offset(
    before: dict[str, TopicOffset], after: dict[str, TopicOffset], least: int
) -> None:
    start = SourceOffset(before, (1, 2))
    end = SourceOffset({**before, **after}).sharing(start, least)
    again = SourceOffset.from_json(json.loads(json.dumps(end.to_json())))
    assert again == end
    ranges = [one for _, topic, known in end.moved_since(start) for one in topic.ranges_since(known)]
    if end.topics == start.topics:
        assert end == start, "no progress"
    elif end.shared:
        assert sum(end.shared) == len(ranges)
        assert len(end.shared) < len(ranges)
    else:
        assert all(high - low >= least for _, low, high in ranges[:-1])


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_no_task_has_less_than_the_least_and_none_could_do_without_its_last_range(
    sizes: list[int], least: int
) -> None:
    counts = shares(sizes, least)
    assert sum(counts) == len(sizes)
    assert all(count > 0 for count in counts)
    left = iter(sizes)
    tasks = [[next(left) for _ in range(count)] for count in counts]
    assert all(sum(task) >= least for task in tasks) or len(tasks) == 1
    assert all(sum(task[:-1]) < least for task in tasks[:-1])
    assert len(tasks) <= max(1, sum(sizes) // least)


def test_an_offset_of_an_earlier_version_shares_no_tasks() -> None:
    old = {
        "version": 1,
        "topics": {"t": {"topic_id": "id", "layout_epoch": 0, "positions": [5, 7], "leader_epochs": []}},
    }
    read = SourceOffset.from_json(old)
    assert read.shared == ()
    assert read.to_json() == old


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
