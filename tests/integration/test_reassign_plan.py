"""Plans from a real cluster, which Kafka's own tool carries out and verifies."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.local import LocalCluster
from tests.integration.reassigning import create_placed, placed_everywhere
from tests.servers import TIMEOUT, await_true, unique_name

SIZE = 20_000
RECORD = 500_000


class Planning:
    """``ordered-kafka reassign plan`` beside Kafka's own tool."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self._runner = CliRunner(env={"ORDERED_KAFKA_CONTROLLER": cluster.controller_url})
        self.admin = KafkaAdmin(cluster.bootstrap_servers)

    def plan(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        result = self._runner.invoke(app, ["reassign", "plan", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def planned(self, *arguments: str) -> tuple[dict[str, Any], Path]:
        """The plan in Kafka's JSON, and a file with it."""
        code, out, err = self.plan(*arguments, "--output", "json")
        assert code == 0, err
        path = self.directory / f"{unique_name('plan')}.json"
        path.write_text(out)
        found: dict[str, Any] = json.loads(out)
        assert list(found) == ["version", "partitions"]
        return found, path

    def carry_out_by_kafkas_tool(self, path: Path, done: Callable[[], bool]) -> None:
        """By ``--execute``; when it is ``done``, ``--verify`` must say so, too."""
        file = ("--reassignment-json-file", str(path))
        self._kafkas(*file, "--execute")
        await_true(done, "the end of the plan", timeout=60.0)
        told = self._kafkas(*file, "--verify")
        assert "still in progress" not in told
        assert "no active reassignment" not in told
        assert "is not being moved" not in told

    def carry_out(self, found: dict[str, Any]) -> None:
        """By the controller."""
        rows = [schemas.PartitionReassignment(**row) for row in found["partitions"]]
        with ControllerClient(self.cluster.controller_url) as client:
            begun = client.reassign(schemas.ReassignmentRequest(partitions=rows, additional=True))
            request_id = begun.request_id
            assert request_id is not None, begun
            await_true(lambda: client.reassignment(request_id).complete, "the end of the plan", timeout=60.0)
            assert client.reassignment(request_id).state == "done"

    def _kafkas(self, *arguments: str) -> str:
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        ended = kafka_tool("kafka-reassign-partitions", *servers, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def generated(self, topic: str) -> str:
        """What Kafka's own ``--generate`` prints."""
        path = self.directory / f"{unique_name('topics')}.json"
        path.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
        return self._kafkas("--topics-to-move-json-file", str(path), "--broker-list", "1,2,3", "--generate")

    def create(self, *replicas: Sequence[int], sizes: Sequence[int] = ()) -> str:
        """A topic with these replicas of its partitions, and so many bytes in each."""
        topic = unique_name("planned")
        create_placed(self.admin, topic, replicas)
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "acks": "all"})
        for partition, size in enumerate(sizes):
            for start in range(0, size, RECORD):
                producer.produce(topic, os.urandom(min(RECORD, size - start)), partition=partition)
        assert producer.flush(TIMEOUT) == 0
        return topic

    def await_replicas(self, topic: str, holds: Callable[[list[tuple[int, ...]]], bool]) -> None:
        """Until every broker shows replicas like these: the next plan may ask any."""
        await_true(
            lambda: placed_everywhere(self.admin, topic, holds), f"all brokers show the end for {topic}"
        )

    def log_dirs(self, topic: str, broker: int) -> dict[int, str]:
        """Partition -> log directory, of the replicas that a broker has; temporary ones are not counted."""
        found = LogDirs(self.admin.requests).describe([broker])[broker]
        assert isinstance(found, list), found
        return {
            row.partition: one.path
            for one in found
            for row in one.replicas
            if row.topic == topic and not row.is_future
        }


def hosted(shown: list[tuple[int, ...]]) -> Counter[int]:
    """How many of the replicas each broker has."""
    return Counter(broker for replicas in shown for broker in replicas)


@pytest.fixture(scope="module")
def planning(three_brokers: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planning]:
    found = Planning(three_brokers, tmp_path_factory.mktemp("plans"))
    with closing(found.admin):
        yield found


@pytest.mark.long
def test_a_drain_is_printed_as_kafkas_generate_prints_and_carried_out_by_kafkas_tool(
    planning: Planning,
) -> None:
    topic = planning.create((1, 2), (1, 3), (2, 3), (1, 2), sizes=[SIZE] * 4)
    code, out, err = planning.plan("--drain", "1", "--topics", topic)
    assert code == 0, err
    heading, current, blank, proposal, proposed = out.splitlines()
    kafkas = planning.generated(topic).splitlines()
    assert (heading, blank, proposal) == (kafkas[0], kafkas[2], kafkas[3])
    rows = json.loads(current)["partitions"]
    assert [row["partition"] for row in rows] == [0, 1, 3]
    # Kafka's tool prints the topic's other partitions, too.
    kept = [row for row in json.loads(kafkas[1])["partitions"] if row["partition"] != 2]
    assert current == json.dumps({"version": 1, "partitions": kept}, separators=(",", ":"))
    assert current.startswith(kafkas[1][: kafkas[1].index('"partition":0') + 1])
    assert "3 partitions to reassign: 3 replicas to copy" in err
    first, *table = err.splitlines()
    assert "3 preferred leaders to change" in first
    assert [line.split()[:5] for line in table[1:]] == [
        ["1", "3", "0", "3", "0"],
        ["2", "3", "4", "1", "2"],
        ["3", "2", "4", "0", "2"],
    ]

    found, path = planning.planned("--drain", "1", "--topics", topic)
    assert json.loads(proposed) == found

    def is_drained(shown: list[tuple[int, ...]]) -> bool:
        return [sorted(replicas) for replicas in shown] == [[2, 3]] * 4 and Counter(
            replicas[0] for replicas in shown
        ) == {2: 2, 3: 2}

    planning.carry_out_by_kafkas_tool(path, lambda: placed_everywhere(planning.admin, topic, is_drained))
    code, out, err = planning.plan("--drain", "1", "--topics", topic)
    assert (code, out, err) == (0, "Nothing is to be done: all is as asked.\n", "")
    assert planning.planned("--drain", "1", "--topics", topic)[0] == {"version": 1, "partitions": []}


def test_brokers_are_filled_and_balanced(planning: Planning) -> None:
    topic = planning.create(*[(1, 2)] * 6)
    found, _ = planning.planned("--spread-onto", "3", "--topics", topic)
    assert len(found["partitions"]) == 4
    assert all(3 in row["replicas"] for row in found["partitions"])
    planning.carry_out(found)
    planning.await_replicas(topic, lambda shown: hosted(shown) == {1: 4, 2: 4, 3: 4})
    for arguments in (("--spread-onto", "3"), ("--balance",), ("--balance", "--brokers", "1,2,3")):
        assert planning.planned(*arguments, "--topics", topic)[0]["partitions"] == []


@pytest.mark.long
def test_several_goals_are_one_plan_and_a_second_one_is_empty(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster", brokers=4, racks=["a", "a", "b", "a"])
    try:
        cluster.up()
        planning = Planning(cluster, tmp_path)
        with closing(planning.admin):
            topic = planning.create(*[(1, 2)] * 4, sizes=[SIZE] * 4)
            goals = ("--drain", "1", "--fix-racks", "--balance", "--topics", topic)
            found, _ = planning.planned(*goals)
            planning.carry_out(found)
            # Broker 3 is the only one of its rack.
            planning.await_replicas(topic, lambda shown: hosted(shown) == {2: 2, 3: 4, 4: 2})
            assert planning.plan(*goals) == (0, "Nothing is to be done: all is as asked.\n", "")
    finally:
        cluster.down()


def test_replication_factors_and_the_bytes_they_take(planning: Planning) -> None:
    topic = planning.create((1,), (2,), sizes=[SIZE] * 2)
    with ControllerClient(planning.cluster.controller_url) as client:
        goal = schemas.ReassignmentPlanRequest(
            goal="replication_factor", replication_factor=3, topics=[topic]
        )
        found = client.plan_reassignment(goal)
    assert (found.replicas_to_move, found.leaders_to_move) == (4, 0)
    assert 4 * SIZE < found.bytes_to_move < 5 * SIZE
    assert {row.broker: row.after.replicas for row in found.brokers} == {1: 2, 2: 2, 3: 2}
    assert [row.replicas for row in found.current.partitions] == [[1], [2]]
    assert [sorted(row.replicas) for row in found.partitions] == [[1, 2, 3]] * 2


@pytest.mark.long
def test_log_directories_are_emptied_and_balanced(planning: Planning) -> None:
    topic = planning.create(*[(2,)] * 4, sizes=[SIZE] * 4)
    path = planning.log_dirs(topic, 2)[0]
    found, file = planning.planned("--empty-log-dir", f"2:{path}", "--topics", topic)
    inside = [partition for partition, where in planning.log_dirs(topic, 2).items() if where == path]
    assert [row["partition"] for row in found["partitions"]] == sorted(inside)
    (other,) = {directory for row in found["partitions"] for directory in row["log_dirs"]}
    assert other != path
    planning.carry_out_by_kafkas_tool(file, lambda: set(planning.log_dirs(topic, 2).values()) == {other})
    assert planning.planned("--empty-log-dir", f"2:{path}", "--topics", topic)[0]["partitions"] == []

    found, _ = planning.planned("--balance-log-dirs", "2", "--topics", topic)
    assert [row["log_dirs"] for row in found["partitions"]] == [[path]] * 2
    planning.carry_out(found)
    assert sorted(Counter(planning.log_dirs(topic, 2).values()).values()) == [2, 2]
    assert planning.planned("--balance-log-dirs", "2", "--topics", topic)[0]["partitions"] == []


def test_removed_partitions_are_planned_apart(planning: Planning) -> None:
    topic = unique_name("shrunk")
    with ControllerClient(planning.cluster.controller_url) as client:
        replicas = {partition: [1 if partition < 4 else 2] for partition in range(8)}
        client.create_topic(schemas.CreateTopicRequest(topic=topic, assignments={0: replicas[0]}))
        for count in (8, 4):
            item = schemas.TopicPartitionCount(
                topic=topic,
                partition_count=count,
                assignments={p: replicas[p] for p in range(1, 8)} if count == 8 else None,
            )
            (done,) = client.alter_partition_counts(
                schemas.PartitionCountsRequest(topics=[item]), wait=TIMEOUT
            ).topics
            assert done.error == "NONE", done
        goal = schemas.ReassignmentPlanRequest(goal="balance", topics=[topic], brokers=[1, 2])
        found = client.plan_reassignment(goal)
    moved = {row.partition: row.replicas for row in found.partitions}
    # Together they are even: 4 on each. Live ones are all on broker 1, though, and the removed ones on broker 2.
    assert len([p for p in moved if p < 4]) == 2
    assert len([p for p in moved if p >= 4]) == 2


def test_partitions_on_the_move_are_left_out(planning: Planning, three_brokers: LocalCluster) -> None:
    # A follower fetches 1 MB at once, whatever the throttle says.
    topic = planning.create((1,), (1,), sizes=[5_000_000, 0])
    with ControllerClient(three_brokers.controller_url) as client:
        row = schemas.PartitionReassignment(topic=topic, partition=0, replicas=[2])
        asked = schemas.ReassignmentRequest(partitions=[row], throttle=10_000, additional=True)
        begun = client.reassign(asked)
        assert begun.request_id is not None, begun
        try:
            goal = schemas.ReassignmentPlanRequest(goal="drain", brokers=[1], topics=[topic])
            found = client.plan_reassignment(goal)
        finally:
            client.cancel_reassignment(begun.request_id)
        assert [row.partition for row in found.partitions] == [1]
        assert found.warnings == [f"left out, since being reassigned already: {topic}-0"]
        await_true(lambda: client.reassignment(begun.request_id or 0).complete, "the end of the move")


def test_a_second_plan_goes_by_where_the_moves_of_the_first_go(
    planning: Planning, three_brokers: LocalCluster
) -> None:
    topic = planning.create(*[(1,)] * 6, sizes=[3_000_000] * 6)
    goal = schemas.ReassignmentPlanRequest(goal="balance", topics=[topic])
    with ControllerClient(three_brokers.controller_url) as client:
        first = client.plan_reassignment(goal)
        assert len(first.partitions) == 4
        rows = [schemas.PartitionReassignment(**row.model_dump()) for row in first.partitions]
        asked = schemas.ReassignmentRequest(partitions=rows, throttle=10_000, additional=True)
        begun = client.reassign(asked)
        assert begun.request_id is not None, begun
        try:
            second = client.plan_reassignment(goal)
            assert client.reassignment(begun.request_id).complete is False
        finally:
            client.cancel_reassignment(begun.request_id)
        assert second.partitions == []
        assert [(row.before.replicas, row.after.replicas) for row in second.brokers] == [(2, 2)] * 3
        await_true(lambda: client.reassignment(begun.request_id or 0).complete, "the end of the moves")


def test_a_limit_that_a_plan_would_break_is_told(planning: Planning) -> None:
    topic = planning.create((1,), (1,))
    with ControllerClient(planning.cluster.controller_url) as client:
        goal = schemas.ReassignmentPlanRequest(goal="drain", brokers=[1], topics=[topic])
        try:
            for broker in (2, 3):
                client.set_guard_rails(broker, schemas.GuardRailsRequest(max_partitions=1))
            with pytest.raises(RequestError, match="2 of 2 replicas have no place") as refused:
                client.plan_reassignment(goal)
            assert refused.value.name == "GUARD_RAILS"
        finally:
            for broker in (2, 3):
                client.set_guard_rails(broker, schemas.GuardRailsRequest(max_partitions=None))
        assert client.plan_reassignment(goal).replicas_to_move == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--drain", "9"), 1, "UNKNOWN_MEMBER_ID: brokers has the value 9, which is no broker: known are 1, 2, 3"),
        (("--drain", "1,2,3"), 1, "no other broker is up"),
        (("--fix-racks",), 1, "every broker must have one (broker.rack), but 1, 2, 3 have none"),
        (("--replication-factor", "4"), 1, "INVALID_REPLICATION_FACTOR"),
        (("--balance", "--topics", "missing"), 1, "topics has the value missing, which does not exist"),
        (("--empty-log-dir", "1:/nowhere"), 1, "LOG_DIR_NOT_FOUND: log_dirs has the value '/nowhere': broker 1 has "),
        ((), 2, "the goal is missing: give one of --drain, --spread-onto"),
        (("--drain", "1", "--spread-onto", "2"), 2, "the goal has the value '--drain and --spread-onto': give one of them"),
        (("--drain", "x"), 2, "--drain has the value 'x': whole numbers"),
        (("--drain", ""), 2, "--drain has the value '': name the id of one broker"),
        (("--spread-onto", "3", "--brokers", "1"), 2, "--brokers has the value '1': it goes with --balance"),
        (("--balance", "--brokers", ","), 2, "--brokers has the value ','"),
        (("--balance", "--topics", ""), 2, "--topics has the value ''"),
        (("--empty-log-dir", "/data"), 2, "--empty-log-dir has the value '/data': ID:PATH is needed"),
        (("--empty-log-dir", "1:/a", "--empty-log-dir", "2:/a"), 2, "log directories of one broker"),
        (("--replication-factor", "0"), 2, "--replication-factor"),
    ],
)  # fmt: skip
def test_wrong_goals_are_named(planning: Planning, arguments: tuple[str, ...], code: int, words: str) -> None:
    found, out, err = planning.plan(*arguments)
    assert (found, out) == (code, "")
    assert words in err.replace("\n", " ")
