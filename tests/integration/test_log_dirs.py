"""Log directories on three real brokers that have two each: what they hold, moves between them, and Kafka's own tool."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.state.reassignment_records import Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import BrokerConfigs, TopicConfigs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess, in_process
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import raw_records

LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
FOLLOWER_RATE = "follower.replication.throttled.rate"
RECORD = 1000


@pytest.fixture(scope="module")
def controller(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers) as running:
        yield running


@pytest.fixture(scope="module")
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    opened = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield opened
    opened.close()


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


@pytest.fixture(scope="module")
def cli(three_brokers: LocalCluster) -> Cli:
    return Cli(three_brokers.controller_url)


def options(replica: Mapping[str, Any]) -> list[str]:
    return [part for name, value in replica.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def placed(admin: KafkaAdmin, *replicas: list[int], size: int = 0) -> str:
    """A topic with a partition on each of these brokers, and so many bytes in partition 0."""
    topic = unique_name("log-dirs")
    admin.create_topic(topic, dict(enumerate(replicas)), {})

    def led() -> bool:
        found = admin.describe_topics([topic]).get(topic)
        return found is not None and all(row.leader != -1 for row in found.partitions)

    await_true(led, f"leaders of {topic}")
    fill(admin.requests.servers, topic, size)
    return topic


def fill(servers: str, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 3})
    for _ in range(size // RECORD):
        producer.produce(topic, os.urandom(RECORD), partition=0)
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


def await_replica(controller: InProcess, topic: str, broker: int, partition: int = 0) -> None:
    """Metadata has a new topic before its brokers have made its logs."""
    await_true(
        lambda: where(controller, topic, broker, partition=partition)[0].current_replica_log_dir is not None,
        f"broker {broker} has made its replica of {topic}-{partition}",
    )


def other(controller: InProcess, topic: str, broker: int) -> str:
    """The log directory of the broker in which the replica of partition 0 is not."""
    await_replica(controller, topic, broker)
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
def throttled(admin: KafkaAdmin, name: str, *brokers: int, rate: int = 300_000) -> Iterator[None]:
    """Brokers copy slowly."""
    configs = BrokerConfigs(admin.requests, TIMEOUT)
    assert configs.alter({broker: {name: str(rate)} for broker in brokers}) == {}
    try:
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
        self.join(TIMEOUT)


# -- describe -------------------------------------------------------------------------------------------------------


def kafkas_own(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    servers = cluster.bootstrap_servers
    return kafka_tool("kafka-log-dirs", "--bootstrap-server", servers, "--describe", *arguments)


def parsed(out: str) -> tuple[str, str, list[int], Any]:
    """What Kafka's tool prints: two lines of words, the second with ids of brokers, and JSON."""
    querying, received, document = out.splitlines()
    words, _, ids = received.rpartition(" ")
    return querying, words, list(map(int, ids.split(","))), json.loads(document)


def in_order(out: str) -> tuple[str, str, list[int], Any]:
    """The same with all lists sorted that Kafka's tool has in the order of Java's hash maps."""
    querying, words, ids, found = parsed(out)
    for broker in found["brokers"]:
        for one in broker["logDirs"]:
            one["partitions"].sort(key=partition_number)
        broker["logDirs"].sort(key=lambda one: one["logDir"])
    found["brokers"].sort(key=lambda broker: broker["broker"])
    return querying, words, sorted(ids), found


def partition_number(row: dict[str, Any]) -> tuple[str, int]:
    topic, _, partition = row["partition"].rpartition("-")
    return topic, int(partition)


def same_as_kafkas_own(cluster: LocalCluster, cli: Cli, *arguments: str) -> str:
    """What ours prints; logs that grow meanwhile are looked at again."""
    deadline = time.monotonic() + 2 * TIMEOUT
    command = ("log-dirs", "describe", "--output", "kafka", *arguments)
    while True:
        before, theirs, after = cli(*command), kafkas_own(cluster, *arguments), cli(*command)
        if before == after:
            code, out, _ = before
            assert (theirs.returncode, in_order(theirs.stdout)) == (code, parsed(out))
            return out
        assert time.monotonic() < deadline, "the logs do not come to rest"


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
    line = every.splitlines()[2]
    directory = json.loads(line)["brokers"][0]["logDirs"][1]["logDir"]
    out = cli("log-dirs", "describe", "--output", "kafka", "--log-dirs", directory)[1].splitlines()[2]
    (only,) = [one for row in json.loads(out)["brokers"] for one in row["logDirs"]]
    assert only["logDir"] == directory
    assert json.dumps(only, separators=(",", ":")) in line
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


@pytest.mark.parametrize(
    ("path", "params", "error", "words"),
    [
        ("log-dirs", {"broker": "9"}, "UNKNOWN_MEMBER_ID", "broker has the value 9: known are 1, 2, 3"),
        ("log-dirs", {"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION", "topic has the value 'nope'"),
        ("log-dirs", {"topic": "a b"}, "INVALID_TOPIC_EXCEPTION", "topic has the value 'a b'"),
        ("log-dirs", {"topic": ""}, "INVALID_REQUEST", "topic has the value ''"),
        ("log-dirs", {"broker": "1,,2"}, "INVALID_REQUEST", "broker has the value '1,,2'"),
        ("log-dirs", {"broker": "-1"}, "INVALID_REQUEST", "broker has the value '-1'"),
        ("log-dirs", {"broker": "9" * 400}, "INVALID_REQUEST", "broker has the value '999"),
        ("replica-log-dirs", {"partition": "0"}, "INVALID_REQUEST", "name its topic"),
        ("replica-log-dirs", {"topic": "{t}", "partition": "1"}, "UNKNOWN_TOPIC_OR_PARTITION", "has 0 to 0"),
        (
            "replica-log-dirs",
            {"topic": "{t}", "partition": "x"},
            "INVALID_REQUEST",
            "partition has the value 'x'",
        ),
        ("replica-log-dirs", {"topic": "{t}", "broker": "7"}, "UNKNOWN_MEMBER_ID", "broker has the value 7"),
        ("replica-status", {"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION", "topic has the value 'nope'"),
        ("replica-status", {"partition": "0"}, "INVALID_REQUEST", "name its topic"),
        ("replica-status", {"topic": "{t}", "broker": "7"}, "UNKNOWN_MEMBER_ID", "broker has the value 7"),
    ],
)
def test_wrong_filters(
    controller: InProcess, idle_topic: str, path: str, params: dict[str, str], error: str, words: str
) -> None:
    given = {name: value.replace("{t}", idle_topic) for name, value in params.items()}
    answer = controller.http.get(f"/v1/{path}", params=given)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"] == error
    assert words in answer.json()["error_message"]


# -- moves ----------------------------------------------------------------------------------------------------------


def test_a_leader_and_a_follower_move_under_a_writer(
    three_brokers: LocalCluster, controller: InProcess, admin: KafkaAdmin, cli: Cli, tmp_path: Path
) -> None:
    topic = placed(admin, [1, 2])
    rows = [replica(topic, broker, other(controller, topic, broker)) for broker in (1, 2)]
    assert cli.verify(rows[0])[0] == 1
    plan = tmp_path / "replicas.json"
    plan.write_text(json.dumps({"replicas": rows}))
    from_file = ("--replica-log-dirs-json-file", str(plan))
    with Writer(three_brokers.bootstrap_servers, topic) as writer:
        with throttled(admin, LOG_DIRS_RATE, 1, 2):
            fill(three_brokers.bootstrap_servers, topic, 2_000_000)
            code, out, _ = cli("log-dirs", "move", *from_file, "--no-wait")
            assert code == 0
            *lines, last = out.splitlines()
            assert [line.split(" to ")[1] for line in lines] == [row["log_dir"] for row in rows]
            assert re.fullmatch(r"Request id: \d+", last)

            def in_motion() -> bool:
                return all(
                    view.temporary_replica_log_dir == row["log_dir"]
                    and view.current_replica_log_dir != row["log_dir"]
                    and (view.temporary_replica_offset_lag or 0) > 0
                    and 0 < (view.temporary_replica_size or 0) < (view.current_replica_size or 0)
                    for view, row in zip(where(controller, topic), rows, strict=True)
                )

            await_true(in_motion, "both replicas are being moved")
            code, out, _ = cli("log-dirs", "verify", *from_file)
            assert code == 1
            assert out.count("is being moved from ") == 2
            shown = json.loads(cli("log-dirs", "describe", "--topic-list", topic, "--output", "json")[1])
            flags = {
                (row["broker"], one["path"]): replica["is_temporary"]
                for row in shown["brokers"]
                for one in row["log_dirs"]
                for replica in one["partitions"]
            }
            assert sorted(flags.values()) == [False, False, True, True]
            assert all(flags[row["broker"], row["log_dir"]] for row in rows)
        # Asked for again, it is followed to its end.
        code, out, _ = cli("log-dirs", "move", *from_file)
        assert (code, out.count("is there")) == (0, 2)
        request_id = last.split()[-1]
        code, out, _ = cli("reassign", "status", "--request", request_id, "--follow")
        assert (code, f"request {request_id} done: 1 of 1 partition done" in out) == (0, True)
        written = len(writer.acknowledged)
        await_true(lambda: len(writer.acknowledged) > written + 50, "the writer goes on")
    assert cli("log-dirs", "verify", *from_file)[0] == 0
    assert [
        (view.current_replica_log_dir, view.temporary_replica_log_dir) for view in where(controller, topic)
    ] == [(row["log_dir"], None) for row in rows]
    assert writer.failures == []
    values = [message.value() or b"" for message in raw_records(three_brokers, topic, 1)]
    numbers = [int(value[1:]) for value in values if len(value) != RECORD]
    assert numbers == list(range(len(numbers))) == sorted(writer.acknowledged)


def test_moving_back_cancels(
    three_brokers: LocalCluster, controller: InProcess, admin: KafkaAdmin, cli: Cli
) -> None:
    topic = placed(admin, [3, 1], size=3_000_000)
    (before,) = where(controller, topic, 3)
    there = replica(topic, 3, other(controller, topic, 3))
    back = replica(topic, 3, before.current_replica_log_dir or "")

    def being_moved() -> bool:
        (view,) = where(controller, topic, 3)
        return view.temporary_replica_log_dir is not None

    with throttled(admin, LOG_DIRS_RATE, 3, rate=100_000):
        assert moved(controller, there, validate_only=True) == [("NONE", "")]
        assert not being_moved()
        assert moved(controller, there) == moved(controller, there) == [("NONE", "")]
        assert being_moved()
        # Another controller, with requests of its own, takes it for one of another tool.
        request_id = cli.move(there, "--no-wait")[1].split()[-1]
        code, out, _ = cli.move(back)
        assert (code, "is there" in out) == (0, True), out
        assert where(controller, topic, 3) == [before]
    code, _, err = cli("reassign", "status", "--request", request_id, "--follow")
    assert code == 1
    assert f"error: {topic}-0: OPERATION_NOT_ATTEMPTED: request {int(request_id) + 1} has replaced it" in err
    code, out, _ = cli.verify(there, "--output", "json")
    assert code == 1
    (row,) = json.loads(out)["replicas"]
    assert (row["status"], row["current_replica_log_dir"]) == ("differs", back["log_dir"])
    # To where it is already: nothing to do.
    assert cli.move(back)[0] == 0


@pytest.fixture(scope="module")
def idle_topic(admin: KafkaAdmin) -> str:
    """One partition on brokers 1 and 2, which nobody moves."""
    return placed(admin, [1, 2])


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION", "of a topic that does not exist"),
        ({"topic": "a/b"}, "INVALID_TOPIC_EXCEPTION", "a/b"),
        ({"topic": ""}, "INVALID_TOPIC_EXCEPTION", "no name"),
        ({"partition": 1}, "UNKNOWN_TOPIC_OR_PARTITION", "0 to 0"),
        ({"partition": -1}, "UNKNOWN_TOPIC_OR_PARTITION", "0 to 0"),
        ({"broker": 9}, "UNKNOWN_MEMBER_ID", "broker 9 is not there, known are 1, 2, 3"),
        ({"broker": -1}, "UNKNOWN_MEMBER_ID", "broker -1"),
        ({"broker": 3}, "REPLICA_NOT_AVAILABLE", "no replica on broker 3"),
        ({"log_dir": ""}, "INVALID_REQUEST", "absolute path"),
        ({"log_dir": "any"}, "INVALID_REQUEST", "absolute path"),
        ({"log_dir": "data-1"}, "INVALID_REQUEST", "absolute path"),
        ({"log_dir": "/nowhere"}, "LOG_DIR_NOT_FOUND", "known are /"),
        ({"log_dir": "{dir}/"}, "LOG_DIR_NOT_FOUND", "known are /"),
    ],
)
def test_a_wrong_replica_starts_nothing(
    controller: InProcess, admin: KafkaAdmin, idle_topic: str, fields: dict[str, Any], error: str, words: str
) -> None:
    path = other(controller, idle_topic, 2)
    right = replica(idle_topic, 2, path)
    wrong = {**replica(idle_topic, 1, other(controller, idle_topic, 1)), **fields}
    wrong["log_dir"] = wrong["log_dir"].replace("{dir}", path)
    for more in ({}, {"validate_only": True}):
        first, second = moved(controller, right, wrong, **more)
        assert first == ("INVALID_REQUEST", "not started: other replicas of the request were refused")
        assert second[0] == error
        assert words in second[1]
    assert all(view.temporary_replica_log_dir is None for view in where(controller, idle_topic))
    (now,) = where(controller, idle_topic, 2)
    assert now.current_replica_log_dir != path


def test_wrong_lists_of_replicas(controller: InProcess, idle_topic: str) -> None:
    row = replica(idle_topic, 1, other(controller, idle_topic, 1))
    twice = moved(controller, row, {**row, "broker": 2}, row)
    assert [error for error, _ in twice] == ["INVALID_REQUEST", "LOG_DIR_NOT_FOUND", "INVALID_REQUEST"]
    assert "is named 2 times" in twice[0][1]
    for rows, words in (([], "replicas is empty"), ([row] * 10_001, "names 10001 replicas: at most 10000")):
        answer = controller.http.post("/v1/replica-log-dirs", json={"replicas": rows})
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
        assert words in answer.json()["error_message"]


def test_a_replica_that_is_being_reassigned_is_left_alone(controller: InProcess, admin: KafkaAdmin) -> None:
    topic = placed(admin, [1, 2], [1, 2])
    store = ReassignmentStore(session_of(controller.service))
    moves = [
        Move(topic=topic, partition=0, before=(1, 2), after=(2, 3), state="moving"),
        Move(topic=topic, partition=1, before=(1, 2), after=(2, 3)),
    ]
    record = store.create(
        lambda request_id: RequestRecord(request_id=request_id, created_at=0.0, principal="User:test"), moves
    )
    try:
        row = replica(topic, 1, other(controller, topic, 1))
        # Also one that stays on its broker, and one whose turn has not come.
        await_replica(controller, topic, 1, partition=1)
        stays = replica(topic, 2, other(controller, topic, 2))
        waits = replica(topic, 1, row["log_dir"], partition=1)
        for more in ({}, {"validate_only": True}):
            for error, message in moved(controller, row, stays, waits, **more):
                assert error == "REASSIGNMENT_IN_PROGRESS"
                assert f"by request {record.request_id}: wait for its end, or cancel it" in message
    finally:
        store.delete(record.request_id)


# -- status ---------------------------------------------------------------------------------------------------------


def test_replica_status_tells_how_far_a_follower_is_behind(
    controller: InProcess, admin: KafkaAdmin, cli: Cli
) -> None:
    topic = placed(admin, [1], size=2_000_000)

    def status() -> schemas.ReplicaStatusList:
        out = cli("replica-status", "--topic", topic, "--output", "json")[1]
        return schemas.ReplicaStatusList.model_validate_json(out)

    def lags() -> dict[int, int]:
        return {row.broker: row.lag for row in status().replicas}

    assert lags() == {1: 0}
    began = int(1000 * time.time())
    TopicConfigs(admin.requests, TIMEOUT).alter(topic, {"follower.replication.throttled.replicas": "*"})
    with throttled(admin, FOLLOWER_RATE, 3):
        assert Reassignments(admin.requests, timeout=TIMEOUT).alter({(topic, 0): [1, 3]}) == {}
        await_true(lambda: lags().get(3, 0) > 0, "broker 3 is behind")
        found = status()
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


# -- what is down ---------------------------------------------------------------------------------------------------


@contextmanager
def failing_directory(cluster: LocalCluster) -> Iterator[Path]:
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
    with failing_directory(three_brokers) as path:
        _check_offline(three_brokers, controller, admin, cli, topic, path)


def _check_offline(
    three_brokers: LocalCluster,
    controller: InProcess,
    admin: KafkaAdmin,
    cli: Cli,
    topic: str,
    failing_directory: Path,
) -> None:
    # It fails when the broker wants to make something in it.
    placed(admin, *[[3, 1]] * 20)

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
    await_true(lambda: [row.id for row in admin.brokers()] == [1, 2], "broker 3 is gone")
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


# -- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "told"),
    [
        (("move",), None, 2, "--topic is missing: give --topic, --partition, --broker and --log-dir, or --replica-"),
        (("verify", "--topic", "t", "--partition", "0", "--broker", "1"), None, 2, "--log-dir is missing"),
        (("move", "--topic", "t", *(file := ("--replica-log-dirs-json-file", "-"))), "{}", 2, "--topic has the value 't': leave it out"),
        (("move", *file), "", 2, "--replica-log-dirs-json-file has the value '<stdin>'"),
        (("move", *file), '{"replicas": []}', 2, "replicas is empty"),
        (("move", *file), '{"replicas": [{"topic": "t"}]}', 2, "replicas[0].partition: Field required; and 2 more"),
        (("verify", *file), '{"replicas": [{"topic": "t", "partition": "0", "broker": 1, "log_dir": "/x"}]}', 2, "replicas[0].partition has the value '0'"),
        (("describe", "--broker-list", "1,x"), None, 2, "--broker-list has the value '1,x'"),
        (("describe", "--broker-list", "1,9"), None, 1, "error: UNKNOWN_MEMBER_ID: broker has the value 9"),
        (("describe", "--topic-list", "nope"), None, 1, "error: UNKNOWN_TOPIC_OR_PARTITION: topic has the value 'nope'"),
        (("move", "--topic", "nope", "--partition", "0", "--broker", "1", "--log-dir", "/x"), None, 1, "error: UNKNOWN_TOPIC_OR_PARTITION: replica nope-0 on broker 1"),
    ],
)  # fmt: skip
def test_wrong_commands(
    cli: Cli, arguments: tuple[str, ...], stdin: str | None, code: int, told: str
) -> None:
    found, out, err = cli("log-dirs", *arguments, stdin=stdin)
    assert (found, out) == (code, "")
    assert told in err, err


def test_verify_of_what_does_not_exist_names_each(cli: Cli, controller: InProcess, idle_topic: str) -> None:
    (view,) = where(controller, idle_topic, 1)
    path = view.current_replica_log_dir or ""
    rows = [replica(idle_topic, 1, path), replica("nope", 1, path), replica(idle_topic, 3, path)]
    code, out, _ = cli(
        "log-dirs", "verify", "--replica-log-dirs-json-file", "-", stdin=json.dumps({"replicas": rows})
    )
    assert code == 1
    there, unknown, absent = out.splitlines()[1:]
    assert there.split()[-2:] == ["is", "there"]
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic has the value 'nope'" in unknown
    assert f"REPLICA_NOT_AVAILABLE: partition {idle_topic}-0 has no replica on broker 3" in absent
    code, out, _ = cli.verify(rows[0], "--output", "json")
    assert (code, json.loads(out)["complete"]) == (0, True)
