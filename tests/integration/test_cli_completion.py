"""What the shell completes: names that servers know, and nothing where they do not answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true, commit_offsets
from tests.streams import create

COMMAND = "from spark_ordered_kafka.cli import main; import sys; sys.argv = ['ordered-kafka']; main()"


def completed(cluster: LocalCluster, shell: str, line: str, **environment: str) -> list[str]:
    """What a shell gets for a line whose last word is incomplete."""
    words = line.split(" ")
    asked = {
        "_ORDERED_KAFKA_COMPLETE": f"complete_{shell}",
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
        # Of bash; of fish.
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env=os.environ | asked | environment,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.stdout.split()


def await_completed(
    cluster: LocalCluster, shell: str, line: str, names: list[str], **environment: str
) -> None:
    """Wait until a shell gets these names. It gets nothing as often as a server does not answer in two seconds."""
    found: list[list[str]] = []

    def is_completed() -> bool:
        found.append(completed(cluster, shell, line, **environment))
        assert found[-1] in (names, []), f"{line}: {found[-1]}"
        return found[-1] == names

    await_true(is_completed, f"{line} is completed", 4 * TIMEOUT)


@pytest.mark.long
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_names_of_topics_groups_and_brokers(cluster: LocalCluster, topic_name: str, shell: str) -> None:
    create(cluster, topic_name, 1)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"group-of-{topic_name}"}
    )
    commit_offsets(consumer, [TopicPartition(topic_name, 0, 0)])
    consumer.close()
    for line in ("topics alter --topic", "consume --topic"):
        await_completed(cluster, shell, f"ordered-kafka {line} {topic_name[:-1]}", [topic_name])
    group = f"group-of-{topic_name}"
    await_completed(cluster, shell, f"ordered-kafka groups describe --group {group[:-1]}", [group])
    await_completed(cluster, shell, "ordered-kafka brokers guard-rails --broker ", ["1"])
    away = {"ORDERED_KAFKA_CONTROLLER": "http://127.0.0.1:1"}
    assert completed(cluster, shell, f"ordered-kafka topics alter --topic {topic_name}", **away) == []


@pytest.mark.long
def test_a_profile_names_the_servers(
    cluster: LocalCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of commands and of completion; nothing of the environment says where they are."""
    create(cluster, topic_name, 1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    runner = CliRunner(env={"BOOTSTRAP_SERVERS": "", "ORDERED_KAFKA_CONTROLLER": ""})
    away, here = (
        ("--controller", "http://127.0.0.1:1", "--bootstrap-server", "127.0.0.1:1"),
        ("--controller", cluster.controller_url, "--bootstrap-server", cluster.bootstrap_servers),
    )
    for name, words in (("here", here), ("away", away)):
        assert runner.invoke(app, ["profile", "create", name, *words]).exit_code == 0
    for command in (("topics", "list"), ("groups", "list"), ("brokers", "describe", "--broker", "1")):
        done = runner.invoke(app, [*command, "--profile", "here", "--output", "json"])
        assert done.exit_code == 0, done.output
    unset = {"BOOTSTRAP_SERVERS": "", "ORDERED_KAFKA_CONTROLLER": ""}
    line = f"ordered-kafka topics alter --profile here --topic {topic_name[:-1]}"
    await_completed(cluster, "bash", line, [topic_name], **unset)
    line = f"ordered-kafka topics alter --topic {topic_name[:-1]}"
    await_completed(cluster, "bash", line, [topic_name], ORDERED_KAFKA_PROFILE="here", **unset)
    assert completed(cluster, "bash", line, **unset) == []
    assert completed(cluster, "bash", "ordered-kafka topics list --profile h", **unset) == ["here"]
    assert completed(cluster, "bash", "ordered-kafka profile use a", **unset) == ["away"]
