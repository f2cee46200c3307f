"""The loop in C; that it counts what is in a topic, the tests of the parts show."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import loop

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-c", "-o", str(tmp_path / "consume.o")]
    subprocess.run(["cc", *flags, str(loop.SOURCE)], check=True)


def test_it_finds_the_library_of_confluent_kafka_and_says_what_is_wrong(tmp_path: Path) -> None:
    program = loop.compiled(tmp_path)
    assert program is not None

    def refused(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 1
        return done.stderr

    assert "give LIBRDKAFKA BOOTSTRAP_SERVERS TOPIC PARTITIONS RECORDS" in refused()
    assert "/nowhere.so: " in refused("/nowhere.so", "127.0.0.1:1", "topic", "1", "1")
    assert Path(loop.librdkafka()).is_file()
