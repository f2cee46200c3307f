"""``jobs/mirror.py``: two clusters whose topics change on their own, and a driver that is killed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mirror import check_clusters

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.job_runs import running
from tests.integration.producing import Background
from tests.integration.test_killed_driver import await_batches, kill_all
from tests.queries import await_stable
from tests.servers import await_true
from tests.streams import change, conf, create, records_in_order

DEADLINE = 400


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalCluster]:
    """Another cluster."""
    with LocalCluster(tmp_path / "target", controllers=1) as cluster:
        yield cluster


def write(cluster: LocalCluster, topic: str, first: int, count: int) -> None:
    """Records of 9 keys, some of whose values are null, with headers and old timestamps now and then."""
    with OrderedProducer(conf(cluster)) as producer:
        for number in range(first, first + count):
            producer.produce(
                topic,
                key=f"k{number % 9}",
                value=None if number % 11 == 0 else f"{number}",
                headers=[("number", f"{number}"), ("none", None)] if number % 3 == 0 else None,
                timestamp=1_600_000_000_000 + number if number % 2 == 0 else 0,
            )
    await_stable(cluster, topic)


class Writing(Background):
    """Writes to a topic, 30 records at a time, until the block ends: its reader comes to no end meanwhile."""

    def __init__(self, cluster: LocalCluster, topic: str, first: int) -> None:
        super().__init__()
        self.written = first
        self._cluster = cluster
        self._topic = topic

    def work(self) -> None:
        while not self._stop.wait(0.1):
            write(self._cluster, self._topic, self.written, 30)
            self.written += 30


def contents(cluster: LocalCluster, topic: str) -> dict[bytes | None, list[Any]]:
    """The records of each key in order."""
    found: dict[bytes | None, list[Any]] = defaultdict(list)
    for message in records_in_order(cluster, topic):
        found[message.key()].append((message.value(), message.headers() or [], message.timestamp()))
    return found


def size(found: dict[bytes | None, list[Any]]) -> int:
    return sum(map(len, found.values()))


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_topics_are_copied_while_both_clusters_change(
    cluster: LocalCluster, target: LocalCluster, topic_name: str, tmp_path: Path
) -> None:
    first, second = f"{topic_name}-a", f"{topic_name}-b"
    for topic, here, there in ((first, 1, 3), (second, 4, 2)):
        # Kafka deletes by timestamps, and some of these are old.
        create(cluster, topic, here, **{"retention.ms": "-1"})
        create(target, topic, there, **{"retention.ms": "-1"})
        write(cluster, topic, 0, 300)
    change(cluster, first, 3)
    write(cluster, first, 300, 300)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "job.log"
    conf: dict[str, str | None] = {
        "spark.mirror-source.kafka.bootstrap.servers": cluster.bootstrap_servers,
        "spark.mirror-source.controller.url": cluster.controller_url,
        "spark.mirror-source.subscribe": None,
        "spark.mirror-source.subscribePattern": f"{topic_name}-.*",
        "spark.mirror-source.maxOffsetsPerTrigger": "150",
        "spark.mirror-target.kafka.bootstrap.servers": target.bootstrap_servers,
        "spark.mirror-target.controller.url": target.controller_url,
        "spark.mirror.checkpoint": str(checkpoint),
        "spark.mirror.trigger": "100 milliseconds",
    }
    with running("mirror", conf, log) as process:
        await_batches(process, checkpoint, 2, DEADLINE)
        change(cluster, first, 2)
        change(target, first, 5)
        with Writing(cluster, first, 600) as writing:
            await_batches(process, checkpoint, 4, DEADLINE)
            kill_all(process)
    change(target, second, 4)
    write(cluster, second, 300, 300)
    expected = {topic: contents(cluster, topic) for topic in (first, second)}
    sizes = [writing.written, 600]
    assert [size(found) for found in expected.values()] == sizes
    with running("mirror", conf, log) as process:
        deadline = time.monotonic() + DEADLINE
        while [size(contents(target, topic)) for topic in (first, second)] < sizes:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"not copied within {DEADLINE} s"
        # A new topic of the pattern joins.
        third = f"{topic_name}-c"
        create(target, third, 2, **{"retention.ms": "-1"})
        create(cluster, third, 1, **{"retention.ms": "-1"})
        write(cluster, third, 0, 50)
        await_true(lambda: size(contents(target, third)) >= 50, "the new topic copied", DEADLINE)
    assert {topic: contents(target, topic) for topic in (first, second)} == expected
    assert contents(target, third) == contents(cluster, third)


def test_a_cluster_is_not_copied_to_itself(cluster: LocalCluster) -> None:
    here = Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)
    with pytest.raises(
        ConfigError, match=r"spark\.mirror-target\.kafka\.bootstrap\.servers .* another cluster"
    ):
        check_clusters(here, here)
