"""Up to 200,000 dead transactional ids, on servers of their own: brokers keep them for a week."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from spark_ordered_kafka.controller.topics.idle_writers import FENCED_WHILE_CLOSED
from spark_ordered_kafka.local import LocalCluster
from tests import servers
from tests.integration.controllers import InProcess
from tests.integration.dead_ids import Fences, make_dead_ids


@pytest.fixture(scope="module", params=[1, 3], ids=["one broker", "three brokers"])
def kafka_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("crowded")
    with LocalCluster(directory, brokers=request.param, controllers=0) as cluster:
        yield cluster


@pytest.mark.long
@pytest.mark.parametrize("count", [2_000, 20_000, 200_000])
def test_many_dead_ids(kafka_cluster: LocalCluster, controller: InProcess, count: int) -> None:
    """``pytest -rP`` shows for how long writers were held: without dead ids, with them, and with them again."""
    topic, fences = controller.create(1), Fences(controller)
    pauses = []
    for partitions in (2, 3, 4):
        if partitions == 3:
            make_dead_ids(kafka_cluster.bootstrap_servers, topic, count)
        controller.alter(topic, partitions, wait=False)
        servers.await_true(lambda: controller.change(topic).change is None, "the change ends", 600.0)
        finished = controller.change(topic).last_change
        assert finished is not None
        assert finished.outcome == "done", finished
        pauses.append(finished.writer_pause_seconds)
    assert [len(ids) for ids in fences.ids] == [0, FENCED_WHILE_CLOSED, 0]
    sys.stdout.write(f"{count} dead ids: writers held for {', '.join(f'{p:.3f}' for p in pauses)} s\n")
