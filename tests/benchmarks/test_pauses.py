"""Pauses of writers on real servers, tiny: that each is measured, not how long it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.parts.pauses import at_changes
from benchmarks.scale import TINY
from spark_ordered_kafka.local import LocalCluster


@pytest.mark.long
def test_each_writer_has_a_pause_at_each_change(cluster: LocalCluster, tmp_path: Path) -> None:
    told: list[str] = []
    with Bench(tmp_path, TINY, told.append) as bench:
        bench.cluster = cluster
        topic = bench.topic(4)
        pauses = at_changes(bench, topic, writers=3, counts=(8, 4))
        view = bench.controller.topic(topic)
    assert (view.layout_epoch, view.undeleted_partition_count) == (2, 4)
    assert len(pauses) == 6
    assert max(pauses) > 0
    assert [line.split()[1] for line in told] == ["opening", "median", "median"]
