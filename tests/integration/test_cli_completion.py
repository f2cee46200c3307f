"""What the shell completes: names that servers know, and nothing where they do not answer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, commit_offsets
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
        timeout=TIMEOUT,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", pytest.param("fish", marks=pytest.mark.long)])
def test_names_of_topics_groups_and_brokers(cluster: LocalCluster, topic_name: str, shell: str) -> None:
    create(cluster, topic_name, 1)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"group-of-{topic_name}"}
    )
    commit_offsets(consumer, [TopicPartition(topic_name, 0, 0)])
    consumer.close()
    for line in ("topics alter --topic", "consume --topic"):
        assert completed(cluster, shell, f"ordered-kafka {line} {topic_name[:-1]}") == [topic_name]
    group = f"group-of-{topic_name}"
    assert completed(cluster, shell, f"ordered-kafka groups describe --group {group[:-1]}") == [group]
    assert completed(cluster, shell, "ordered-kafka brokers guard-rails --broker ") == ["1"]
    away = {"ORDERED_KAFKA_CONTROLLER": "http://127.0.0.1:1"}
    assert completed(cluster, shell, f"ordered-kafka topics alter --topic {topic_name}", **away) == []
