"""``--command-config``: every command that talks to a controller has it, and what is wrong in the file is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.cli.command_config import connection
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ConfigError


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for child, found in command.commands.items():
            yield from commands(found, f"{name} {child}".strip())
    else:
        yield name, command


def test_every_command_that_has_a_controller_takes_its_credentials() -> None:
    found = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(typer.main.get_command(app))
    }
    talking = {name: options for name, options in found.items() if "--controller" in options}
    assert len(talking) > 5
    assert [name for name, options in talking.items() if "--command-config" not in options] == []


def written(directory: Path, text: str) -> Path:
    path = directory / "controller.properties"
    path.write_text(text)
    return path


def test_a_file_has_url_and_credentials(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "# of alice\ncontroller.url=https://c:8090\ncontroller.username = alice\ncontroller.password=a=b%c:d\n",
    )
    assert connection(None, path) == (
        "https://c:8090",
        ControllerCredentials(username="alice", password="a=b%c:d"),
    )
    assert connection("https://other:1", path)[0] == "https://other:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--controller is missing"),
        ("controller.url=ftp://c:1", "controller.url has the value 'ftp://c:1'"),
        ("controller.url=http://c:1\ncontroller.username=a\ncontroller.password=hunter2", "unencrypted"),
        ("controller.url=https://c:1\ncontroller.pasword=hunter2", "property controller.pasword"),
        ("controller.url=https://c:1\nhunter2", "name=value"),
        ("controller.token=hunter2\ncontroller.token=hunter2", "name=value"),
        ("bootstrap.servers=h:1", "--controller is missing"),
        ("bootstrap.server=h:1", "property bootstrap.server"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_and_the_command_ends_with_2(
    tmp_path: Path, text: str, message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as found:
        connection(None, path)
    assert message in str(found.value)
    ended = CliRunner().invoke(
        app,
        ["topics", "list"],
        env={"ORDERED_KAFKA_COMMAND_CONFIG": str(path), "ORDERED_KAFKA_CONTROLLER": None},
    )
    assert ended.exit_code == 2
    assert message in ended.stderr
    assert "hunter2" not in ended.output


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--command-config .*No such file"):
        connection(None, tmp_path / "none")


def test_a_token_is_made_with_its_entry() -> None:
    made = CliRunner().invoke(app, ["controller", "hash-token", "--principal", "User:ci"])
    assert made.exit_code == 0
    token, entry = (line.partition(": ")[2] for line in made.stdout.splitlines())
    again = CliRunner().invoke(
        app, ["controller", "hash-token", "--principal", "User:ci", "--stdin"], input=f"{token}\n"
    )
    assert again.stdout == f"entry: {entry}\n"
    assert token not in again.output


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    text = "controller.url = https://c:1\ncontroller.username=al\\\n    ice\ncontroller.password=a\\u00e9\\\\b\\=c \\\n"
    _, credentials = connection(None, written(tmp_path, text))
    assert (credentials.username, credentials.password) == ("alice", "a\u00e9\\b=c ")


@pytest.mark.parametrize("text", ["controller.token=a\\u00zz", "hunter2 hunter2", "controller.token hunter2"])
def test_what_is_no_property_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="lines of the form name=value are needed") as found:
        connection("https://c:1", written(tmp_path, text))
    assert "hunter2" not in str(found.value)
