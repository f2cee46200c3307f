"""Nothing that a command prints is cut where the terminal has 80 columns: it goes on in the next line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.cli.common import print_table

WIDTH = 80
# A word before dots was cut, and rich writes an ellipsis; lists in metavariables end in a comma and dots.
CUT = re.compile(r"…|[a-z] ?\.\.\.$", re.MULTILINE)


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every group and command with the words that call it."""
    command = command or typer.main.get_command(app)
    yield path, command
    for name, member in getattr(command, "commands", {}).items():
        yield from commands(member, (*path, name))


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: "-".join(path) or "all")
def test_help_is_whole(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    result = CliRunner(env={"COLUMNS": str(WIDTH)}).invoke(app, [*path, "--help"])
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= WIDTH
    assert not CUT.search(result.output), result.output
    # A short name stands before its long one: "-f, --format".
    words = result.output.replace(", -", " -").split()
    for option in (name for one in command.params for name in (*one.opts, *one.secondary_opts)):
        assert option.startswith("-") is False or option in words, f"{option} is cut:\n{result.output}"
    for name in getattr(command, "commands", {}):
        assert name in words


def test_cells_of_tables_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all tables the one of `groups describe` has the most columns."""
    from spark_ordered_kafka.cli.groups import _COLUMNS

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    row = [f"{'abcdefghijklmnopqrstuvwxyz'[i]}{i:02}" * 6 for i in range(len(_COLUMNS))]
    print_table(_COLUMNS, [row, row])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    lines = plain.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "…" not in plain
    for cell in row:
        assert plain.count(cell[0]) == 2 * cell.count(cell[0]), f"{cell} is cut:\n{plain}"


def test_tables_of_files_have_long_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts read a row from a line."""
    print_table(("A", "B"), [("x" * 100, "y" * 100)])
    assert "x" * 100 + "  " + "y" * 100 in capsys.readouterr().out


def test_the_list_of_commands_says_what_they_say_themselves() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        about = command.get_short_help_str(10_000)
        assert f" {name} {about}" in shown, name
        assert CliRunner().invoke(app, [name, "--help"]).output.split()[:3] == [
            "Usage:",
            "ordered-kafka",
            name,
        ]
