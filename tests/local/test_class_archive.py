"""The archive of Kafka's classes: made once by a real broker, used by the JVMs after it, and never needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spark_ordered_kafka.local.class_archive import sharing
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS, kafka_jars
from spark_ordered_kafka.local.java import classpath, find_java

VERSION = KAFKA_VERSIONS[0]


def directory(tmp_path: Path) -> Path:
    """Of jars, in a cache."""
    found = tmp_path / f"kafka-{VERSION}"
    found.mkdir()
    return found


@pytest.mark.long
def test_the_first_start_makes_it_and_the_next_jvm_takes_classes_from_it(tmp_path: Path) -> None:
    java, cached = find_java(), directory(tmp_path)
    for jar in kafka_jars(VERSION, java=find_java(), progress=lambda _: None):
        os.link(jar, cached / jar.name)
    jars = sorted(cached.glob("*.jar"))
    (cached / "classes-of-another-java.jsa").touch()
    (cached / ".classes.abandoned").mkdir()
    told: list[str] = []
    (option,) = sharing(java, jars, VERSION, progress=told.append)
    assert told == ["Preparing quick starts of Kafka (once)"]
    (archive,) = set(cached.iterdir()) - set(jars)
    assert option == f"-XX:SharedArchiveFile={archive}"
    assert sharing(java, jars, VERSION, progress=told.append) == (option,)
    assert len(told) == 1
    tool = [
        java,
        option,
        "-Xlog:class+load",
        "-cp",
        classpath(jars),
        "kafka.tools.StorageTool",
        "random-uuid",
    ]
    loaded = subprocess.run(tool, check=True, capture_output=True, text=True).stdout
    assert "org.apache.kafka.common.Uuid source: shared objects file (top)" in loaded


def test_without_it_servers_start_as_well(tmp_path: Path) -> None:
    java, cached = tmp_path / "java", directory(tmp_path)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    told: list[str] = []
    assert sharing(str(java), [cached / "kafka.jar"], VERSION, progress=told.append) == ()
    assert told[0] == "Preparing quick starts of Kafka (once)"
    assert told[1].startswith("Quick starts of Kafka could not be prepared, and are next time: ")
    assert list(cached.iterdir()) == []
