"""``ordered-kafka autoscale simulate``, and the keys ``autoscale.*`` of the configuration that it reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.controller.autoscale.configuration import autoscale_settings
from spark_ordered_kafka.controller.config import controller_config, read_file
from spark_ordered_kafka.errors import ConfigError

RISE_AND_FALL = "0:1MB,1h:20MB,3h:20MB,4h:1MB,8h:1MB"
STEEP = "0:1MB,1h:40MB,3h:40MB,4h:1MB,8h:1MB"


def simulate(directory: Path, config: str, *options: str) -> Result:
    (directory / "controller.toml").write_text(config)
    given = ["--config", str(directory / "controller.toml"), "--topic", "orders", *options]
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["autoscale", "simulate", *given])


def body(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_topic_follows_a_shape(tmp_path: Path) -> None:
    told = body(simulate(tmp_path, 'autoscale.mode = "act"', "--shape", RISE_AND_FALL, "--output", "json"))
    targets = [change["target"] for change in told["changes"]]
    assert max(targets) == 4
    assert targets[-1] == 1
    assert told["seconds_above_target"] == 0
    assert all(moment["peak"] <= 0.9 for moment in told["moments"])
    shown = simulate(tmp_path, 'autoscale.mode = "act"', "--shape", RISE_AND_FALL).stdout
    assert f"{len(targets)} changes; above the target for 0:00:00" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count(" grow to ") + shown.count(" shrink to ") == len(targets)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("max.partitions = 2", "bounds"),
        ("changes.per.day = 1", "budget"),
        ('quiet.hours = ["Mon 00:10-23:50"]', "quiet_hours"),
        ("cooldown.ms = 7200000", "cooldown"),
    ],
)
def test_what_holds_it_back_is_said(tmp_path: Path, line: str, rule: str) -> None:
    config = f'[autoscale]\nmode = "act"\n{line}\n'
    told = body(simulate(tmp_path, config, "--shape", STEEP, "--output", "json"))
    assert told["seconds_held_back"][rule] > 600
    assert told["seconds_above_target"] > 0
    assert f"held back by {rule} for " in simulate(tmp_path, config, "--shape", STEEP).stdout


def test_a_recorded_load_with_a_hot_key(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text(
        "time,bytes_per_second,hot_key_share\n2026-11-23T08:00:00Z,12000000,0.9\n2026-11-23T10:00:00,12000000,0.9\n"
    )
    told = body(simulate(tmp_path, "", "--load", str(tmp_path / "load.csv"), "--output", "json"))
    assert told["changes"] == []
    assert told["seconds_held_back"].keys() == {"unsplittable_key"}
    assert "no split divides a key" in told["moments"][-1]["reason"]
    assert told["moments"][0]["at"] == 1795420800
    shown = simulate(tmp_path, "", "--load", str(tmp_path / "load.csv")).stdout
    assert 'autoscale.mode is "off" for topic orders' in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--load and --shape is missing: give one of the two"),
        (["--shape", "0:1MB,1h:x"], "--shape has the value '1h:x'"),
        (["--shape", "0:1MB"], "two points are needed"),
        (["--shape", "1h:1MB,0:1MB"], "the times must increase"),
        (["--shape", "0:1MB,4000d:1MB"], "autoscale.interval.ms has the value 30000: the load lasts"),
        (
            ["--shape", "0:1MB,1h:1MB", "--initial", "4", "--partitions", "2"],
            "at least --initial, which is 4",
        ),
        (["--load", "nowhere.csv"], "--load has the value 'nowhere.csv': cannot be read"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], message: str) -> None:
    result = simulate(tmp_path, "", *options)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_every_wrong_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text(
        "time,bytes_per_second,hot_key_share\nyesterday,1,0\n1,-5,0\n2,1,1.5\n3,1,\n"
    )
    result = simulate(tmp_path, "", "--load", str(tmp_path / "load.csv"))
    assert result.exit_code == 2
    assert re.findall(r"--load, line (\d): (\w+)", result.stderr) == [
        ("2", "time"),
        ("3", "bytes_per_second"),
        ("4", "hot_key_share"),
    ]


NEEDED = {"kafka.bootstrap.servers": "k:1", "zookeeper.connect": "z:1"}


def test_entries_of_topics(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        '[autoscale]\nmode = "observe"\nmax.partitions = 8\n[[autoscale.topics]]\nname = "orders"\nmode = "act"\n'
        'min.partitions = 2\n[[autoscale.topics]]\nname = "or*"\nmode = "off"\n'
    )
    settings = controller_config(NEEDED | read_file(path, {}), default_host="h").settings.autoscale
    found = [settings.of(name) for name in ("orders", "ordinary", "other")]
    assert [(one.mode, one.minimum, one.maximum) for one in found] == [
        ("act", 2, 8),
        ("off", 1, 8),
        ("observe", 1, 8),
    ]
    assert settings.enabled
    assert not controller_config(NEEDED, default_host="h").settings.autoscale.enabled


def test_all_that_is_wrong_is_said_at_once() -> None:
    entries = {
        "autoscale.interval.ms": 5,
        "autoscale.mode": "act",
        "autoscale.goal": 0.9,
        "autoscale.min.partitions": 9,
        "autoscale.max.partitions": 3,
        "autoscale.changes.per.day": 0,
        "autoscale.target.bytes.per.second": 0,
        "autoscale.quiet.hours": ["00:00-12:00", "12:00-24:00"],
    }
    with pytest.raises(ConfigError) as caught:
        autoscale_settings(entries)
    text = str(caught.value)
    for name in entries.keys() - {"autoscale.mode", "autoscale.max.partitions"}:
        assert f"{name} has the value" in text, text


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"autoscale.mod": "act"},
            "unknown key autoscale.mod has the value 'act': did you mean autoscale.mode?",
        ),
        ({"autoscale.quiet.hours": ["8-18"]}, "autoscale.quiet.hours has the value '8-18': times of day"),
        ({"autoscale.quiet.hours": ["08:00-08:00"]}, "for a whole day set 00:00-24:00"),
        ({"autoscale.quiet.hours": ["25:00-26:00"]}, "times of day in UTC are needed"),
        ({"autoscale.topics": "orders"}, "tables are needed"),
        ({"autoscale.topics": [{"mode": "act"}]}, "autoscale.topics[0].name is missing"),
        ({"autoscale.topics": [{"name": "a b"}]}, "autoscale.topics[0].name has the value 'a b'"),
        (
            {"autoscale.topics": [{"name": "a", "max": {"partition": 3}}]},
            "unknown key autoscale.topics[0].max.partition",
        ),
        ({"autoscale.topics": [{"name": "a", "goal": 0.9}]}, "autoscale.topics[0].goal has the value 0.9"),
    ],
)
def test_a_wrong_key_is_named(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        controller_config(NEEDED | entries, default_host="h")
    assert message in str(caught.value)
