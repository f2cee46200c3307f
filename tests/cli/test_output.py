"""``--output yaml`` is where ``json`` is, and says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.cli.common import OutputFormat, print_body, print_data
from spark_ordered_kafka.client.schemas import GroupSummary
from tests.cli.test_command_config import commands

# Texts that YAML would take for something else, or that need quotes.
DATA = {
    "texts": ["yes", "null", "1e3", "2026-11-23", " a: b ", "#", "", "ä\u2028\x07", "- x"],
    "more": [{"none": None, "big": 2**63, "part": 0.5, "empty": [], "flags": [True, False]}],
    "format": OutputFormat.JSON,
}


def printed(capsys: pytest.CaptureFixture[str], data: Any, output: OutputFormat) -> str:
    print_data(data, output)
    return capsys.readouterr().out


def test_yaml_has_what_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, DATA, OutputFormat.YAML)
    assert yaml.safe_load(text) == json.loads(printed(capsys, DATA, OutputFormat.JSON))
    assert list(yaml.safe_load(text)) == ["texts", "more", "format"]
    assert "{" not in text


def test_an_answer_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    print_body(GroupSummary(group="on", state="Stable"), OutputFormat.YAML)
    assert capsys.readouterr().out == "group: 'on'\nstate: Stable\n"


def test_every_command_with_json_has_yaml() -> None:
    names = [
        name
        for name, command in commands(typer.main.get_command(app))
        if any("--output" in parameter.opts for parameter in command.params)
    ]
    assert len(names) > 30
    for name in names:
        shown = " ".join(
            CliRunner().invoke(app, [*name.split(), "--help"], terminal_width=1000).stdout.split()
        )
        assert "table|json|yaml" in shown, name
