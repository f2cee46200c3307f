"""How Kafka's tools are run, with a stand-in for Java; what they really answer, the servers' tests show."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kafka_tools import kafka_tool
from spark_ordered_kafka.errors import ConfigError, LocalClusterError

JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit 0; fi
echo "$@"; echo complaint >&2;
case "$*" in *--hang*) exec sleep 60;; esac
exit 3
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERED_KAFKA_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    jars = tmp_path / "kafka-tools-3.9.2"
    jars.mkdir()
    (jars / "kafka-tools-3.9.2.jar").touch()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA)
    java.chmod(0o755)


def test_a_tool_runs_with_its_arguments_and_all_it_says_is_returned(tmp_path: Path) -> None:
    done = kafka_tool(
        "kafka-log-dirs", "--describe", version="3.9.2", command_config=Path("/x/client.properties")
    )
    assert (done.returncode, done.stderr) == (3, "complaint\n")
    assert (
        f"-cp {tmp_path}/kafka-tools-3.9.2/kafka-tools-3.9.2.jar org.apache.kafka.tools.LogDirsCommand"
        in done.stdout
    )
    assert done.stdout.endswith("LogDirsCommand --describe --command-config /x/client.properties\n")


def test_a_tool_that_hangs_is_ended() -> None:
    with pytest.raises(LocalClusterError, match=r"kafka-log-dirs --hang did not end within 0\.5 s"):
        kafka_tool("kafka-log-dirs", "--hang", version="3.9.2", timeout=0.5)


def test_unknown_tools_and_versions_are_named() -> None:
    with pytest.raises(
        ConfigError,
        match="tool has the value 'kafka-topics': give one of kafka-console-share-consumer, kafka-features, ",
    ):
        kafka_tool("kafka-topics")
    with pytest.raises(ConfigError, match=r"version has the value '2\.8': give one of 4"):
        kafka_tool("kafka-log-dirs", version="2.8")
