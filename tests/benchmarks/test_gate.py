"""What the gate is timed on: a history as asked for, and readers that are where they are said to be."""

from __future__ import annotations

import pytest

from benchmarks.parts.gate import readers, topic
from spark_ordered_kafka.ordering import blockers, readable


@pytest.mark.parametrize(("partitions", "epochs"), [(1, 1), (64, 1), (200, 7)])
def test_a_topic_is_as_large_as_is_asked_for(partitions: int, epochs: int) -> None:
    history, ends = topic(partitions, epochs)
    assert [layout.epoch for layout in history.layouts] == list(range(epochs))
    assert history.partition_count == partitions == len(ends)
    assert all(end >= history.current.start(partition) for partition, end in ends.items())


def test_readers_are_as_far_as_is_said() -> None:
    history, ends = topic(1000, 7)
    found = readers(history, ends)
    boundary = {partition: history.current.start(partition) for partition in ends}

    behind = [p for p, at in found["caught up"].items() if at < boundary[p]]
    assert 0 < len(behind) < 50
    assert set(blockers(history, found["caught up"])) < set(ends)

    assert set(found["at the start"].values()) == {0}
    assert readable(history, found["at the start"], ends) != ends

    straggling = found["one partition at the start"]
    assert [p for p, at in straggling.items() if at < boundary[p]] == [0]
    waited_for = {partition for waits in blockers(history, straggling).values() for partition, _ in waits}
    assert waited_for == {0}
