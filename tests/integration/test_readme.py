"""README.md as written: every block in order, in a fresh directory, on real servers and a terminal of 80 columns.

``make demo`` and ``make test``, the first block, are left out: the one is tests/integration/test_demo.py, the other runs this test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from tests.integration.blocks import Block, Shell, blocks
from tests.servers import processes_of
from tests.streams import create

ROOT = Path(__file__).parents[2]
BLOCKS = [block for block in blocks((ROOT / "README.md").read_text()) if "make demo" not in block.text]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
# Seconds for a block; one that runs Spark takes 15 where nothing else runs.
TIMEOUT = 400.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """What a clone after ``make demo`` has of what the blocks name."""
    for name in ("jobs", "conf"):
        shutil.copytree(ROOT / name, tmp_path / name)
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    yield tmp_path
    LocalCluster(tmp_path / ".ordered-kafka").down()
    assert processes_of(tmp_path) == []


def test_blocks_say_what_they_are() -> None:
    """Python ones have a file that a command runs; stated output stands behind commands."""
    assert {block.kind for block in BLOCKS} == {"bash", "python", "text"}
    commands = "".join(block.text for block in BLOCKS if block.kind == "bash")
    for before, block in zip([None, *BLOCKS], BLOCKS, strict=False):
        if block.kind == "python":
            assert block.file is not None, f"line {block.line}: the text does not say how to save it"
            assert f"python {block.file}" in commands
        if block.kind == "text":
            assert before is not None
            assert before.kind == "bash"


def test_the_example_counts_what_it_wrote(cluster: LocalCluster, tmp_path: Path) -> None:
    """The first block of Python alone. Spark finds the format from a directory that is not the project's."""
    with ControllerClient(cluster.controller_url) as controller:
        if "orders" not in [topic.topic for topic in controller.topics().topics]:
            create(cluster, "orders", 2)
    example = next(block for block in BLOCKS if block.kind == "python")
    (tmp_path / "example.py").write_text(example.text)
    addresses = {
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
    }
    result = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=ENVIRONMENT | addresses,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert "|shop-3|  200|" in result.stdout, result.stdout


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_block_runs_in_order(home: Path) -> None:
    shell = Shell(home, ENVIRONMENT)
    printed = ""
    try:
        for block in BLOCKS:
            if block.kind == "bash":
                printed = shell.run(block.text, TIMEOUT)
            elif block.kind == "python":
                assert block.file is not None
                (home / block.file).write_text(block.text)
            else:
                assert_stated(block, printed)
    finally:
        shell.close()


def assert_stated(block: Block, printed: str) -> None:
    """The lines of the block are there one after the other."""
    lines = [line.rstrip() for line in printed.splitlines()]
    stated = [line.rstrip() for line in block.text.splitlines()]
    positions = range(len(lines) - len(stated) + 1)
    found = any(lines[start : start + len(stated)] == stated for start in positions)
    assert found, f"line {block.line} of README.md states\n{block.text}\nbut printed was\n{printed}"
