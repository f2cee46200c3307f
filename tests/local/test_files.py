"""State file, ports, cache directory and configuration files."""

from __future__ import annotations

import itertools
import random
import socket
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import ConfigError, LocalClusterError
from spark_ordered_kafka.local import ports, servers
from spark_ordered_kafka.local.jars import cache_directory
from spark_ordered_kafka.local.plan import Parameters, new_state
from spark_ordered_kafka.local.ports import free_ports, is_free
from spark_ordered_kafka.local.processes import ProcessIdentity
from spark_ordered_kafka.local.state import load, save

HOST = "127.21.0.1"


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    state = new_state(
        Parameters(brokers=2, racks=["a", "b"], broker_config={"k": "v"}), itertools.count(20000)
    )
    state.servers[0].process = ProcessIdentity(pid=7, create_time=12.5)
    save(tmp_path, state)
    assert load(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize("content", ["", "{", '{"version": 2}'])
def test_a_damaged_state_file_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(LocalClusterError, match=r"cluster\.json cannot be used"):
        load(tmp_path)


def test_free_ports_leave_out_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # An address of the loopback interface at which no server and no client of another test takes ports.
    monkeypatch.setattr(ports, "HOST", HOST)
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)
    first = list(itertools.islice(free_ports(set(), random.Random(1)), 5))
    second = list(itertools.islice(free_ports({first[0]}, random.Random(1)), 4))
    assert second == first[1:]
    with socket.create_server((HOST, first[0])):
        assert next(free_ports(set(), random.Random(1))) == first[1]
    with pytest.raises(LocalClusterError, match="no free TCP port"):
        next(free_ports(range(20000, 32768), random.Random(1)))


def test_the_cache_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ORDERED_KAFKA_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "spark-ordered-kafka"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "spark-ordered-kafka"
    monkeypatch.setenv("ORDERED_KAFKA_CACHE", "~/jars")
    assert cache_directory() == tmp_path / "jars"
    monkeypatch.setenv("ORDERED_KAFKA_CACHE", "/a:b")
    with pytest.raises(ConfigError, match="ORDERED_KAFKA_CACHE"):
        cache_directory()
    monkeypatch.setenv("ORDERED_KAFKA_CACHE", "~nobody-of-this-name/jars")
    with pytest.raises(ConfigError, match="ORDERED_KAFKA_CACHE"):
        cache_directory()


def test_kafka_properties_follow_the_number_of_brokers(tmp_path: Path) -> None:
    three = new_state(Parameters(brokers=3, racks=["a", "b", "c"]), itertools.count(20000))
    broker, node = three.of("broker")[1], three.of("kraft")[0]
    properties = servers.kafka_properties(tmp_path, three, broker)
    assert properties["process.roles"] == "broker"
    assert properties["broker.rack"] == "b"
    assert properties["controller.quorum.voters"] == f"3000@127.0.0.1:{node.port}"
    assert properties["offsets.topic.replication.factor"] == "3"
    assert properties["transaction.state.log.min.isr"] == "2"
    assert len(properties["log.dirs"].split(",")) == 2
    properties = servers.kafka_properties(tmp_path, three, node)
    assert properties["process.roles"] == "controller"
    assert properties["listeners"] == f"CONTROLLER://127.0.0.1:{node.port}"

    one = new_state(
        Parameters(broker_config={"group.initial.rebalance.delay.ms": "9"}), itertools.count(20000)
    )
    properties = servers.kafka_properties(tmp_path, one, one.of("broker")[0])
    assert properties["process.roles"] == "broker,controller"
    assert "broker.rack" not in properties
    assert properties["transaction.state.log.min.isr"] == "1"
    assert properties["group.initial.rebalance.delay.ms"] == "9"


def test_configuration_files_hold_any_directory_name(tmp_path: Path) -> None:
    state = new_state(Parameters(), itertools.count(20000))
    home = tmp_path / "über\\all 𝄞"
    text = servers.write_kafka_config(home, state, state.of("broker")[0]).read_text("ascii")
    # The character beyond 16 bits is a pair of surrogates, as Java has it.
    assert f"metadata.log.dir={tmp_path}/\\u00fcber\\\\all \\ud834\\udd1e/broker-1/metadata\n" in text
