from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import LocalClusterError
from spark_ordered_kafka.local.java import find_java, pyspark_jars


def install(home: Path, script: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)


def test_the_java_of_this_machine_is_new_enough() -> None:
    assert Path(find_java()).name == "java"


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_402", "8"), ("11.0.22", "11"), ("17", None), ("25.0.1", None)]
)
def test_the_version_is_read(
    version: str, major: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, f"echo 'openjdk version \"{version}\" 2024-01-16' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if major is None:
        assert find_java() == str(tmp_path / "bin" / "java")
        return
    with pytest.raises(LocalClusterError) as raised:
        find_java()
    assert str(raised.value) == (
        f"Java 17 or newer is needed, but {tmp_path}/bin/java (from JAVA_HOME={tmp_path}) is version {major}"
    )


def test_missing_and_broken_javas_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalClusterError, match=r"does not run: .*No such file"):
        find_java()
    install(tmp_path, "exit 3")
    with pytest.raises(LocalClusterError, match=r"does not run: .*exit status 3"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(LocalClusterError, match="no java was found on PATH and JAVA_HOME is not set"):
        find_java()


@pytest.mark.parametrize(("locale", "found"), [("C", "C.UTF-8"), ("C.UTF-8", "None")])
def test_java_names_files_as_python_does(locale: str, found: str) -> None:
    code = "from spark_ordered_kafka.local.java import file_names; print(file_names().get('LC_ALL'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"LC_ALL": locale}, capture_output=True, text=True
    )
    assert done.stdout == f"{found}\n", done.stderr


def test_every_pattern_must_match_a_jar() -> None:
    assert [path.name.startswith("ivy-") for path in pyspark_jars("ivy-*.jar")] == [True]
    with pytest.raises(LocalClusterError, match=r"has no none-such-\*\.jar"):
        pyspark_jars("ivy-*.jar", "none-such-*.jar")
