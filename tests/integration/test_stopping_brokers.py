"""Brokers that stop while the controller places replicas on them, as in a rolling restart."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

import psutil
import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from tests.programs.operator_tries import tries
from tests.servers import TIMEOUT, unique_name

STOPS = 3


class _Operator(threading.Thread):
    """Has a creation and a growth checked, again and again; each answer is the last one of those who ask again when told to."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        super().__init__()
        self._controller = ControllerClient(cluster.controller_url)
        self._topic = topic
        self._stop_asked = threading.Event()
        self.answers: Counter[str] = Counter()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            self._ask(self._create)
            self._ask(self._grow)

    def _ask(self, ask: Callable[[], Sequence[schemas.Result]]) -> None:
        self.answers[tries(ask)[-1][0]] += 1

    def _create(self) -> Sequence[schemas.Result]:
        new = schemas.CreateTopicRequest(
            topic=unique_name("new"), partitions=1, replication_factor=1, validate_only=True
        )
        return [self._controller.create_topic(new)]

    def _grow(self) -> Sequence[schemas.Result]:
        count = schemas.TopicPartitionCount(topic=self._topic, partition_count=2)
        request = schemas.PartitionCountsRequest(topics=[count], validate_only=True)
        return self._controller.alter_partition_counts(request).topics

    def end(self) -> None:
        """Return when it has ended."""
        self._stop_asked.set()
        self.join()
        self._controller.close()


@pytest.mark.long
def test_what_is_placed_on_a_broker_that_stops_is_placed_elsewhere(three_brokers: LocalCluster) -> None:
    """While a broker is in controlled shutdown Kafka shows it, and refuses what is placed on it alone."""
    with ControllerClient(three_brokers.controller_url) as controller:
        topics = [unique_name("grows") for _ in range(3)]
        for topic in topics:
            controller.create_topic(schemas.CreateTopicRequest(topic=topic, assignments={0: [1]}))
        operators = [_Operator(three_brokers, topic) for topic in topics]
        for operator in operators:
            operator.start()
        try:
            for _ in range(STOPS):
                (pid,) = [one["pid"] for one in three_brokers.description()["brokers"] if one["id"] == 2]
                broker = psutil.Process(pid)
                broker.terminate()
                broker.wait(TIMEOUT)
                three_brokers.up()
        finally:
            for operator in operators:
                operator.end()
        controller.delete_topics(schemas.DeleteTopicsRequest(topics=topics))
    answers = sum((operator.answers for operator in operators), Counter[str]())
    assert set(answers) == {"NONE"}, answers
