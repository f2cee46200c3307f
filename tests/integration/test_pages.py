"""The pages as written: README.md, and then each page of docs/ that continues it, in a directory of their own.

Every block runs in order, on real servers and a terminal of 80 columns, or a comment before it says why it cannot.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.local import LocalCluster
from tests.integration.blocks import Block, Shell, blocks
from tests.servers import await_true, processes_of
from tests.streams import create

ROOT = Path(__file__).parents[2]
README = "README.md"
FILES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
ALL_BLOCKS = {str(file.relative_to(ROOT)): list(blocks(file.read_text())) for file in sorted(FILES)}
# What runs, by page, with what is stated to be printed.
PAGES = {
    page: [block for block in found if block.not_run is None]
    for page, found in ALL_BLOCKS.items()
    if any(block.kind in ("bash", "python") and block.not_run is None for block in found)
}
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
# Seconds for a block; one that runs Spark takes 15 where nothing else runs.
TIMEOUT = 400.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a user has after the README's blocks, the last of which has stopped the servers."""
    directory = tmp_path_factory.mktemp("home")
    for name in ("jobs", "conf"):
        shutil.copytree(ROOT / name, directory / name)
    activate = directory / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    try:
        run(README, directory)
        yield directory
    finally:
        for environment in directory.glob("*/env.sh"):
            LocalCluster(environment.parent).down()
    await_none(directory)


@pytest.mark.parametrize("page", ALL_BLOCKS)
def test_blocks_say_what_they_are(page: str) -> None:
    """Python ones have a file that a command runs; stated output stands behind commands; data can be read."""
    commands = "".join(block.text for block in ALL_BLOCKS[page] if block.kind == "bash")
    for before, block in zip([None, *ALL_BLOCKS[page]], ALL_BLOCKS[page], strict=False):
        place = f"{page}, line {block.line}"
        kinds = {"bash", "python", "sql", "text", "toml", "json"}
        assert block.kind in kinds, f"{place}: what is {block.kind!r}?"
        for test in re.findall(r"tests/[\w/.]+\w", block.not_run or ""):
            assert (ROOT / test).exists(), f"{place}: {test}"
        if block.kind == "toml":
            tomllib.loads(block.text)
        elif block.kind == "json":
            json.loads(block.text)
        elif block.kind == "python" and block.not_run is None:
            assert block.file is not None, f"{place}: the text does not say how to save it"
            assert f"python {block.file}" in commands, place
        elif block.kind == "text" and block.not_run is None:
            assert before is not None, place
            assert before.kind == "bash", place


@pytest.mark.long
def test_the_example_counts_what_it_wrote(cluster: LocalCluster, tmp_path: Path) -> None:
    """The README's block of Python alone. Spark finds the format from a directory that is not the project's."""
    with ControllerClient(cluster.controller_url) as controller:
        if "orders" not in [topic.topic for topic in controller.topics().topics]:
            create(cluster, "orders", 2)
    example = next(block for block in PAGES[README] if block.kind == "python")
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
def test_every_block_of_the_readme_runs_in_order(home: Path) -> None:
    """The fixture runs them; what is left is that the last one has ended all that the others started."""
    await_none(home)


def await_none(directory: Path) -> None:
    """Wait until no process is left of what ran there: Spark's JVM ends some time after the command that started it."""
    await_true(lambda: not processes_of(directory), f"the end of all processes of {directory}")


@pytest.mark.long
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("page", [page for page in PAGES if page != README])
def test_every_block_of_a_page_runs_in_order(page: str, home: Path) -> None:
    run(page, home)


def run(page: str, home: Path) -> None:
    """The blocks of a page, in a shell of its own."""
    shell = Shell(home, ENVIRONMENT)
    printed = ""
    try:
        for block in PAGES[page]:
            if block.kind == "bash":
                printed = shell.run(block.text, TIMEOUT)
            elif block.kind == "python":
                assert block.file is not None
                (home / block.file).write_text(block.text)
            elif block.kind == "text":
                assert_stated(page, block, printed)
    finally:
        shell.close()


def assert_stated(page: str, block: Block, printed: str) -> None:
    """The lines of the block are there one after the other."""
    lines = [line.rstrip() for line in printed.splitlines()]
    stated = [line.rstrip() for line in block.text.splitlines()]
    positions = range(len(lines) - len(stated) + 1)
    found = any(lines[start : start + len(stated)] == stated for start in positions)
    assert found, f"line {block.line} of {page} states\n{block.text}\nbut printed was\n{printed}"
