"""A log directory that goes offline, and then a broker that is down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import metadata_of_all
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess
from tests.integration.log_dirs.kafkas_tool import same_as_kafkas_own
from tests.integration.log_dirs.moving import Cli, moved, placed, replica
from tests.servers import TIMEOUT, await_true, unique_name


@contextmanager
def failing_directory(cluster: LocalCluster, admin: KafkaAdmin) -> Iterator[Path]:
    """A log directory of broker 3 that is about to fail; afterwards the broker runs again, with all its directories."""
    (paths,) = [row["log_dirs"] for row in cluster.description()["brokers"] if row["id"] == 3]
    path = Path(paths[1])
    aside = path.with_name("aside")
    path.rename(aside)
    path.touch()  # nothing can be made in it
    try:
        yield path
    finally:
        cluster.stop("broker-3")
        path.unlink()
        aside.rename(path)
        cluster.start("broker-3")
        await_true(lambda: live_brokers(admin) == {(1, 2, 3)}, "all know that broker 3 is back")


def live_brokers(admin: KafkaAdmin) -> set[tuple[int, ...]]:
    """What each broker shows as alive: they hear of a death one after the other, and any of them may be asked."""
    until = time.monotonic() + TIMEOUT
    views = admin.requests.retry(partial(metadata_of_all, admin.requests, []), until, "ask all brokers")
    return {tuple(sorted(broker.node_id for broker in view.brokers)) for view in views}


@pytest.mark.long
def test_an_offline_directory_and_then_a_broker_that_is_down(
    three_brokers: LocalCluster,
    controller: InProcess,
    admin: KafkaAdmin,
    cli: Cli,
) -> None:
    # Kafka puts a new replica where the fewest are: with others there before, few are enough for both directories.
    topic = placed(admin, *[[3, 1]] * 20)

    def directories() -> set[str | None]:
        answer = controller.http.get("/v1/replica-log-dirs", params={"topic": topic, "broker": 3}).json()
        return {row["current_replica_log_dir"] for row in answer["replicas"]}

    await_true(lambda: len(directories()) == 2 and None not in directories(), "replicas in both directories")
    with failing_directory(three_brokers, admin) as path:
        _check_offline(three_brokers, controller, admin, cli, topic, path)


def _check_offline(
    three_brokers: LocalCluster,
    controller: InProcess,
    admin: KafkaAdmin,
    cli: Cli,
    topic: str,
    failing_directory: Path,
) -> None:
    # It fails when the broker wants to make something in it; what it was to hold is in sync no more then.
    admin.create_topic(unique_name("log-dirs"), {p: [3, 1] for p in range(20)}, {})

    def offline() -> list[dict[str, Any]]:
        answer = controller.http.get("/v1/log-dirs", params={"broker": 3}).json()
        return [row for row in answer["brokers"][0]["log_dirs"] if not row["is_live"]]

    await_true(lambda: len(offline()) == 1, "the log directory is offline")
    (row,) = offline()
    assert (row["path"], row["error"], row["partitions"]) == (
        str(failing_directory),
        "KAFKA_STORAGE_ERROR",
        [],
    )
    assert str(failing_directory) in row["error_message"]
    printed = same_as_kafkas_own(three_brokers, cli, "--broker-list", "3", "--topic-list", topic)
    assert "org.apache.kafka.common.errors.KafkaStorageException" in printed
    code, out, _ = cli("log-dirs", "describe", "--broker-list", "3", "--topic-list", topic)
    assert code == 0
    assert [line.split()[2:4] for line in out.splitlines() if str(failing_directory) in line] == [
        ["offline:", "KAFKA_STORAGE_ERROR"]
    ]

    rows = {
        row["partition"]: row
        for row in controller.http.get("/v1/replica-log-dirs", params={"topic": topic, "broker": 3}).json()[
            "replicas"
        ]
    }
    held = next(row for row in rows.values() if row["error"] == "NONE")
    lost = next(row for row in rows.values() if row["error"] != "NONE")
    assert lost["error"] == "KAFKA_STORAGE_ERROR"
    assert str(failing_directory) in lost["error_message"]
    to_it = replica(topic, 3, str(failing_directory), partition=held["partition"])
    from_it = replica(topic, 3, held["current_replica_log_dir"], partition=lost["partition"])
    assert [error for error, _ in moved(controller, to_it, from_it)] == ["KAFKA_STORAGE_ERROR"] * 2

    three_brokers.stop("broker-3")
    await_true(lambda: live_brokers(admin) == {(1, 2)}, "the others know that broker 3 is gone")
    answer = controller.http.get("/v1/log-dirs").json()
    assert [(row["broker"], row["error"]) for row in answer["brokers"]] == [
        *((1, "NONE"), (2, "NONE")),
        (3, "BROKER_NOT_AVAILABLE"),
    ]
    ((error, message),) = moved(controller, to_it)
    assert (error, "broker 3 is down" in message) == ("UNKNOWN_MEMBER_ID", True)
    for path in ("replica-log-dirs", "replica-status"):
        found = controller.http.get(f"/v1/{path}", params={"topic": topic, "partition": 0}).json()["replicas"]
        assert {row["broker"]: row["error"] for row in found} == {1: "NONE", 3: "BROKER_NOT_AVAILABLE"}
    assert controller.http.get("/v1/replica-status", params={"topic": topic, "broker": 3}).json()["lag"] == -1
    # A path may be the missing broker's.
    answer = controller.http.get("/v1/log-dirs", params={"log_dir": str(failing_directory)})
    assert answer.status_code == 200
    code, out, err = cli("log-dirs", "describe", "--topic-list", topic)
    assert (code, "error: broker 3: BROKER_NOT_AVAILABLE" in err) == (1, True)
    assert "broker-1" in out
    code, out, _ = cli("log-dirs", "describe", "--output", "kafka")
    assert (code, out.splitlines()[1]) == (0, "Received log directory information from brokers 1,2")
    code, out, _ = cli.verify(from_it)
    assert (code, "not known: BROKER_NOT_AVAILABLE" in out) == (1, True)
