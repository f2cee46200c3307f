"""What the command line imports before it answers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spark_ordered_kafka.version import __version__

PROBE = """
import json, sys
from spark_ordered_kafka.cli import app
try:
    app(sys.argv[1:])
except SystemExit as done:
    assert done.code == 0
json.dump(sorted(sys.modules), sys.stderr)
"""
HEAVY = {
    "rich",
    "pydantic",
    "httpx2",
    "httpcore",
    "javaproperties",
    "kafka",
    "confluent_kafka",
    "pyspark",
    "pyarrow",
    "numpy",
    "fastapi",
    "psutil",
}


@pytest.mark.parametrize(
    ("words", "imported"),
    [([], set()), (["topics"], {"topics"}), (["reassign", "plan"], {"reassign"})],
    ids=str,
)
def test_help_needs_no_more_than_the_command_that_is_asked_about(
    words: list[str], imported: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words, "--help"], capture_output=True, timeout=300, text=True
    )
    assert done.returncode == 0, done.stderr
    modules = set(json.loads(done.stderr))
    # Typer looks at the options of a command with pydantic; groups with progress bars have rich.
    assert not modules & (HEAVY - {"pydantic", "rich"} if words else HEAVY)
    groups = {"topics", "reassign", "local", "controller", "demo"}
    assert {name for name in groups if f"spark_ordered_kafka.cli.{name}" in modules} == imported


def test_the_version_needs_no_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, "--version"], capture_output=True, timeout=300, text=True
    )
    assert done.stdout == f"ordered-kafka {__version__}\n"
    modules = set(json.loads(done.stderr))
    assert not modules & (HEAVY | {"importlib.metadata"})
    assert not {name for name in modules if name.startswith("spark_ordered_kafka.")} - {
        "spark_ordered_kafka.cli",
        "spark_ordered_kafka.cli.grouping",
        "spark_ordered_kafka.version",
    }


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["autoscale", "simulate", "--help"]])
def test_a_full_disk_is_an_error_of_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "spark_ordered_kafka.cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: [Errno 28] No space left on device\n"
