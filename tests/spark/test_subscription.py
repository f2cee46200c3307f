"""Which partitions an assignment reads, on snapshots made by hand."""

import pytest

from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.spark.subscription import assigned_partitions

# 2 -> 5 -> 4: partition 4 is removed and empty.
HISTORY = LayoutHistory(
    2, [Layout(0, 2, (0, 0)), Layout(1, 5, (10, 20, 0, 0, 0)), Layout(2, 4, (15, 20, 7, 9, 6))]
)
LAYOUTS = TopicLayouts("t", "id", HISTORY, (None, None, None))
SNAPSHOT = TopicSnapshot(LAYOUTS, {0: 0, 1: 0, 2: 0, 3: 0, 4: 6}, {0: 30, 1: 20, 2: 7, 3: 9, 4: 6}, {})


def read(*assigned: int, ordered: bool = True, complete: bool = True) -> set[int]:
    return set(assigned_partitions(SNAPSHOT, frozenset(assigned), ordered=ordered, complete=complete))


def test_whole_buckets_are_read_with_what_is_empty_or_will_join() -> None:
    assert read(0, 2) == {0, 2, 4}
    assert read(1, 3) == {1, 3}
    assert read(0, 1, 2, 3, 4) == {0, 1, 2, 3, 4}


def test_part_of_a_bucket_cannot_be_ordered() -> None:
    with pytest.raises(
        ConfigError, match=r"option assign has the value 't-1, t-2': .* add t-0, t-3 .* count 2"
    ):
        read(1, 2)
    assert read(1, 2, ordered=False) == {1, 2}


def test_partitions_added_since_the_start_join() -> None:
    assert read(1, complete=False) == {1, 3}
    assert read(1, ordered=False, complete=False) == {1}


def test_an_unknown_partition() -> None:
    for ordered in (True, False):
        with pytest.raises(
            ConfigError, match="option assign has the value 't-5': topic 't' has the partitions 0 to 4"
        ):
            read(0, 5, ordered=ordered, complete=False)
