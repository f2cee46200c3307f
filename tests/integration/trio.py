"""Three controllers of three brokers: clients of one or of all, and what they must agree on."""

from __future__ import annotations

from collections.abc import Sequence

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import (
    ControllerList,
    CreateTopicRequest,
    FinishedChangeView,
    PartitionCountsRequest,
    TopicPartitionCount,
    TopicResult,
)
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.live_writer import check_epochs
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import misrouted

LONG = 2 * TIMEOUT
"""Seconds for what includes a take-over or a broker's death."""


class Trio:
    """The cluster, and clients of one or of all of its controllers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.urls = cluster.controller_url.split(",")
        self.client = ControllerClient(self.urls)
        self._single = {url: ControllerClient(url) for url in self.urls}

    def close(self) -> None:
        for client in (self.client, *self._single.values()):
            client.close()

    def single(self, url: str) -> ControllerClient:
        return self._single[url]

    def name(self, url: str) -> str:
        return f"controller-{self.urls.index(url) + 1}"

    def await_leader(self, besides: str | None = None) -> str:
        """URL of the controller that leads, once all that live say so."""
        found: list[ControllerList] = []

        def led() -> bool:
            try:
                found[:] = [self.client.controllers()]
                leader = found[0].leader
                others = [one.url for one in found[0].controllers if one.url != besides]
                told = {self._single[url].readyz().leader for url in others}
            except UnavailableError:
                return False
            return leader not in (None, besides) and told == {leader}

        await_true(led, "leader", LONG)
        assert found[0].leader is not None
        return found[0].leader

    def followers(self) -> list[str]:
        leader = self.await_leader()
        return [url for url in self.urls if url != leader]

    def create(self, partitions: int = 2, *, via: ControllerClient | None = None) -> str:
        topic = unique_name("ha")
        request = CreateTopicRequest(
            topic=topic, partitions=partitions, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
        assert (via or self.client).create_topic(request).topic == topic
        return topic

    def alter(self, topic: str, count: int, *, via: ControllerClient | None = None) -> TopicResult:
        request = PartitionCountsRequest(topics=[TopicPartitionCount(topic=topic, partition_count=count)])
        return (via or self.client).alter_partition_counts(request, wait=LONG).topics[0]

    def await_step(self, topic: str, *steps: str, via: ControllerClient | None = None) -> str:
        """Wait until the topic's change is seen at one of the steps; its id."""
        found: list[str] = []

        def reached() -> bool:
            change = (via or self.client).change(topic).change
            if change is not None and change.step in steps:
                found.append(change.id)
            return bool(found)

        await_true(reached, f"{topic} at {steps}", LONG)
        return found[0]

    def await_end(self, topic: str) -> FinishedChangeView:
        """Wait until no change of the topic goes on; how the last one ended."""
        ended: list[FinishedChangeView] = []

        def is_over() -> bool:
            answer = self.client.change(topic)
            if answer.change is None and answer.last_change is not None:
                ended.append(answer.last_change)
            return bool(ended)

        await_true(is_over, f"end of the change of {topic}", LONG)
        return ended[0]

    def check(self, topic: str, counts: Sequence[int]) -> None:
        """The topic had these counts one after another, no more; all that was written lies where it belongs."""
        for url in [one.url for one in self.client.controllers().controllers]:
            layouts = self._single[url].layout(topic).layouts
            assert [one.undeleted_partition_count for one in layouts] == list(counts), url
        assert check_epochs(self.cluster.bootstrap_servers, self.client.layout(topic)) > 0
        assert misrouted(self.cluster, topic) == []
