"""Kafka's JSON of a reassignment: what is wrong in it is named before anybody is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.cli.reassign_files import read_partitions
from spark_ordered_kafka.client.schemas import (
    Assignment,
    PartitionAssignment,
    PartitionReassignment,
    ReassignmentPlan,
)
from spark_ordered_kafka.errors import ConfigError

ROW = {"topic": "a", "partition": 0, "replicas": [1, 2]}


def read(path: Path, text: str | bytes) -> list[PartitionReassignment]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with path.open("rb") as file:
        return read_partitions(file)


def test_what_kafka_reads_is_read(tmp_path: Path) -> None:
    dirs = {"topic": "b", "partition": 3, "replicas": [2], "log_dirs": ["any"]}
    text = json.dumps({"partitions": [ROW, dirs, ROW], "version": 1})
    assert read(tmp_path / "plan.json", text) == [PartitionReassignment(**row) for row in (ROW, dirs, ROW)]  # type: ignore[arg-type]
    assert read(tmp_path / "plan.json", '{"partitions":[]}') == []


def test_what_reassign_plan_prints_is_read(tmp_path: Path) -> None:
    row = PartitionAssignment(topic="a", partition=0, replicas=[1, 2], log_dirs=["any", "/d/a"])
    plan = ReassignmentPlan(
        partitions=[row],
        current=Assignment(partitions=[row]),
        bytes_to_move=-1,
        replicas_to_move=1,
        leaders_to_move=0,
        warnings=["slow"],
    )
    (found,) = read(tmp_path / "plan.json", plan.model_dump_json(indent=2))
    assert found == PartitionReassignment(topic="a", partition=0, replicas=[1, 2], log_dirs=["any", "/d/a"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"version": 2, "partitions": []}, "version has the value '2': Input should be 1"),
        ({"topics": [{"topic": "a"}], "version": 1}, "partitions: Field required; and 1 more like it"),
        ({"partitions": {}}, "partitions has the value '{}': Input should be a valid array"),
        ({"partitions": [1]}, "partitions[0] has the value '1': Input should be an object"),
        ([], "the JSON has the value '[]': Input should be an object"),
        ({"partitions": [ROW | {"partition": "0"}]}, "partitions[0].partition has the value '0': Input should be"),
        ({"partitions": [ROW | {"partition": 2**31}]}, "partitions[0].partition has the value '2147483648': Input"),
        ({"partitions": [ROW, ROW | {"replicas": [1, 1.0]}]}, "partitions[1].replicas[1] has the value '1.0': Input"),
        ({"partitions": [ROW | {"replicas": None}]}, "partitions[0].replicas has the value 'None': Input should be"),
        ({"partitions": [{"topic": "a", "partition": 0}]}, "partitions[0].replicas: Field required"),
        ({"partitions": [ROW | {"logdirs": ["any"]}]}, "partitions[0].logdirs has the value"),
        ({"partitions": [ROW | {"log_dirs": ["any", 1]}]}, "partitions[0].log_dirs[1] has the value '1': Input"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_field(tmp_path: Path, body: Any, message: str) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(ConfigError) as found:
        read(path, json.dumps(body))
    assert str(found.value).startswith(f"--reassignment-json-file has the value '{path}': {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "EOF while parsing a value at line 1 column 0"),
        ('{\n"partitions": [\n{"topic": "a",}]}', "trailing comma at line 3 column 15"),
        ('{"partitions": []} {}', "trailing characters at line 1 column 20"),
        # Releases of pydantic count from 0 or 1 here.
        (b'{"partitions": ["\xff"]}', "line 1 column 1"),
        ("[" * 100_000, "recursion limit exceeded"),
    ],
)
def test_what_is_no_json_is_named_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match="Invalid JSON: ") as found:
        read(tmp_path / "plan.json", text)
    assert message in str(found.value)


@pytest.mark.parametrize("command", ["execute", "verify"])
def test_the_file_is_looked_at_before_a_controller_is_sought(command: str, tmp_path: Path) -> None:
    def ended(*arguments: str, text: str = "") -> tuple[int, str]:
        environment = {
            "ORDERED_KAFKA_CONTROLLER": None,
            "ORDERED_KAFKA_COMMAND_CONFIG": None,
            "COLUMNS": "200",
        }
        result = CliRunner(env=environment).invoke(app, ["reassign", command, *arguments], input=text)
        return result.exit_code, result.stderr

    given = ("--reassignment-json-file", "-")
    assert ended(*given, text="{") == (
        2,
        "error: --reassignment-json-file has the value '<stdin>': Invalid JSON: EOF while parsing an object at line 1 "
        "column 1\n",
    )
    code, told = ended(*given, text='{"partitions":[]}')
    assert (code, "--controller is missing" in told) == (2, True)
    code, told = ended("--reassignment-json-file", str(tmp_path / "none.json"))
    assert (code, "No such file" in told) == (2, True)
    code, told = ended("--reassignment-json-file", str(tmp_path))
    assert (code, "Is a directory" in told) == (2, True)
    code, told = ended()
    assert (code, told.startswith("error: --reassignment-json-file is missing: ")) == (2, True)
