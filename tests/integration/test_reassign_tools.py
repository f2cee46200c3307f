"""``ordered-kafka reassign`` beside Kafka's own tool, which is the judge of its texts and of what it has done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.integration.reassigning import await_placed, create_placed
from tests.servers import TIMEOUT, await_true, unique_name

SLOW = "20000"
"""Bytes per second: the records of :func:`written` take longer at it than a test."""
RECORDS, SIZE = 40, 250_000


class Tools:
    """Both command lines for a cluster; each gives its exit code, what it prints, and its errors."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.environment = {"ORDERED_KAFKA_CONTROLLER": cluster.controller_url}
        self._runner = CliRunner(env=self.environment)
        self.admin = KafkaAdmin(cluster.bootstrap_servers)

    def ours(self, command: str, *arguments: str) -> tuple[int, str, str]:
        result = self._runner.invoke(app, ["reassign", command, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def kafkas(self, *arguments: str) -> str:
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        ended = kafka_tool("kafka-reassign-partitions", *servers, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return without_throttles(ended.stdout)

    def plan(self, rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
        """The options that name a file with these rows."""
        path = self.directory / f"{unique_name('plan')}.json"
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        return "--reassignment-json-file", str(path)

    def request_id(self, told: str) -> str:
        (line,) = [line for line in told.splitlines() if line.startswith("Request id: ")]
        return line.removeprefix("Request id: ")


def without_throttles(told: str) -> str:
    """What Kafka's tool says of throttles it sets and clears is not ours to say."""
    marks = ("Clearing broker-level throttles", "Clearing topic-level throttles", "The inter-broker throttle",
             "The replica-alter-dir throttle", "Warning: You must run --verify")  # fmt: skip
    return "".join(line for line in told.splitlines(keepends=True) if not line.startswith(marks))


@pytest.fixture(scope="module")
def tools(three_brokers: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    found = Tools(three_brokers, tmp_path_factory.mktemp("plans"))
    with closing(found.admin):
        yield found


@pytest.fixture(autouse=True)
def left_alone(tools: Tools) -> Iterator[None]:
    """What a test that failed has left going would fail the next ones."""
    yield
    tools.ours("cancel")


def created(tools: Tools, *replicas: list[int]) -> str:
    """A topic with these replicas of its partitions, that no controller manages."""
    topic = unique_name("reassigned")
    create_placed(tools.admin, topic, replicas)
    return topic


def written(tools: Tools, topic: str, *partitions: int) -> None:
    """10 MB in each of the partitions."""
    producer = Producer({"bootstrap.servers": tools.cluster.bootstrap_servers, "acks": "all"})
    for partition in partitions:
        for _ in range(RECORDS):
            producer.produce(topic, os.urandom(SIZE), partition=partition)
            producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def log_dirs(tools: Tools, broker: int) -> list[Path]:
    (found,) = [one for one in tools.cluster.description()["brokers"] if one["id"] == broker]
    return [Path(path) for path in found["log_dirs"]]


def dir_of(tools: Tools, topic: str, partition: int, broker: int) -> tuple[str, str]:
    """The log directory that a replica is in, and the broker's other one."""
    first, second = log_dirs(tools, broker)
    name = f"{topic}-{partition}"
    # Metadata has a new topic before its brokers have made its logs.
    await_true(
        lambda: (first / name).is_dir() or (second / name).is_dir(), f"broker {broker} has made {name}"
    )
    return (str(first), str(second)) if (first / name).is_dir() else (str(second), str(first))


def row(topic: str, partition: int, replicas: list[int], **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": replicas, **more}


@pytest.mark.long
def test_verify_and_list_agree_with_kafkas_tool(tools: Tools) -> None:
    topic = created(tools, [1, 2], [1, 2], [2, 3])
    written(tools, topic, 0, 1)
    here, other = dir_of(tools, topic, 1, 1)
    still, elsewhere = dir_of(tools, topic, 2, 2)
    to_three = str(log_dirs(tools, 3)[1])
    moved = [
        row(topic, 0, [1, 3], log_dirs=["any", to_three]),
        row(topic, 1, [1, 2], log_dirs=[other, "any"]),
    ]
    plan = tools.plan(moved)
    slow = ("--throttle", SLOW, "--replica-alter-log-dirs-throttle", SLOW)
    code, told, errors = tools.ours("execute", *plan, *slow, "--no-wait")
    assert code == 0, errors
    request = tools.request_id(told)

    def view() -> Any:
        return json.loads(tools.ours("status", "--request", request, "--output", "json")[1])

    await_true(lambda: view()["moving"] == 2 and view()["numerator"] > 0, "both partitions move")
    assert tools.ours("list")[:2] == (0, tools.kafkas("--list"))
    asked = tools.plan(
        [
            *moved,
            row(topic, 2, [2, 3], log_dirs=[still, "any"]),
            row(unique_name("gone"), 0, [2, 1]),
        ]
    )
    told_by_kafka = tools.kafkas("--verify", "--preserve-throttles", *asked)
    assert tools.ours("verify", *asked)[:2] == (1, told_by_kafka)
    assert f"Reassignment of partition {topic}-0 is still in progress." in told_by_kafka
    assert f"Reassignment of replica {topic}-1-1 is still in progress." in told_by_kafka
    otherwise = tools.plan(
        [row(topic, 1, [2, 1], log_dirs=["any", here]), row(topic, 2, [3, 2], log_dirs=["any", elsewhere])]
    )
    told_by_kafka = tools.kafkas("--verify", "--preserve-throttles", *otherwise)
    assert tools.ours("verify", *otherwise)[:2] == (1, told_by_kafka)
    assert "instead of" in told_by_kafka

    _, table, _ = tools.ours("status", "--request", request, "--progress")
    (line,) = [line.split() for line in table.splitlines() if line.split()[1:3] == ["0", "3"]]
    assert (line[0], line[3], line[-1]) == (topic, to_three, "REASSIGNMENT_IN_PROGRESS")
    code, told, errors = tools.ours(
        "throttle", "--request", request, "--throttle", "none", "--replica-alter-log-dirs-throttle", "none"
    )
    assert (code, told) == (0, f"request {request} has throttle none, log dirs throttle none\n"), errors
    code, told, errors = tools.ours("status", "--follow")
    assert code == 0, errors
    assert told.startswith(f"request {request} done: 2 of 2 partitions done; ")
    # Both tools ask any broker, and these learn of the end one after another.
    await_placed(tools.admin, topic, [[1, 3], [1, 2], [2, 3]])
    assert tools.ours("verify", *plan)[:2] == (0, tools.kafkas("--verify", *plan))
    assert tools.ours("list")[:2] == (0, "No partition reassignments found.\n")


@pytest.mark.long
def test_execute_prints_what_kafkas_tool_does_and_is_undone(tools: Tools) -> None:
    topic = created(tools, [1, 2], [2, 3], [3, 1])
    plan = tools.plan([row(topic, 2, [2, 1]), row(topic, 0, [3, 2])])
    checked = tools.ours("execute", *plan, "--validate-only")
    assert checked[:2] == (0, "2 partitions could be reassigned\n"), checked
    code, told, errors = tools.ours("execute", *plan)
    assert code == 0, errors
    request = tools.request_id(told)
    await_placed(tools.admin, topic, [[3, 2], [2, 3], [2, 1]])
    assert tools.ours("verify", *plan)[0] == 0
    code, back, errors = tools.ours("execute", "--rollback", request, "--output", "json")
    assert code == 0, errors
    ended = json.loads(back)
    assert (ended["request_id"], ended["rollback_of"], ended["state"]) == (
        int(request) + 1,
        int(request),
        "done",
    )
    assert tools.request_id(errors) == str(ended["request_id"])  # on stderr, where stdout is for JSON
    await_placed(tools.admin, topic, [[1, 2], [2, 3], [3, 1]])
    code, seen, _ = tools.ours("verify", *plan, "--output", "json")
    assert (code, json.loads(seen)["complete"]) == (1, False)
    by_kafka = tools.kafkas("--execute", *plan)
    assert told[: len(by_kafka)] == by_kafka
    await_placed(tools.admin, topic, [[3, 2], [2, 3], [2, 1]])
    await_true(lambda: tools.ours("verify", *plan)[0] == 0, "what Kafka's tool executes is done")
    assert tools.kafkas("--verify", *plan) == tools.ours("verify", *plan)[1]


@pytest.mark.long
def test_reassignments_of_kafkas_tool_are_seen_and_refuse_others(tools: Tools) -> None:
    topic = created(tools, [1, 2], [1, 2])
    written(tools, topic, 0)
    plan = tools.plan([row(topic, 0, [1, 3])])
    tools.kafkas("--execute", *plan, "--throttle", SLOW)
    try:
        code, told, _ = tools.ours("list")
        expected = f"{topic}-0: replicas: 1,3,2. adding: 3. removing: 2.\n"
        assert (code, told) == (0, f"Current partition reassignments:\n{expected}")
        assert tools.ours("verify", *plan)[0] == 1
        other = tools.plan([row(topic, 1, [2, 1])])
        for refused in (plan, other, (*plan, "--additional")):
            code, told, errors = tools.ours("execute", *refused)
            assert (code, told) == (1, "")
            assert errors.startswith("error: REASSIGNMENT_IN_PROGRESS: "), errors
            assert "adding [3], removing [2]" in errors
        code, told, errors = tools.ours("execute", *other, "--additional")
        assert code == 0, errors
    finally:
        tools.kafkas("--cancel", *plan)
    await_placed(tools.admin, topic, [[1, 2], [2, 1]])
    code, told, _ = tools.ours("verify", *plan)
    assert (code, "but replica set is 1,2 rather than 1,3." in told) == (1, True)
    assert tools.ours("list")[1] == "No partition reassignments found.\n"


@pytest.fixture
def slow_request(tools: Tools) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A topic whose partition 0 moves slowly, and the process that watches it."""
    topic = created(tools, [1, 2], [1, 2])
    written(tools, topic, 0)
    rows = [row(topic, 0, [1, 3]), row(topic, 1, [1, 3])]
    command = [sys.executable, "-m", "spark_ordered_kafka.cli", "reassign", "execute", *tools.plan(rows)]
    watching = subprocess.Popen(
        [*command, "--throttle", SLOW],
        env=os.environ | tools.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield topic, watching
    finally:
        watching.kill()
        watching.wait(TIMEOUT)


@pytest.mark.long
def test_ctrl_c_ends_the_watching_and_cancel_the_request(
    tools: Tools, slow_request: tuple[str, subprocess.Popen[str]]
) -> None:
    topic, watching = slow_request
    assert watching.stdout is not None
    assert watching.stderr is not None
    request = watching.stderr.readline().removeprefix("request ").partition(":")[0]
    await_true(
        lambda: json.loads(tools.ours("status", "--output", "json")[1])["done"] == 1,
        "the empty partition",
        4 * TIMEOUT,
    )
    watching.send_signal(signal.SIGINT)
    out, errors = watching.communicate(timeout=4 * TIMEOUT)
    assert watching.returncode == 130, errors
    assert f"\nRequest id: {request}\n" in out
    last = errors.splitlines()[-1]
    assert last == (
        f"request {request} continues: `ordered-kafka reassign status --request {request} --follow` shows it, "
        f"`ordered-kafka reassign cancel --request {request}` takes it back"
    )
    code, told, errors = tools.ours("cancel", "--request", request, "--validate-only")
    assert code == 0, errors
    assert f"{topic}-0: could be cancelled\n" in told
    code, told, errors = tools.ours("cancel", "--request", request)
    assert code == 0, errors
    assert told == f"{topic}-0: cancelled\n{topic}-1: done\n"
    code, told, errors = tools.ours("cancel")
    assert (code, told) == (1, "")
    assert [line.split(": ")[1] for line in errors.splitlines()] == ["NO_REASSIGNMENT_IN_PROGRESS"] * 2
    for arguments in (
        ("throttle", "--throttle", "none"),
        ("status", "--request", "99999"),
        ("cancel", "--request", "99999"),
    ):
        code, told, errors = tools.ours(*arguments)
        assert (code, told) == (1, ""), arguments
        assert errors.startswith(("error: INVALID_REQUEST: ", "error: NO_REASSIGNMENT_IN_PROGRESS: ")), errors
    _, told, _ = tools.ours("status")
    assert told.splitlines()[1].split() == ["state", "cancelled"]
    _, told, _ = tools.ours("list", "--requests")
    assert told.splitlines()[1].split()[:2] == [request, "cancelled"]


@pytest.mark.long
def test_a_plan_that_is_wrong_is_refused_with_each_reason(tools: Tools) -> None:
    topic = created(tools, [1, 2], [1, 2])
    rows = [row(topic, 0, [1, 9]), row(topic, 1, [1, 1]), row(topic, 7, [1, 2]), row("no such", 0, [1, 2])]
    code, told, errors = tools.ours("execute", *tools.plan(rows))
    assert (code, told) == (1, "")
    assert [line.split(": ")[1] for line in errors.splitlines()] == [
        "UNKNOWN_MEMBER_ID", "INVALID_REPLICA_ASSIGNMENT", "INVALID_REPLICA_ASSIGNMENT", "INVALID_TOPIC_EXCEPTION"
    ]  # fmt: skip
    for plan, error in (
        ([row(topic, 0, [1, 2])], "INVALID_REQUEST"),
        ([row(topic, 0, [2, 1])] * 2, "INVALID_REQUEST"),
        ([], "INVALID_REQUEST"),
        ([row(topic, 0, [1, 2, 3])], "INVALID_REPLICA_ASSIGNMENT"),
        ([row(topic, 0, [2, 1], log_dirs=["any"])], "INVALID_REPLICA_ASSIGNMENT"),
        ([row(topic, 0, [2, 1], log_dirs=["any", "/nowhere"])], "LOG_DIR_NOT_FOUND"),
    ):
        code, told, errors = tools.ours("execute", *tools.plan(plan))
        assert (code, told) == (1, "")
        assert errors.startswith(f"error: {error}: "), errors
    code, told, _ = tools.ours("execute", *tools.plan(rows), "--output", "json")
    assert (code, json.loads(told)["request_id"]) == (1, None)
