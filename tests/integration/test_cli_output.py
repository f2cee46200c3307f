"""``--output json`` and ``--output yaml`` of commands on real servers have the same members."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.local import LocalCluster
from tests.streams import create


def shape(value: Any) -> Any:
    """Members and types: figures differ from one answer to the next."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("topics list", marks=pytest.mark.long),
        "topics describe --topic TOPIC",
        pytest.param("topics describe --under-replicated-partitions", marks=pytest.mark.long),
        pytest.param("brokers list", marks=pytest.mark.long),
        pytest.param("brokers describe --broker 1 --all", marks=pytest.mark.long),
        "groups list",
        pytest.param("controller list", marks=pytest.mark.long),
        pytest.param("log-dirs describe", marks=pytest.mark.long),
        "log-dirs describe --broker-list 1",
        pytest.param("reassign list", marks=pytest.mark.long),
        pytest.param("reassign plan --balance --topics TOPIC", marks=pytest.mark.long),
        pytest.param(
            "leaders elect --election-type preferred --topic TOPIC --partition 0", marks=pytest.mark.long
        ),
        pytest.param(
            "topics alter --topic TOPIC --config retention.ms=7000000 --validate-only", marks=pytest.mark.long
        ),
        pytest.param("doctor", marks=pytest.mark.long),
    ],
)
def test_both_say_the_same(cluster: LocalCluster, topic_name: str, command: str) -> None:
    if "TOPIC" in command:
        create(cluster, topic_name, 1)
    runner = CliRunner(
        env={
            "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
        }
    )
    words = command.replace("TOPIC", topic_name).split()
    texts = {output: runner.invoke(app, [*words, "--output", output]).stdout for output in ("json", "yaml")}
    found = json.loads(texts["json"])
    assert found
    assert shape(yaml.safe_load(texts["yaml"])) == shape(found)
    assert not texts["yaml"].startswith("{")
