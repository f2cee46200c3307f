"""The parts of the benchmark run, tiny: that there are figures is tested, not what they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.parts import PARTS

ROOT = Path(__file__).parents[2]


def test_a_part_without_servers_leaves_json_and_tables(tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["run", "gate", "--scale", "tiny", "--directory", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (path,) = tmp_path.iterdir()
    assert "gate, 100 partitions, 10" in done.stdout
    shown = runner.invoke(app, ["table", str(path)])
    assert shown.stdout.strip() in done.stdout
    markdown = runner.invoke(app, ["table", str(path), "--format", "markdown"])
    assert "| gate, 100 partitions, 10 layouts, caught up |" in markdown.stdout


def test_an_unknown_part_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", "read-10", "--directory", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "part has the value 'read-10': give some of read-100, " in done.output
    assert not (tmp_path / "none").exists()


def test_parts_are_listed() -> None:
    lines = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    assert len(lines) == len(PARTS) + 1
    assert lines[1].split()[:2] == ["read-100", "*"]


# In a process of its own: Spark's own connector must be there when its JVM starts.
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_part_runs_to_its_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "run", "--scale", "tiny", "--directory", str(tmp_path)]
    # Servers that are measured have the options of production, which do not go with those of the tests' servers.
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=1700, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = tmp_path.iterdir()
    found = json.loads(path.read_text())["measurements"]
    assert {measurement["part"] for measurement in found} == {part.name for part in PARTS}
    without = [
        (measurement["title"], contender)
        for measurement in found
        for contender, samples in (measurement["samples"] or {"nobody": []}).items()
        if not samples or any(sample["value"] <= 0 for sample in samples)
    ]
    assert not without
