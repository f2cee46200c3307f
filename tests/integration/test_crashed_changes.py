"""Partition changes whose controller dies, at each of their instructions."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest, PartitionCountsRequest, TopicPartitionCount
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.crash_control import START_TIMEOUT, CrashingController, await_layout
from tests.integration.live_writer import check_epochs, live_writers
from tests.seeds import fresh_seeds
from tests.servers import unique_name

CRASHES = [
    "Persist:creating",
    "CreatePartitions",
    "AwaitLeaders",
    "Persist:closing",
    "ListTransactions",
    "Persist:fencing",
    "Fence",
    "Persist:boundaries",
    "ReadBoundaries",
    "Persist:committing",
    "CheckLogEnds",
    "CommitLayout",
    "Finish",
]


def _some_crashes() -> list[str]:
    """One of them, another in every run."""
    return [random.Random(fresh_seeds(__name__)[0]).choice(CRASHES)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "crashes", [_some_crashes(), pytest.param(CRASHES, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_change_ends_right_when_the_controller_dies_at_any_instruction(
    kafka_cluster: LocalCluster, tmp_path: Path, crashes: Sequence[str]
) -> None:
    """Topics grow and shrink under live writers, and every change loses its controller somewhere else.

    Two at a time, each with controllers of its own: most of the time is the end of dead controllers' sessions.
    """
    halves = [half for half in (crashes[::2], crashes[1::2]) if half]
    with ThreadPoolExecutor(len(halves)) as pool:
        for ended in [pool.submit(_lose_controllers, kafka_cluster, tmp_path, half) for half in halves]:
            ended.result()


def _lose_controllers(cluster: LocalCluster, directory: Path, crashes: Sequence[str]) -> None:
    topic = unique_name("crash")
    home = directory / topic
    home.mkdir()
    first = CrashingController(cluster, home)
    pair = first, CrashingController(cluster, home, beside=first)
    urls = ",".join(controller.url for controller in pair)
    with (
        first.running(),
        pair[1].standing_by(),
        ControllerClient(urls, retry_for=START_TIMEOUT) as client,
    ):
        client.create_topic(CreateTopicRequest(topic=topic, partitions=2))
        count = 2
        epoch = 0
        with live_writers(cluster.bootstrap_servers, urls, topic) as writers:
            for crash in crashes:
                # A shrink creates nothing.
                shrinks = crash not in ("Persist:creating", "CreatePartitions")
                for target in (count + 2, count + 1) if shrinks else (count + 2,):
                    _crash_during(pair, client, topic, target, crash)
                    epoch += 1
                    await_layout(client, topic, epoch)
                    view = client.topic(topic)
                    assert (view.undeleted_partition_count, view.layout_epoch) == (target, epoch), crash
                    for writer in writers:
                        writer.await_commits(2)
                count = client.topic(topic).undeleted_partition_count
        history = client.layout(topic)
        assert len(history.layouts) == epoch + 1
        assert check_epochs(cluster.bootstrap_servers, history) > 0


def _crash_during(
    pair: Sequence[CrashingController], client: ControllerClient, topic: str, target: int, crash: str
) -> None:
    pair[0].armed.write_text(crash)
    request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=target)])
    # An early death may come before the answer; the change is recorded all the same.
    with suppress(UnavailableError):
        (result,) = client.alter_partition_counts(request).topics
        assert result.error == "NONE", result
    deadline = time.monotonic() + START_TIMEOUT
    while not (crashed := [controller for controller in pair if controller.has_crashed()]):
        assert time.monotonic() < deadline, f"no controller died before {crash}"
        time.sleep(0.02)
    for controller in crashed:
        controller.spawn()
