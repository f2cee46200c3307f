"""``ordered-kafka doctor`` on real servers: what is wrong is found, with a command that helps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kazoo.client import KazooClient
from typer.testing import CliRunner

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.cli.findings import EXIT_CODES
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.group_admin import GroupAdmin
from spark_ordered_kafka.controller.state.paths import topic_path
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.integration.driven import delete_topic
from tests.integration.hanging import hang
from tests.integration.keepers import started
from tests.servers import TIMEOUT, await_true, commit_offsets, create_topic, unique_name
from tests.streams import NumberedWriter, change, create

Found = list[dict[str, str]]


class Doctor:
    def __init__(self, servers: str, url: str, *arguments: str) -> None:
        self._arguments = arguments
        self.runner = CliRunner(env={"BOOTSTRAP_SERVERS": servers, "ORDERED_KAFKA_CONTROLLER": url})

    def __call__(self) -> Found:
        """All findings; the exit code is that of the worst."""
        done = self.runner.invoke(app, ["doctor", "--output", "json", *self._arguments])
        assert done.exit_code in (0, 1, 2), done.stderr
        assert done.stdout, done.stderr
        body = json.loads(done.stdout)
        assert done.exit_code == EXIT_CODES[body["worst"]]
        assert all(bool(one["advice"]) == (one["status"] != "ok") for one in body["findings"]), body
        found: Found = body["findings"]
        return found


@contextmanager
def znode(cluster: LocalCluster, path: str, data: bytes) -> Iterator[None]:
    """What a znode of the cluster's controllers holds meanwhile."""
    with started(KazooClient(cluster.zookeeper)) as client:
        before, _ = client.get(path)
        client.set(path, data)
        try:
            yield
        finally:
            client.set(path, before)


def about(findings: Found, *words: str) -> Found:
    return [one for one in findings if all(word in one["message"] for word in words)]


@pytest.fixture
def doctor(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Looks at the topics and groups of all tests, however long a busy machine takes for them."""
    monkeypatch.setattr("spark_ordered_kafka.cli.doctor._PATIENCE", 10 * TIMEOUT)
    return Doctor(cluster.bootstrap_servers, cluster.controller_url)


def test_what_is_well_is_said(doctor: Doctor, cluster: LocalCluster, topic_name: str) -> None:
    # Kafka demands no more replicas in sync than there are.
    create(cluster, topic_name, 2, **{"min.insync.replicas": "2"})
    NumberedWriter(cluster, topic_name).write()
    found = doctor()
    assert about(found, topic_name) == []
    by_check: dict[str, set[str]] = {}
    for one in found:
        by_check.setdefault(one["check"], set()).add(one["status"])
    for check in ("versions", "controllers", "clocks", "rights", "brokers"):
        assert by_check[check] == {"ok"}, (check, found)
    assert about(found, "broker 1 is reached at ")
    assert about(found, "of version", f"{cluster.controller_url} leads")
    # Without a login to ZooKeeper.
    (znodes,) = about(found, "every client that reaches ZooKeeper may alter")
    assert "zookeeper.digest.username" in znodes["advice"]
    assert [one for one in found if one["check"] == "zookeeper" and one["status"] == "error"] == []


def test_slow_servers_do_not_keep_it(
    doctor: Doctor, cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, topic_name, 1)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"of-{topic_name}"})
    commit_offsets(consumer, [TopicPartition(topic_name, 0, 0)])
    consumer.close()
    for name in ("_PATIENCE", "_PATIENCE_EACH"):
        monkeypatch.setattr(f"spark_ordered_kafka.cli.doctor.{name}", 0.0)
    unseen = [one["check"] for one in about(doctor(), "were not looked at within 0 s")]
    assert unseen == ["topics", "groups"]


@pytest.mark.long
def test_what_is_deleted_meanwhile_is_no_error(
    doctor: Doctor, cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, topic_name, 1)
    group = f"of-{topic_name}"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    commit_offsets(consumer, [TopicPartition(topic_name, 0, 0)])
    consumer.close()
    topics, groups = ControllerClient.kafka_topics, GroupAdmin.groups

    def listed_topics(self: ControllerClient, **asked: Any) -> Any:
        found = topics(self, **asked)
        done = doctor.runner.invoke(app, ["topics", "delete", "--topic", topic_name, "--yes"])
        assert done.exit_code == 0, done.stderr
        return found

    def listed_groups(self: GroupAdmin) -> Any:
        found = groups(self)
        done = doctor.runner.invoke(app, ["groups", "delete", "--group", group, "--yes"])
        # Kafka 3 drops a group with its last offset, which was the topic's.
        assert done.exit_code == 0 or "GROUP_ID_NOT_FOUND" in done.stderr, done.stderr
        return found

    monkeypatch.setattr(ControllerClient, "kafka_topics", listed_topics)
    monkeypatch.setattr(GroupAdmin, "groups", listed_groups)
    assert about(doctor(), topic_name) == []


@pytest.mark.long
def test_topics_that_are_gone_or_cannot_be_read_are_found(doctor: Doctor, cluster: LocalCluster) -> None:
    gone, again, unreadable = (create(cluster, unique_name(f"0-{prefix}"), 1) for prefix in "abc")
    for topic in (gone, again):
        delete_topic(cluster, topic)
    create_topic(cluster.bootstrap_servers, again, 1)
    with znode(cluster, topic_path(unreadable), b"{}"):
        found = {topic: about(doctor(), topic) for topic in (gone, again, unreadable)}
    assert [[one["status"] for one in rows] for rows in found.values()] == [["error"]] * 3, found
    messages, advice = ([rows[0][field] for rows in found.values()] for field in ("message", "advice"))
    assert "is under management but not in Kafka any more" in messages[0]
    assert "was deleted and created again outside of this system" in messages[1]
    assert messages[2].endswith(
        f"znode {topic_path(unreadable)} does not hold a TopicRecord: topic_id: Field required; initial_partition_count: "
        "Field required; undeleted_partition_count: Field required and 3 more"
    )
    assert ["topics delete" in advice[0], "topics adopt" in advice[1], "backup" in advice[2]] == [True] * 3
    # What is advised helps.
    for words in (["delete", "--topic", gone, "--yes"], ["adopt", "--topic", again]):
        done = doctor.runner.invoke(app, ["topics", *words])
        assert done.exit_code == 0, done.stderr
    found_then = doctor()
    assert [about(found_then, topic) for topic in (gone, again, unreadable)] == [[], [], []]


@pytest.mark.long
def test_it_fits_80_columns(doctor: Doctor) -> None:
    done = doctor.runner.invoke(app, ["doctor"])
    assert done.stdout.startswith("ok      versions: spark-ordered-kafka ")
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.long
def test_foreign_writers_strays_and_groups_that_hold_up_are_found(
    doctor: Doctor, cluster: LocalCluster, topic_name: str
) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    create(cluster, topic_name, 2)
    writer = NumberedWriter(cluster, topic_name)
    writer.write()
    change(cluster, topic_name, 4)
    writer.write()
    change(cluster, topic_name, 2)
    # A group that has read the children alone, without members; of many groups the first ones are looked at.
    group = unique_name("0-held")
    consumer = Consumer({**servers, "group.id": group})
    commit_offsets(consumer, [TopicPartition(topic_name, p, 0) for p in range(4)])
    consumer.close()
    foreign = Producer({**servers, "transactional.id": f"legacy-{topic_name}"})
    foreign.init_transactions(TIMEOUT)
    foreign.begin_transaction()
    foreign.produce(topic_name, value=b"x", partition=1)
    foreign.commit_transaction(TIMEOUT)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic_name, 6)])[topic_name].result(TIMEOUT)

    found: Found = []

    def all_found() -> bool:
        # Brokers learn of partitions one after the other, and the controller covers strays and marks what is removed in time.
        found[:] = about(doctor(), topic_name)
        told = ("is no ordered writer", "has not read removed partitions", "has no members")
        return all(about(found, words) for words in told)

    await_true(all_found, "the findings are there", 4 * TIMEOUT)
    (writers,) = [one for one in found if one["check"] == "writers"]
    assert f"legacy-{topic_name} is no ordered writer" in writers["message"]
    groups = [one for one in found if one["check"] == "groups"]
    assert f"group {group} has not read removed partitions" in groups[0]["message"]
    assert groups[0]["advice"].endswith(f"ordered-kafka groups delete --group '{group}'")
    (held,) = [one for one in groups if "has no members" in one["message"]]
    assert f"partitions 2, 3 of {topic_name} wait" in held["message"]
    # The advice works.
    assert doctor.runner.invoke(app, ["groups", "delete", "--group", group, "--yes"]).exit_code == 0
    assert [one for one in about(doctor(), topic_name) if one["check"] == "groups"] == []


@pytest.mark.long
@pytest.mark.parametrize("known", [True, False])
def test_a_transaction_that_hangs_is_found_and_ended_as_the_advice_says(
    doctor: Doctor, cluster: LocalCluster, topic_name: str, known: bool
) -> None:
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name)
    writer.write()
    name = f"ordered:{topic_name}:late:0"
    hang({"bootstrap.servers": cluster.bootstrap_servers}, topic_name, name, known=known, age=0.0)
    writer.write()
    (found,) = [one for one in about(doctor(), topic_name) if one["check"] == "transactions"]
    assert found["status"] == "error"
    assert f"{topic_name}-0: the transaction" in found["message"]
    assert (f" of {name} " in found["message"]) == known
    assert not all_is_stable(cluster, topic_name)
    command = found["advice"].partition(" (needs ")[0].split()
    done = kafka_tool(*command)
    assert done.returncode == 0, done.stderr
    assert all_is_stable(cluster, topic_name)
    assert [one for one in about(doctor(), topic_name) if one["check"] == "transactions"] == []


def all_is_stable(cluster: LocalCluster, topic: str) -> bool:
    """Whether readers of committed records reach the end of partition 0."""
    admin = KafkaAdmin(cluster.bootstrap_servers)
    try:
        return admin.stable_ends(topic, [0])[0] == admin.log_ends(topic, [0])[0].offset
    finally:
        admin.close()


@pytest.mark.long
def test_a_transaction_that_only_lasts_does_not_hang(
    doctor: Doctor, cluster: LocalCluster, topic_name: str
) -> None:
    """Old by its records' timestamps, which are the producer's, and known to its coordinator."""
    create(cluster, topic_name, 1)
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": f"ordered:{topic_name}:long:0",
    }
    producer = Producer(conf)
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic_name, value=b"x", partition=0, timestamp=1_000)
    producer.flush(TIMEOUT)
    assert about(doctor(), topic_name) == []
    producer.commit_transaction(TIMEOUT)


@pytest.mark.long
def test_servers_that_are_away_are_errors_with_advice(cluster: LocalCluster) -> None:
    away = Doctor(cluster.bootstrap_servers, "http://127.0.0.1:1")()
    (controllers,) = [one for one in away if one["check"] == "controllers"]
    assert (controllers["status"], "no controller answered" in controllers["message"]) == ("error", True)
    away = Doctor("127.0.0.1:1", cluster.controller_url)()
    brokers = [one for one in away if one["check"] == "brokers" and one["status"] == "error"]
    assert "check --bootstrap-server" in brokers[0]["advice"]
    done = CliRunner(env={"BOOTSTRAP_SERVERS": "", "ORDERED_KAFKA_CONTROLLER": ""}).invoke(app, ["doctor"])
    assert (done.exit_code, "--bootstrap-server is missing" in done.stderr) == (2, True)


def test_a_user_without_rights_is_told_so(secure_cluster: LocalCluster, tmp_path: Any) -> None:
    file = tmp_path / "client.properties"
    conf = {**secure_cluster.kafka_properties("alice"), **secure_cluster.controller_options("alice")}
    file.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    lacking = about(Doctor("", "", "--command-config", str(file))(), "User:alice has no right to")
    assert {one["check"] for one in lacking} == {"controllers", "brokers"}
    assert {one["advice"] for one in lacking} == {
        "give the user that right, or run this as a user who has it"
    }


def test_on_secured_servers(secure_cluster: LocalCluster, tmp_path: Any) -> None:
    kafka = secure_cluster.kafka_properties("admin")
    file = tmp_path / "client.properties"
    conf = {**kafka, **secure_cluster.controller_options("admin")}
    file.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    found = Doctor("", "", "--command-config", str(file))()
    assert about(found, "every client that reaches ZooKeeper") == []
    (rights,) = [one for one in found if one["check"] == "rights"]
    assert rights["status"] == "ok"
    assert [one for one in found if one["status"] == "error"] == []
    (servers,) = [one for one in found if one["check"] == "zookeeper"]
    assert "standalone" in servers["message"]
