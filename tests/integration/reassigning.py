"""Reassignments by a controller in the test's process; confluent-kafka's AdminClient makes and judges the topics."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.reassign.throttle.policy import LOG_DIRS_RATE
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import existing_topics, metadata_of_all
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess
from tests.servers import TIMEOUT, await_true, unique_name

SLOW = 50_000
"""Bytes per second, at which the records of :func:`written` take much longer than a test."""

SIZE, PACE = 10_000_000, 200_000
"""Bytes of a partition, and bytes per second at which they are on their way for most of a minute, on a busy machine too.

A broker has its rate on average over 11 seconds, and a follower fetches 1 MB at once: with less, the first bytes of a test
would have to wait until those of the tests before it are forgotten.
"""


@dataclass
class Row:
    """A row of Kafka's JSON."""

    topic: str
    partition: int
    replicas: Sequence[int]
    log_dirs: Sequence[str] | None = None

    @property
    def json(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "replicas": list(self.replicas),
        }
        return row if self.log_dirs is None else row | {"log_dirs": list(self.log_dirs)}


def placed_everywhere(admin: KafkaAdmin, topic: str, holds: Callable[[list[tuple[int, ...]]], bool]) -> bool:
    """Whether ``holds`` is true of the replicas of the topic's partitions as each broker shows them.

    Brokers learn of a change one after another, and a request that names none may be answered by any.
    """
    until = time.monotonic() + TIMEOUT
    views = admin.requests.retry(
        partial(metadata_of_all, admin.requests, [topic]), until, f"ask all brokers for {topic}"
    )
    shown = [
        [tuple(row.replica_nodes) for row in sorted(one.partitions, key=lambda row: row.partition_index)]
        for view in views
        for one in existing_topics(view)
    ]
    return len(shown) == len(admin.brokers()) and all(map(holds, shown))


def await_placed(admin: KafkaAdmin, topic: str, expected: Sequence[Sequence[int]]) -> None:
    """Wait until every broker shows these replicas of the topic's partitions."""
    wanted = [tuple(replicas) for replicas in expected]
    await_true(
        lambda: placed_everywhere(admin, topic, lambda shown: shown == wanted),
        f"all brokers show {topic} with the replicas {wanted}",
    )


def await_brokers(admin: KafkaAdmin, *ids: int) -> None:
    """Wait until every one of these brokers shows them all: one that is back is admitted by its own word first."""

    def is_whole() -> bool:
        until = time.monotonic() + TIMEOUT
        views = admin.requests.retry(partial(metadata_of_all, admin.requests, []), until, "ask all brokers")
        return [{one.node_id for one in view.brokers} for view in views] == [set(ids)] * len(ids)

    await_true(is_whole, f"the brokers {ids} know each other", 2 * TIMEOUT)


def create_placed(admin: KafkaAdmin, topic: str, replicas: Sequence[Sequence[int]]) -> None:
    """Create a topic that no controller manages with these replicas; returns when every broker knows it."""
    client = AdminClient({"bootstrap.servers": admin.requests.servers})
    new = NewTopic(topic, num_partitions=len(replicas), replica_assignment=[list(r) for r in replicas])
    client.create_topics([new], operation_timeout=TIMEOUT)[topic].result(TIMEOUT)
    await_placed(admin, topic, replicas)


class Judge:
    """What Kafka says, without the code under test but for its readers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._admin = KafkaAdmin(cluster.bootstrap_servers)
        self.reassignments = Reassignments(self._admin.requests)
        self.dirs = LogDirs(self._admin.requests)

    def close(self) -> None:
        self._admin.close()

    def create(self, *replicas: Sequence[int], size: int = 0) -> str:
        """A topic with these replicas of its partitions and ``size`` random bytes in each."""
        topic = unique_name("moved")
        create_placed(self._admin, topic, replicas)
        if size:
            self.write(topic, len(replicas), size)
        return topic

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(TIMEOUT)

    def throttles(self, *topics: str) -> dict[str, str]:
        """Throttles of the topics and of all brokers."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        found = {}
        resources = [(ResourceType.TOPIC, topic) for topic in topics]
        for kind, name in [*resources, *((ResourceType.BROKER, str(broker)) for broker in (1, 2, 3))]:
            (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
            for entry in future.result(TIMEOUT).values():
                if ("throttled" in entry.name or entry.name == LOG_DIRS_RATE) and entry.value not in (
                    None,
                    "",
                    str(2**63 - 1),
                ):
                    found[f"{name} {entry.name}"] = entry.value
        return found

    def answers(self, broker: int) -> bool:
        return isinstance(self.dirs.describe([broker], {})[broker], list)

    def write(self, topic: str, partitions: int, size: int, piece: int = 50_000) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "acks": "all"})
        for partition in range(partitions):
            for _ in range(size // piece):
                producer.produce(topic, os.urandom(piece), partition=partition)
        assert producer.flush(4 * TIMEOUT) == 0, "records were not acknowledged"

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        return [row.replicas for row in self._admin.describe_topics([topic])[topic].partitions]

    def await_brokers(self, *ids: int) -> None:
        """Until each of them shows them all."""
        await_brokers(self._admin, *ids)

    def first_replicas(self, topic: str, count: int) -> list[int]:
        """The preferred leaders of ``count`` partitions, once the broker that is asked knows the new topic."""
        found: list[int] = []

        def is_known() -> bool:
            described = self._admin.describe_topics([topic]).get(topic)
            found[:] = [] if described is None else [row.replicas[0] for row in described.partitions]
            return len(found) == count

        await_true(is_known, f"topic {topic} shows")
        return found

    def await_replicas(self, topic: str, expected: Sequence[tuple[int, ...]]) -> None:
        """Until every broker shows them: whoever is asked next may ask any."""
        await_placed(self._admin, topic, expected)

    def leaders(self, topic: str) -> list[int]:
        return [row.leader for row in self._admin.describe_topics([topic])[topic].partitions]

    def in_sync(self, topic: str) -> list[set[int]]:
        return [set(row.isr) for row in self._admin.describe_topics([topic])[topic].partitions]

    def ongoing(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Partition -> brokers that get a replica."""
        return {p: one.adding for (name, p), one in self.reassignments.all_ongoing().items() if name == topic}

    def paths(self, broker: int) -> list[str]:
        found = self.dirs.describe([broker], {})[broker]
        assert isinstance(found, list), found
        return [one.path for one in found]

    def where(self, topic: str, partition: int, broker: int) -> tuple[str | None, str | None]:
        """Log directory of a replica, and of the temporary one."""
        found = self.dirs.describe([broker], {topic: [partition]})[broker]
        assert isinstance(found, list), found
        places = {row.is_future: one.path for one in found for row in one.replicas}
        return places.get(False), places.get(True)

    def other(self, topic: str, partition: int, broker: int) -> str:
        """A log directory of the broker in which the replica is not, once it is in one."""
        await_true(lambda: self.where(topic, partition, broker)[0] is not None, "the log is made")
        here, _ = self.where(topic, partition, broker)
        return next(path for path in self.paths(broker) if path != here)


class Mover:
    """Sends requests to a controller, and waits."""

    def __init__(self, controller: InProcess) -> None:
        self.controller = controller

    def submit(self, *rows: Row, **fields: Any) -> int:
        body = {"partitions": [row.json for row in rows], "additional": True, **fields}
        # Sent again under one key, it is one request.
        answer = self._answer("POST", "", json=body, headers={"Idempotency-Key": uuid.uuid4().hex})
        result = schemas.ReassignmentResult.model_validate_json(answer.content)
        assert result.request_id is not None, result
        return result.request_id

    def view(self, request_id: int) -> schemas.ReassignmentView:
        answer = self._answer("GET", f"/{request_id}")
        return schemas.ReassignmentView.model_validate_json(answer.content)

    def cancel(self, request_id: int) -> None:
        self._answer("DELETE", f"/{request_id}")

    def throttle(self, request_id: int, **fields: int | None) -> None:
        self._answer("PATCH", f"/{request_id}", json=fields)

    def _answer(self, method: str, path: str, **more: Any) -> httpx2.Response:
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer: httpx2.Response = self.controller.http.request(method, f"/v1/reassignments{path}", **more)
            if answer.status_code == 200:
                return answer
            # A busy machine may cost the controller its ZooKeeper session for a while.
            assert answer.status_code == 503, answer.text
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.02)

    def until(
        self,
        request_id: int,
        holds: Callable[[schemas.ReassignmentView], bool],
        what: str,
        timeout: float = TIMEOUT,
    ) -> schemas.ReassignmentView:
        last: list[schemas.ReassignmentView] = []

        def seen() -> bool:
            last[:] = [self.view(request_id)]
            return holds(last[0])

        try:
            await_true(seen, what, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {last}") from error
        return last[0]

    def ended(self, request_id: int, timeout: float = 4 * TIMEOUT) -> schemas.ReassignmentView:
        return self.until(request_id, lambda view: view.complete, f"the end of request {request_id}", timeout)

    def moving(self, request_id: int) -> schemas.ReassignmentView:
        """The request once bytes are there, and not all of them."""

        def begun(view: schemas.ReassignmentView) -> bool:
            return not view.complete and any(0 < row.numerator < row.denominator for row in view.replicas)

        return self.until(request_id, begun, f"bytes of request {request_id} on their way")


@contextmanager
def cleaned(mover: Mover) -> Iterator[Mover]:
    """Let nothing go on that a test has left, if it failed: its throttles would slow down the others."""
    yield mover
    answer = mover.controller.http.get("/v1/reassignments")
    for summary in schemas.ReassignmentList.model_validate_json(answer.content).requests:
        if not summary.complete:
            mover.cancel(summary.request_id)
            mover.ended(summary.request_id)


def outcomes(view: schemas.ReassignmentView) -> Mapping[tuple[int, int], str]:
    """(partition, broker) -> name of the error."""
    return {(row.partition, row.broker): row.error for row in view.replicas}


def verified(controller: InProcess, *rows: Row) -> tuple[bool, list[str]]:
    """Whether all is as in ``rows``, and the status of each."""
    plan = {"version": 1, "partitions": [row.json for row in rows]}
    answer = controller.http.post("/v1/reassignments/verify", json=plan)
    assert answer.status_code == 200, answer.text
    return answer.json()["complete"], [row["status"] for row in answer.json()["partitions"]]
