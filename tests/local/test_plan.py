from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local.plan import Parameters, check_agreement, new_state, resize_controllers


def ports() -> Iterator[int]:
    return itertools.count(20000)


def test_one_broker_is_its_own_kraft_controller() -> None:
    state = new_state(Parameters(), ports())
    assert [server.name for server in state.servers] == ["zookeeper-1", "broker-1"]
    assert len(state.of("broker")[0].internal_ports) == 1
    assert state.kafka_version == "4.3.1"
    assert len(state.cluster_id) == 22


@pytest.mark.parametrize("brokers", [2, 3])
def test_several_brokers_have_a_kraft_controller_beside_them(brokers: int) -> None:
    state = new_state(Parameters(brokers=brokers, racks=["a", " b", "c"][:brokers], zookeepers=3), ports())
    assert [server.id for server in state.of("broker")] == list(range(1, brokers + 1))
    assert [server.rack for server in state.of("broker")] == ["a", "b", "c"][:brokers]
    assert not any(server.internal_ports for server in state.of("broker"))
    assert [server.name for server in state.of("kraft")] == ["kraft-3000"]
    assert [len(server.internal_ports) for server in state.of("zookeeper")] == [2, 2, 2]
    # Every port once; the KRaft node has no listener but its internal one.
    assert len(state.ports) == brokers + 1 + 3 * 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"brokers": 0}, "brokers has the value 0: give a number from 1 to 9"),
        ({"brokers": 10}, "brokers has the value 10"),
        ({"controllers": -1}, "controllers has the value -1"),
        ({"zookeepers": 0}, "zookeepers has the value 0"),
        ({"kafka_version": "2.8.0"}, "kafka_version has the value '2.8.0': give one of 4.3.1, 3.9.2"),
        ({"racks": ["a", " "]}, "racks has the value 'a, ': a rack has an empty name"),
        ({"racks": ["a"], "brokers": 2}, "racks has the value 'a': give 2"),
        ({"broker_config": {"log.dirs": "/x"}}, "broker_config has the value 'log.dirs'"),
    ],
)
def test_wrong_parameters_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Parameters(**arguments)
    assert told in str(raised.value)


def test_racks_are_counted_against_the_default_number_of_brokers() -> None:
    with pytest.raises(ConfigError, match="racks"):
        new_state(Parameters(racks=["a", "b"]), ports())


@pytest.mark.parametrize(
    ("arguments", "asked", "remembered"),
    [
        ({"brokers": 3}, "3", "2"),
        ({"kafka_version": "3.9.2"}, "3.9.2", "'4.3.1'"),
        ({"racks": ["a", "c"]}, "['a', 'c']", "['a', 'b']"),
        ({"zookeepers": 3}, "3", "1"),
        ({"broker_config": {}}, "{}", "{'log.retention.hours': '1'}"),
    ],
)
def test_parameters_other_than_the_remembered_ones_are_refused(
    arguments: dict[str, Any], asked: str, remembered: str
) -> None:
    first = Parameters(brokers=2, racks=["a", "b"], broker_config={"log.retention.hours": "1"})
    state = new_state(first, ports())
    check_agreement(first, state, Path("/data"))
    check_agreement(Parameters(), state, Path("/data"))
    check_agreement(Parameters(controllers=3), state, Path("/data"))
    with pytest.raises(ConfigError) as raised:
        check_agreement(Parameters(**arguments), state, Path("/data"))
    name = next(iter(arguments))
    assert str(raised.value).startswith(f"{name} has the value")
    assert asked in str(raised.value)
    assert f"was set up with {remembered}" in str(raised.value)


def test_controllers_are_added_and_taken_out_by_number() -> None:
    numbers = ports()
    state = new_state(Parameters(), numbers)
    assert resize_controllers(state, 3, numbers) == []
    first = state.of("controller")
    assert [server.name for server in first] == ["controller-1", "controller-2", "controller-3"]
    assert [server.name for server in resize_controllers(state, 1, numbers)] == [
        "controller-2",
        "controller-3",
    ]
    assert state.of("controller") == first[:1]
    assert resize_controllers(state, 0, numbers) == first[:1]
    assert [server.name for server in state.servers] == ["zookeeper-1", "broker-1"]
