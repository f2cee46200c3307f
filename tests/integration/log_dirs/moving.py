"""Topics on brokers with two log directories, where their replicas are, and moves between the directories."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from tests.integration.controllers import InProcess
from tests.servers import TIMEOUT, await_true, unique_name

LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
FOLLOWER_RATE = "follower.replication.throttled.rate"
RECORD = 1000


class Cli:
    """Runs ``ordered-kafka`` against the cluster's own controller."""

    def __init__(self, url: str) -> None:
        self._runner = CliRunner(env={"ORDERED_KAFKA_CONTROLLER": url})

    def __call__(self, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
        result = self._runner.invoke(app, arguments, input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def move(self, replica: Mapping[str, Any], *more: str) -> tuple[int, str, str]:
        return self("log-dirs", "move", *options(replica), *more)

    def verify(self, replica: Mapping[str, Any], *more: str) -> tuple[int, str, str]:
        return self("log-dirs", "verify", *options(replica), *more)


def options(replica: Mapping[str, Any]) -> list[str]:
    return [part for name, value in replica.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def placed(admin: KafkaAdmin, *replicas: list[int], size: int = 0) -> str:
    """A topic with a partition on each of these brokers, which have made its logs, and so many bytes in partition 0."""
    topic = unique_name("log-dirs")
    admin.create_topic(topic, dict(enumerate(replicas)), {})

    def is_known() -> bool:
        """Whether every broker shows all replicas: each may be asked about them."""
        found = admin.replicas_in_sync(topic)
        return all(set(found.get(p, ())) == set(ids) for p, ids in enumerate(replicas))

    await_true(is_known, f"all brokers know {topic}")
    # Metadata has a new topic before its brokers have made its logs.
    places = {(topic, p, broker) for p, ids in enumerate(replicas) for broker in ids}
    dirs = LogDirs(admin.requests, TIMEOUT)
    await_true(lambda: dirs.sizes(places).keys() == places, f"all brokers have their logs of {topic}")
    fill(admin.requests.servers, topic, size)
    return topic


def fill(servers: str, topic: str, size: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 3})
    for _ in range(size // RECORD):
        producer.produce(topic, os.urandom(RECORD), partition=partition)
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def where(
    controller: InProcess, topic: str, *brokers: int, partition: int = 0
) -> list[schemas.ReplicaLogDirView]:
    params: dict[str, Any] = {"topic": topic, "partition": str(partition)}
    if brokers:
        params["broker"] = list(brokers)
    answer = controller.http.get("/v1/replica-log-dirs", params=params)
    assert answer.status_code == 200, answer.text
    return schemas.ReplicaLogDirList.model_validate_json(answer.content).replicas


def other(controller: InProcess, topic: str, broker: int) -> str:
    """The log directory of the broker in which the replica of partition 0 is not."""
    (view,) = where(controller, topic, broker)
    answer = controller.http.get("/v1/log-dirs", params={"broker": broker}).json()
    (path,) = {row["path"] for row in answer["brokers"][0]["log_dirs"]} - {view.current_replica_log_dir}
    assert isinstance(path, str)
    return path


def replica(topic: str, broker: int, log_dir: str, partition: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "broker": broker, "log_dir": log_dir}


def moved(controller: InProcess, *rows: Mapping[str, Any], **fields: Any) -> list[tuple[str, str]]:
    """Error and message of each row."""
    answer = controller.http.post("/v1/replica-log-dirs", json={"replicas": rows, **fields})
    assert answer.status_code == 200, answer.text
    return [(row["error"], row["error_message"] or "") for row in answer.json()["replicas"]]


@contextmanager
def throttled(admin: KafkaAdmin, name: str, *brokers: int, rate: int = 20_000) -> Iterator[None]:
    """Brokers copy slowly: a megabyte at first, and the next ones not before ten seconds have passed."""
    configs = BrokerConfigs(admin.requests, TIMEOUT)

    def is_known() -> bool:
        own = configs.describe_own(brokers).values()
        return all(isinstance(one, dict) and one.get(name) == str(rate) for one in own)

    try:
        assert configs.alter({broker: {name: str(rate)} for broker in brokers}) == {}
        # A broker that is altered learns of it a moment later.
        await_true(is_known, f"{name} of brokers {brokers}")
        yield
    finally:
        assert configs.alter({broker: {name: None} for broker in brokers}) == {}


class Writer(threading.Thread):
    """Writes numbered records to partition 0 until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._topic = topic
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 3}
        )

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(0.002):
            self._producer.produce(
                self._topic, f"n{number}".encode(), partition=0, on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1
        self._producer.flush(TIMEOUT)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error.str())
        else:
            self.acknowledged.append(int((message.value() or b"")[1:]))

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join(2 * TIMEOUT)
        assert not self.is_alive(), "the writer does not end"
