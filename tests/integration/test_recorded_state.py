"""A controller of this version takes up what earlier ones have left in ZooKeeper, at every step of a change, on real servers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from spark_ordered_kafka.controller.zk.session import ROOT
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import in_process
from tests.integration.keepers import started
from tests.recorded.files import HERE, read
from tests.servers import TIMEOUT, await_true, unique_name

VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "znodes").is_dir())
_MAX_PARTITIONS = 1_000_000


@contextmanager
def admin_of(cluster: LocalCluster) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(cluster.bootstrap_servers)
    try:
        yield admin
    finally:
        admin.close()


class State:
    """Recorded znodes, made to be about topics that Kafka has: every step of an expansion, and the other kinds at one."""

    def __init__(self, version: str, client: KazooClient, admin: KafkaAdmin, cluster: LocalCluster) -> None:
        self._directory: Path = HERE / version / "znodes"
        self._client, self._admin, self._cluster = client, admin, cluster
        recorded = [read(path)["data"] for path in self._directory.glob("*.json")]
        self._ahead = time.time() - max(moment for data in recorded for moment in _moments(data))

    def read(self, name: str) -> dict[str, Any]:
        """What was recorded, as if that had ended now: what has long ended is forgotten."""
        data: dict[str, Any] = _later(read(self._directory / f"{name}.json")["data"], self._ahead)
        return data

    def write(self, path: str, told: dict[str, Any]) -> None:
        self._client.create(f"{ROOT}{path}", json.dumps(told).encode(), makepath=True)

    def plant_topics(self) -> dict[str, dict[str, Any]]:
        """name -> record of a topic for each recorded one with a change."""
        files = [*self._directory.glob("topic-expand-*.json"), *self._directory.glob("topic-*-closing.json")]
        records = {unique_name(name): self.read(name) for name in {file.stem for file in files}}
        counts = {topic: _partitions_before(record["change"]) for topic, record in records.items()}
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers})
        made = admin.create_topics([NewTopic(topic, count, 1) for topic, count in counts.items()])
        for future in made.values():
            future.result(TIMEOUT)
        await_true(
            lambda: self._admin.describe_topics(list(records)).keys() == records.keys(), "the topics show"
        )
        for topic, description in self._admin.describe_topics(list(records)).items():
            self._plant(topic, description.topic_id, records[topic])
        return records

    def _plant(self, topic: str, topic_id: str, record: dict[str, Any]) -> None:
        record["topic_id"], record["change"]["topic"] = topic_id, topic
        self.write(f"/topics/{topic}", record)
        self._client.create(f"{ROOT}/topics/{topic}/partitions")
        for epoch in range(record["first_layout_epoch"], record["layout_epoch"] + 1):
            layout = self.read("layout") | {
                "undeleted_partition_count": record["undeleted_partition_count"],
                "starts": [0] * record["change"]["existing"],
                "leader_epochs": [0] * record["change"]["existing"],
            }
            self.write(f"/topics/{topic}/layouts/{epoch}", layout)

    def plant_others(self) -> None:
        """What is about no topic that Kafka has."""
        # Other tests leave more partitions with the broker than the recorded limit allows.
        self.write(
            "/brokers/ids/1", self.read("broker") | {"guard_rails": {"max_partitions": _MAX_PARTITIONS}}
        )
        for index, status in enumerate(("pending", "approved", "done", "discarded"), 1):
            self.write(f"/reviews/{index}", self.read(f"review-{status}"))
        request = self.read("request-done")
        self.write(f"/admin/reassign_partitions_status/{request['request_id']}", request)
        self.write(
            f"/admin/reassign_partitions_status/{request['request_id']}/moves", self.read("moves-done")
        )


def _moments(data: dict[str, Any]) -> Iterator[float]:
    """Seconds since the epoch in a recorded znode."""
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _moments(value)
        elif name.endswith("_at") and value is not None:
            yield value


def _later(value: Any, seconds: float) -> Any:
    """A recorded znode with all its moments put off."""
    if not isinstance(value, dict):
        return value
    return {
        name: one + seconds if name.endswith("_at") and one is not None else _later(one, seconds)
        for name, one in value.items()
    }


def _partitions_before(change: dict[str, Any]) -> int:
    """What Kafka has at the step of a change."""
    is_new = change["step"] in ("planned", "creating")
    existing: int = change["existing"]
    return existing if is_new else max(existing, change["target"])


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_changes_are_taken_up_at_every_step(kafka_cluster: LocalCluster, version: str) -> None:
    chroot = unique_name("recorded")
    with (
        started(KazooClient(f"{kafka_cluster.zookeeper}/{chroot}")) as client,
        admin_of(kafka_cluster) as admin,
    ):
        state = State(version, client, admin, kafka_cluster)
        planted = state.plant_topics()
        state.plant_others()
        with in_process(kafka_cluster, chroot=chroot) as controller:
            for topic, record in planted.items():
                ended = controller.await_end(topic)
                cancelled = record["change"]["cancel_requested"]
                assert (topic, ended.id, ended.outcome) == (
                    topic,
                    record["change"]["id"],
                    "cancelled" if cancelled else "done",
                )
                assert controller.topic(topic).layout_epoch == record["layout_epoch"] + (not cancelled)
            reviews = controller.http.get("/v1/reviews").json()["reviews"]
            assert [row["review_id"] for row in reviews] == [4, 3, 2, 1]
            (request,) = controller.http.get("/v1/reassignments").json()["requests"]
            assert (request["state"], request["done"]) == ("done", 1)
            limits = {
                row["id"]: row["max_partitions"]
                for row in controller.http.get("/v1/brokers").json()["brokers"]
            }
            assert limits[1] == _MAX_PARTITIONS
