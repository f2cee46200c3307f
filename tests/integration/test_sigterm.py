"""What SIGTERM leaves of programs that start servers: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.nemesis.network import ROOT, why_not
from tests.servers import TIMEOUT, await_true


def runs(process: psutil.Process, words: str) -> bool:
    """Whether the command of a process has these words."""
    try:
        return words in process.cmdline()
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "last"),
    [
        (["tests.quiet.run", "--directory"], "tests.nemesis.writer"),
        pytest.param(
            ["tests.nemesis.run", "--no-query", "--directory"],
            "tests.nemesis.writer",
            marks=pytest.mark.skipif(why_not() is not None, reason="needs network namespaces"),
        ),
        (["spark_ordered_kafka.cli", "demo", "--dir"], "kafka.Kafka"),
    ],
    ids=["quiet", "chaos", "demo"],
)
def test_all_that_was_started_ends(words: list[str], last: str, tmp_path: Path) -> None:
    command, log = [sys.executable, "-m", *words, str(tmp_path / "run")], tmp_path / "log"
    with log.open("wb") as output:
        program = psutil.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    started: list[psutil.Process] = [program]

    def is_under_way() -> bool:
        assert program.poll() is None, log.read_text()
        started[1:] = program.children(recursive=True)
        return any(runs(one, last) for one in started)

    try:
        await_true(is_under_way, f"{last} runs", 8 * TIMEOUT)
        program.terminate()
        program.wait(4 * TIMEOUT)
        _, left = psutil.wait_procs(started, timeout=TIMEOUT)
        assert left == [], log.read_text()
    finally:
        for one in started:
            if one.is_running():
                one.kill()
