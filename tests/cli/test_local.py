"""``ordered-kafka local``: what it tells the shell, and which directories it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.cli.local import _exports

SECURED = {
    "bootstrap_servers": "a:1",
    "controller": "https://a:2",
    "security": {"users": {"admin": {"controller_properties": "/a b/controller.properties"}}},
}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (
            SECURED,
            ["BOOTSTRAP_SERVERS=a:1", "ORDERED_KAFKA_COMMAND_CONFIG=/a b/controller.properties",
             "ORDERED_KAFKA_CONTROLLER=https://a:2"],
        ),
        (
            {"bootstrap_servers": "b:1", "controller": "http://b:2"},
            ["BOOTSTRAP_SERVERS=b:1", "ORDERED_KAFKA_CONTROLLER=http://b:2"],
        ),
        ({"bootstrap_servers": "c:1", "controller": ""}, ["BOOTSTRAP_SERVERS=c:1"]),
    ],
)  # fmt: skip
def test_a_shell_that_knew_another_cluster_knows_this_one_alone(
    description: dict[str, object], expected: list[str]
) -> None:
    script = "\n".join([*_exports(SECURED), *_exports(description), "env"])
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True, timeout=60)
    assert [line for line in sorted(done.stdout.splitlines()) if line in expected] == expected
    names = ("BOOTSTRAP_SERVERS=", "ORDERED_KAFKA_CONTROLLER=", "ORDERED_KAFKA_COMMAND_CONFIG=")
    assert len([line for line in done.stdout.splitlines() if line.startswith(names)]) == len(expected)


def test_a_directory_that_cannot_be_used_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for directory in (file, file / "below", Path("/proc/cluster")):
        done = CliRunner().invoke(app, ["local", "up", "--dir", str(directory)])
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: the cluster in {directory} cannot be used: ")
        assert done.stderr.count("\n") == 1
