"""The download, with a stand-in for the Java that runs Ivy; that Ivy really finds the jars, the servers' tests show."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local.jars import Download, Jar, cached_jars, kafka_jars
from tests.servers import TIMEOUT

# Notes each call in "calls", fails as often as "failures" has lines, else puts jars where Ivy would.
JAVA = """#!/bin/sh
echo "$@" >> {home}/calls
while [ $# -gt 1 ]; do [ "$1" = -retrieve ] && target=$(dirname "$2"); shift; done
mkdir -p "$target"
touch "$target/kafka_2.13-4.3.1.jar"
if [ "$(wc -l < {home}/calls)" -le {failures} ]; then echo "connection refused"; exit 1; fi
sleep 0.3
touch "$target/log4j-slf4j-impl-2.25.4.jar"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDERED_KAFKA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stand_in(home: Path, failures: int) -> str:
    java = home / "java"
    java.write_text(JAVA.format(home=home, failures=failures))
    java.chmod(0o755)
    return str(java)


def calls(home: Path) -> list[str]:
    return (home / "calls").read_text().splitlines()


def test_a_failed_download_is_tried_again_and_then_kept(cache: Path, tmp_path: Path) -> None:
    java = stand_in(tmp_path, failures=1)
    abandoned = cache / ".kafka-4.3.1.abandoned"
    abandoned.mkdir(parents=True)
    told: list[str] = []
    jars = kafka_jars("4.3.1", java=java, progress=told.append)
    assert [jar.name for jar in jars] == ["kafka_2.13-4.3.1.jar", "log4j-slf4j-impl-2.25.4.jar"]
    assert jars[0].parent == cache / "kafka-4.3.1"
    assert sorted(path.name for path in cache.iterdir()) == ["kafka-4.3.1", "kafka-4.3.1.lock"]
    assert told == [
        f"Downloading Apache Kafka 4.3.1 to {cache}/kafka-4.3.1 (once)",
        "Downloading Apache Kafka 4.3.1 failed; trying again",
    ]
    assert kafka_jars("4.3.1", java=java, progress=told.append) == jars
    assert len(calls(tmp_path)) == 2


def test_a_download_that_keeps_failing_leaves_nothing_that_looks_complete(
    cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        LocalClusterError, match=r"Apache Kafka 4\.3\.1 could not be downloaded(.|\n)*refused"
    ):
        kafka_jars("4.3.1", java=stand_in(tmp_path, failures=3), progress=lambda _: None)
    assert len(calls(tmp_path)) == 3
    assert [path.name for path in cache.iterdir()] == ["kafka-4.3.1.lock"]


def test_two_at_once_download_once(cache: Path, tmp_path: Path) -> None:
    java = stand_in(tmp_path, failures=0)
    results: list[list[Path]] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(kafka_jars("4.3.1", java=java, progress=lambda _: None))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not any(thread.is_alive() for thread in threads)
    assert len(calls(tmp_path)) == 1
    assert [len(jars) for jars in results] == [2, 2, 2]
    assert {jars[0].parent for jars in results} == {cache / "kafka-4.3.1"}


def test_a_single_jar_is_what_its_checksum_says(cache: Path, tmp_path: Path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    def fetched(checksum: str) -> list[Path]:
        jar = Jar("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4", checksum)
        java = stand_in(tmp_path, failures=0)
        wanted = Download("a jar", "jar", (jar,), conf="master")
        return cached_jars(wanted, java=java, progress=lambda _: None)

    with pytest.raises(
        LocalClusterError, match=rf"2\.25\.4\.jar of a jar has the SHA-256 checksum {empty}, not 0"
    ):
        fetched("0" * 64)
    assert not (cache / "jar").exists()
    assert cache / "jar" / "log4j-slf4j-impl-2.25.4.jar" in fetched(empty)
