"""What log directories hold, as our command and Kafka's own tool print it, and how far replicas are behind."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess
from tests.integration.log_dirs.kafkas_tool import same_as_kafkas_own
from tests.integration.log_dirs.moving import FOLLOWER_RATE, RECORD, Cli, fill, placed, throttled, where
from tests.servers import TIMEOUT, await_true, unique_name


@pytest.mark.long
def test_describe_prints_what_kafkas_tool_prints(three_brokers: LocalCluster, cli: Cli) -> None:
    prefix = unique_name("tool")
    topics = [f"{prefix}{middle}{number * 7}" for middle in ("-", ".x_") for number in range(25)]
    new = [
        NewTopic(
            topic,
            num_partitions=5,
            replica_assignment=[
                [1 + (partition + index + number) % 3 for number in range(1 + index % 3)]
                for partition in range(5)
            ],
        )
        for index, topic in enumerate(topics)
    ]
    kafka = AdminClient({"bootstrap.servers": three_brokers.bootstrap_servers, "log_level": 3})
    for created in kafka.create_topics(new, operation_timeout=TIMEOUT).values():
        created.result(TIMEOUT)
    for topic in topics[::7]:
        fill(three_brokers.bootstrap_servers, topic, 20 * RECORD)
    every = same_as_kafkas_own(three_brokers, cli)
    assert every.count('"partition":') >= 5 * 50
    some = same_as_kafkas_own(
        three_brokers,
        cli,
        "--broker-list",
        "3,1",
        "--topic-list",
        f"{topics[0]},{topics[9]},{topics[30]},nope",
    )
    assert 0 < some.count('"partition":') < 30
    warnings = cli("log-dirs", "describe", "--output", "kafka", "--topic-list", "nope")[2]
    assert warnings == "warning: these brokers have nothing of topic 'nope'\n"
    # Kafka's tool has no such filter.
    whole = ("log-dirs", "describe", "--output", "kafka")
    directory = json.loads(every.splitlines()[2])["brokers"][0]["logDirs"][1]["logDir"]

    def is_part_of_the_whole() -> bool:
        """Logs of others may grow between the two."""
        out = cli(*whole, "--log-dirs", directory)[1].splitlines()[2]
        (only,) = [one for row in json.loads(out)["brokers"] for one in row["logDirs"]]
        assert only["logDir"] == directory
        return json.dumps(only, separators=(",", ":")) in cli(*whole)[1].splitlines()[2]

    await_true(is_part_of_the_whole, "one directory is shown as among all of them")
    # Then Kafka's prints nothing either.
    code, out, err = cli("log-dirs", "describe", "--output", "kafka", "--broker-list", "9")
    assert (code, out) == (1, "")
    assert "UNKNOWN_MEMBER_ID: broker has the value 9: known are 1, 2, 3" in err


def test_describe_in_the_json_of_the_proposal_and_as_tables(
    cli: Cli, admin: KafkaAdmin, controller: InProcess
) -> None:
    topic = placed(admin, [1, 2], [3, 2], size=20 * RECORD)
    (view,) = where(controller, topic, 1)
    code, out, _ = cli(
        "log-dirs", "describe", "--broker-list", "1", "--topic-list", topic, "--output", "json"
    )
    found = json.loads(out)
    assert (code, found["version"]) == (0, 1)
    shown = {row["path"]: row for row in found["log_dirs"]}
    assert len(shown) == 2
    assert all(row["is_live"] for row in shown.values())
    assert view.current_replica_log_dir is not None
    (row,) = shown[view.current_replica_log_dir]["partitions"]
    assert row == {
        **{"topic": topic, "partition": 0, "offset_lag": 0, "is_temporary": False},
        "size": view.current_replica_size,
    }
    assert row["size"] > 20 * RECORD
    found = json.loads(cli("log-dirs", "describe", "--topic-list", topic, "--output", "json")[1])
    assert [one["broker"] for one in found["brokers"]] == [1, 2, 3]
    assert sum(len(one["partitions"]) for row in found["brokers"] for one in row["log_dirs"]) == 4

    code, out, _ = cli(
        "log-dirs",
        "describe",
        "--broker-list",
        "1",
        "--topic-list",
        topic,
        "--log-dirs",
        view.current_replica_log_dir,
    )
    assert code == 0
    directories, replicas = (part.splitlines() for part in out.split("\n\n"))
    assert directories[1].split()[:4] == ["1", view.current_replica_log_dir, "online", "1"]
    assert replicas[1].split()[:4] == ["1", view.current_replica_log_dir, topic, "0"]
    assert "KiB" in replicas[1]
    assert (len(directories), len(replicas)) == (2, 2)

    code, out, err = cli("log-dirs", "describe", "--broker-list", "1", "--log-dirs", "/nowhere")
    assert (code, out.splitlines()[1].split()[:4]) == (1, ["1", "/nowhere", "offline:", "LOG_DIR_NOT_FOUND"])
    assert err.startswith("error: LOG_DIR_NOT_FOUND: broker 1 has no log directory '/nowhere': known are /")


def test_filters(controller: InProcess, admin: KafkaAdmin) -> None:
    topic = placed(admin, [1, 2], [2, 3])
    also = placed(admin, [3])

    def brokers(**params: Any) -> list[tuple[int, int]]:
        """Broker, and replicas in all of its directories."""
        answer = controller.http.get("/v1/log-dirs", params=params)
        assert answer.status_code == 200, answer.text
        return [
            (row["broker"], sum(len(one["partitions"]) for one in row["log_dirs"]))
            for row in answer.json()["brokers"]
        ]

    assert brokers(topic=topic) == [(1, 1), (2, 2), (3, 1)]
    assert brokers(topic=[topic, also], broker="3,1") == [(3, 2), (1, 1)]
    assert brokers(topic=f"{topic},{also}", broker=["1", "3", "1"]) == [(1, 1), (3, 2)]
    (view,) = where(controller, topic, 1)
    path = view.current_replica_log_dir
    assert brokers(topic=topic, log_dir=path) == [(1, 1), (2, 0), (3, 0)]
    assert brokers(topic=topic, log_dir=path, broker=1) == [(1, 1)]

    def rows(path: str, **params: Any) -> list[tuple[int, int, str]]:
        answer = controller.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return [(row["partition"], row["broker"], row["error"]) for row in answer.json()["replicas"]]

    for path in ("/v1/replica-log-dirs", "/v1/replica-status"):
        assert rows(path, topic=topic) == [(0, 1, "NONE"), (0, 2, "NONE"), (1, 2, "NONE"), (1, 3, "NONE")]
        assert rows(path, topic=topic, broker=3) == [(1, 3, "NONE")]
        assert rows(path, topic=topic, partition="1,0", broker="2,1") == [
            *((1, 2, "NONE"), (1, 1, "REPLICA_NOT_AVAILABLE")),
            *((0, 2, "NONE"), (0, 1, "NONE")),
        ]
        assert len(rows(path)) >= 5


def test_replica_status_tells_how_far_a_follower_is_behind(
    controller: InProcess, admin: KafkaAdmin, cli: Cli
) -> None:
    topic = placed(admin, [1], size=6_000_000)
    seen: list[schemas.ReplicaStatusList] = []

    def status() -> schemas.ReplicaStatusList:
        out = cli("replica-status", "--topic", topic, "--output", "json")[1]
        return schemas.ReplicaStatusList.model_validate_json(out)

    def lags() -> dict[int, int]:
        return {row.broker: row.lag for row in status().replicas}

    def is_behind() -> bool:
        seen.append(status())
        return any(row.broker == 3 and row.lag > 0 for row in seen[-1].replicas)

    assert lags() == {1: 0}
    began = int(1000 * time.time())
    TopicConfigs(admin.requests, TIMEOUT).alter(topic, {"follower.replication.throttled.replicas": "*"})
    with throttled(admin, FOLLOWER_RATE, 3):
        assert Reassignments(admin.requests, timeout=TIMEOUT).alter({(topic, 0): [1, 3]}) == {}
        await_true(is_behind, "broker 3 is behind")
        found = seen[-1]
        assert found.lag == max(row.lag for row in found.replicas) > 0
        assert began <= found.status_time <= int(1000 * time.time())
        assert found.status_time == min(row.status_time for row in found.replicas)
    await_true(lambda: lags() == {1: 0, 3: 0}, "broker 3 has caught up")
    code, out, _ = cli("replica-status", "--topic", topic, "--partition", "0", "--broker", "3")
    assert code == 0
    assert out.splitlines()[1].split()[:4] == [topic, "0", "3", "0"]
    code, out, err = cli("replica-status", "--topic", topic, "--partition", "0", "--broker", "2")
    assert code == 1
    assert "REPLICA_NOT_AVAILABLE" in err
