"""``local up|down|status`` on real servers."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from kazoo.client import KazooClient
from typer.testing import CliRunner

from spark_ordered_kafka.cli.local import app
from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local import cluster as local_cluster
from spark_ordered_kafka.local.ports import free_ports
from spark_ordered_kafka.local.state import Server, load
from tests.servers import TIMEOUT, await_true, create_topic, processes_of


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A directory for one cluster, whose servers are ended after the test whatever happened."""
    yield tmp_path / "cluster"
    LocalCluster(tmp_path / "cluster").down()
    assert processes_of(tmp_path / "cluster") == []


def test_a_port_that_another_process_takes_meanwhile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several clusters that start at once may choose the same ports."""
    chosen: list[int] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]

        def choose(*arguments: Any) -> Iterator[int]:
            chosen.append(taken)
            return itertools.chain([taken] if len(chosen) == 1 else [], free_ports(*arguments))

        monkeypatch.setattr(local_cluster, "free_ports", choose)
        with LocalCluster(home, controllers=0) as cluster:
            assert {server.status for server in cluster.status()} == {"running"}
    assert len(chosen) == 2


def pids(cluster: LocalCluster) -> dict[str, int | None]:
    return {server.name: server.pid for server in cluster.status()}


def write(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "delivery.timeout.ms": int(TIMEOUT * 1000)})
    producer.produce(topic, value=value, partition=0)
    assert producer.flush(TIMEOUT) == 0


def read(bootstrap_servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [message.value() for message in consumer.consume(count, timeout=TIMEOUT)]
    consumer.close()
    return values


def run_cli(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    code = "from spark_ordered_kafka.cli.local import app; app()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=5 * TIMEOUT, check=False, **options
    )


@pytest.mark.long
def test_data_survives_down_and_up(home: Path) -> None:
    cluster = LocalCluster(home, controllers=0)
    described = cluster.up()
    topic = create_topic(cluster.bootstrap_servers, "kept")
    write(cluster.bootstrap_servers, topic, b"before")
    zookeeper = KazooClient(cluster.zookeeper)
    zookeeper.start(TIMEOUT)
    zookeeper.create("/kept", b"too")
    zookeeper.stop()

    assert sorted(cluster.down()) == ["broker-1", "zookeeper-1"]
    assert processes_of(home) == []
    assert {server.status for server in cluster.status()} == {"stopped"}
    assert cluster.down() == []

    again = LocalCluster(home).up()
    assert again["bootstrap_servers"] == described["bootstrap_servers"]
    assert again["zookeeper"] == described["zookeeper"]
    assert again["brokers"][0]["pid"] != described["brokers"][0]["pid"]
    write(cluster.bootstrap_servers, topic, b"after")
    assert read(cluster.bootstrap_servers, topic, 2) == [b"before", b"after"]
    zookeeper = KazooClient(cluster.zookeeper)
    zookeeper.start(TIMEOUT)
    assert zookeeper.get("/kept")[0] == b"too"
    zookeeper.stop()


@pytest.mark.long
def test_several_servers_and_faults(home: Path) -> None:
    """Also: a second `up` starts only what died, and `down` ends paused and half dead clusters."""
    cluster = LocalCluster(home, brokers=2, zookeepers=3, racks=["a", "b"], controllers=0)
    described = cluster.up()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    nodes = admin.describe_cluster(request_timeout=TIMEOUT).result().nodes
    assert {(node.id, node.rack, f"{node.host}:{node.port}") for node in nodes} == {
        (broker["id"], broker["rack"], broker["listener"]) for broker in described["brokers"]
    }
    before = pids(cluster)
    assert set(before) == {"zookeeper-1", "zookeeper-2", "zookeeper-3", "broker-1", "broker-2", "kraft-3000"}

    for name in ("broker-2", "zookeeper-2"):
        killed = psutil.Process(before[name])
        killed.kill()
        killed.wait(TIMEOUT)
    assert {server.name for server in cluster.status() if server.status == "stopped"} == {
        "broker-2",
        "zookeeper-2",
    }
    described = cluster.up()
    after = pids(cluster)
    assert {name for name in before if before[name] != after[name]} == {"broker-2", "zookeeper-2"}
    assert [broker["pid"] for broker in described["brokers"]] == [after["broker-1"], after["broker-2"]]
    cluster.up()
    assert pids(cluster) == after

    cluster.kill("broker-1")
    assert pids(cluster) == {**after, "broker-1": None}
    assert cluster.start("broker-1") == pids(cluster)["broker-1"]

    cluster.pause("broker-1")
    await_true(lambda: [s.status for s in cluster.status() if s.name == "broker-1"] == ["paused"], "pause")
    alone = AdminClient({"bootstrap.servers": described["brokers"][0]["listener"]}, logger=None)
    with pytest.raises(KafkaException):
        alone.list_topics(timeout=1)
    cluster.resume("broker-1")
    assert set(alone.list_topics(timeout=TIMEOUT).brokers) >= {1}

    with pytest.raises(ConfigError, match=r"server has the value 'broker-7': .* has zookeeper-1, .*broker-1"):
        cluster.kill("broker-7")
    with pytest.raises(ConfigError, match=r"brokers has the value 3: .* was set up with 2"):
        LocalCluster(home, brokers=3).up()
    assert pids(cluster) == {**after, "broker-1": pids(cluster)["broker-1"]}

    cluster.pause("broker-2")
    cluster.kill("zookeeper-1")
    assert set(cluster.down()) == set(after) - {"zookeeper-1"}
    assert processes_of(home) == []
    with pytest.raises(LocalClusterError, match=r"broker-1 .* does not run"):
        cluster.pause("broker-1")


@pytest.mark.long
def test_kafka_3_9_with_further_properties(home: Path) -> None:
    with LocalCluster(
        home, kafka_version="3.9.2", broker_config={"transaction.max.timeout.ms": "61000"}, controllers=0
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        broker = ConfigResource(ConfigResource.Type.BROKER, "1")
        entries = admin.describe_configs([broker])[broker].result(TIMEOUT)
        assert entries["transaction.max.timeout.ms"].value == "61000"
        assert entries["offsets.topic.num.partitions"].value == "5"
        assert "Kafka version: 3.9.2" in cluster.log("broker-1").read_text()
        write(cluster.bootstrap_servers, create_topic(cluster.bootstrap_servers, "old"), b"x")
        assert read(cluster.bootstrap_servers, "old", 1) == [b"x"]
    assert processes_of(home) == []
    with pytest.raises(
        ConfigError, match=r"kafka_version has the value '4\.3\.1': .* was set up with '3\.9\.2'"
    ):
        LocalCluster(home, kafka_version="4.3.1").up()


@pytest.mark.long
def test_a_starter_that_was_killed_leaves_nothing_behind(home: Path) -> None:
    code = (
        f"from spark_ordered_kafka.local import LocalCluster; LocalCluster({str(home)!r}, controllers=0).up()"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as starter:
        # Once Kafka's storage tool or the broker runs, which cluster.json may or may not know yet.
        await_true(lambda: len([p for p in processes_of(home) if p.pid != starter.pid]) >= 2, "two processes")
        starter.send_signal(signal.SIGKILL)
    assert processes_of(home) != []
    LocalCluster(home).down()
    assert processes_of(home) == []
    assert LocalCluster(home, controllers=0).up()["brokers"][0]["pid"] is not None


@pytest.mark.long
def test_lost_and_damaged_state_files(home: Path) -> None:
    cluster = LocalCluster(home, controllers=0)
    cluster.up()
    (home / "cluster.json").write_text("damaged")
    with pytest.raises(LocalClusterError, match=r"cluster\.json cannot be used"):
        cluster.down()
    assert processes_of(home) == []
    (home / "cluster.json").unlink()
    with pytest.raises(LocalClusterError, match="there is no local cluster in"):
        cluster.status()


@pytest.mark.long
def test_a_broken_start_ends_what_it_started(home: Path) -> None:
    with pytest.raises(LocalClusterError) as raised:
        LocalCluster(home, broker_config={"metric.reporters": "no.such.Reporter"}, controllers=0).up()
    assert "broker-1 ended while it was starting" in str(raised.value)
    assert "no.such.Reporter" in str(raised.value), "the log's end is not told"
    assert processes_of(home) == []
    with pytest.raises(
        LocalClusterError, match=r"broker-1 could not be formatted:(.|\n)*log.retention.hours"
    ):
        LocalCluster(home, broker_config={"log.retention.hours": "soon"}, controllers=0).up()
    assert processes_of(home) == []

    # Nothing was ever kept there: the directory is not spoilt by the failures.
    cluster = LocalCluster(home, controllers=0)
    cluster.up()
    cluster.down()
    state = load(home)
    assert state is not None
    broker: Server = state.of("broker")[0]
    with (
        socket.create_server(("127.0.0.1", broker.internal_ports[0])),
        pytest.raises(LocalClusterError, match=f"port {broker.internal_ports[0]} of broker-1 .* is in use"),
    ):
        cluster.up()
    assert processes_of(home) == []


@pytest.mark.long
def test_two_starts_at_once_make_one_cluster(home: Path) -> None:
    results: list[dict[str, Any]] = []
    starts = [
        threading.Thread(target=lambda: results.append(LocalCluster(home, controllers=0).up())) for _ in "ab"
    ]
    for start in starts:
        start.start()
    for start in starts:
        start.join(4 * TIMEOUT)
    assert len(results) == 2
    assert results[0] == results[1]
    assert len(processes_of(home)) == 2


@pytest.mark.long
def test_the_command_line(tmp_path: Path) -> None:
    home = tmp_path / "cluster"
    try:
        up = run_cli(
            "up",
            "--controllers",
            "0",
            "--racks",
            "a",
            "--output",
            "json",
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert up.returncode == 0, up.stderr
        described = json.loads(up.stdout)
        assert "Starting zookeeper-1, broker-1" in up.stderr
        home = tmp_path / ".ordered-kafka"
        broker = described["brokers"][0]
        server = described["zookeeper_servers"][0]
        assert described == {
            "bootstrap_servers": broker["listener"],
            "zookeeper": server["address"],
            "controller": "",
            "brokers": [
                {
                    "id": 1,
                    "listener": broker["listener"],
                    "log_dirs": [f"{home}/broker-1/data-1", f"{home}/broker-1/data-2"],
                    "rack": "a",
                    "pid": broker["pid"],
                }
            ],
            "controllers": [],
            "zookeeper_servers": [{"address": server["address"], "pid": server["pid"]}],
        }
        assert all((Path(path) / "meta.properties").exists() for path in broker["log_dirs"])
        assert {broker["pid"], server["pid"]} == {process.pid for process in processes_of(home)}

        table = run_cli("up", "--dir", str(home))
        assert table.returncode == 0
        assert f"Kafka 4.3.1  {broker['listener']}" in table.stdout
        exports = [line for line in table.stdout.splitlines() if line.startswith(("export ", "unset "))]
        assert exports == [
            f"export BOOTSTRAP_SERVERS={broker['listener']}",
            "unset ORDERED_KAFKA_CONTROLLER",
            "unset ORDERED_KAFKA_COMMAND_CONFIG",
        ], "there is no controller to export"
        assert (home / "env.sh").read_text().splitlines() == exports
        status = json.loads(run_cli("status", "--dir", str(home), "--output", "json").stdout)
        assert status["running"] is True
        assert {server["name"]: server["pid"] for server in status["servers"]} == {
            "broker-1": broker["pid"],
            "zookeeper-1": server["pid"],
        }
        conflict = run_cli("up", "--dir", str(home), "--brokers", "2")
        assert (conflict.returncode, conflict.stdout) == (2, "")
        assert conflict.stderr.startswith("error: brokers has the value 2: ")

        down = run_cli("down", "--dir", str(home))
        assert down.returncode == 0
        assert processes_of(home) == []
        assert "stopped" in run_cli("status", "--dir", str(home)).stdout
    finally:
        LocalCluster(home).down()


@pytest.mark.long
def test_a_directory_has_any_name_in_the_locale_of_c(tmp_path: Path) -> None:
    home = tmp_path / "größe"
    try:
        up = run_cli(
            "up", "--controllers", "0", "--secure", "--dir", str(home), env=os.environ | {"LC_ALL": "C"}
        )
        assert up.returncode == 0, up.stderr
        assert (home / "broker-1" / "data-1" / "meta.properties").exists()
    finally:
        LocalCluster(home).down()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["up", "--brokers", "10"], 2, "--brokers"),
        (["up", "--kafka-version", "2.0"], 2, "kafka_version has the value '2.0': give one of 4.3.1, 3.9.2"),
        (["up", "--brokers", "2", "--racks", "a"], 2, "racks has the value 'a'"),
        (["up", "--output", "xml"], 2, "--output"),
        (["down"], 2, "there is no local cluster"),
        (["status"], 2, "there is no local cluster"),
    ],
)
def test_wrong_arguments(arguments: list[str], code: int, told: str, tmp_path: Path) -> None:
    directory = tmp_path / "none"
    done = CliRunner().invoke(app, [*arguments, "--dir", str(directory)])
    assert (done.exit_code, done.stdout) == (code, "")
    assert told in done.stderr
    assert not directory.exists()


def test_a_java_that_is_too_old_is_one_line(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\"' >&2\n")
    java.chmod(0o755)
    done = run_cli("up", "--dir", str(tmp_path / "cluster"), env={**os.environ, "JAVA_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    told = f"Java 17 or newer is needed, but {java} (from JAVA_HOME={tmp_path}) is version 11"
    assert done.stderr.endswith(f"{told}\n")
    assert len(done.stderr.splitlines()) == 1
    assert processes_of(tmp_path / "cluster") == []


@pytest.mark.long
def test_the_controller_is_killed_and_started_alone(cluster: LocalCluster) -> None:
    before = pids(cluster)
    described = cluster.description()
    assert described["controllers"] == [{"url": described["controller"], "pid": before["controller-1"]}]
    cluster.kill("controller-1")
    assert pids(cluster) == {**before, "controller-1": None}
    pid = cluster.start("controller-1", env={"ORDERED_KAFKA_TESTED": "yes"})
    assert psutil.Process(pid).environ()["ORDERED_KAFKA_TESTED"] == "yes"
    assert pids(cluster) == {**before, "controller-1": pid}
    assert httpx2.get(f"{described['controller']}/readyz", timeout=TIMEOUT).status_code == 200
