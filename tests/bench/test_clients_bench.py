"""The clients' benchmark on real servers, tiny: its figures, not their size, are tested."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from spark_ordered_kafka.bench.clients import ClientsPlan, run
from spark_ordered_kafka.bench.figures import Comparison, Spread
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ConfigError, UnavailableError
from spark_ordered_kafka.local import LocalCluster

TINY = ClientsPlan(records=2_000, value_bytes=10, partitions=2, repeats=1, producers=3, changes=2)


def test_all_is_measured(cluster: LocalCluster) -> None:
    told: list[str] = []
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, cluster.controller_url)
    with ControllerClient(cluster.controller_url) as controller:
        before = {view.topic for view in controller.topics().topics}
        report = run(connection, TINY, told.append)
        views = {view.topic: view for view in controller.topics().topics if view.topic not in before}

    epochs = {name.rpartition("-")[2]: view.layout_epoch for name, view in views.items()}
    assert epochs == {"plain": 0, "ordered": 0, "changing": 2}
    for compared in (report.producer, report.consumer):
        for spread in (compared.plain, compared.ordered, compared.ratio):
            assert 0 < spread.min <= spread.median <= spread.max
        assert compared.goal == 0.8
    pauses = report.pauses
    assert [(change.source, change.target) for change in pauses.changes] == [(2, 4), (4, 2)]
    assert [len(change.pauses) for change in pauses.changes] == [3, 3]
    for change in pauses.changes:
        # The open transactions were fenced.
        assert change.usual > 0
        assert change.closing > 0
        assert min(change.pauses) >= 0
    assert pauses.seconds.max == max(max(change.pauses) for change in pauses.changes) > 0
    assert [line.split()[0] for line in told] == ["produce", "consume", "opening", "change", "change"]


def test_no_controller_is_told() -> None:
    with pytest.raises(UnavailableError):
        run(Connection({"bootstrap.servers": "127.0.0.1:1"}, "http://127.0.0.1:1"), TINY)


def test_ratios_are_of_pairs() -> None:
    compared = Comparison.of([(100.0, 90.0), (10.0, 8.0), (1.0, 2.0)], 0.8)
    assert compared.ratio == Spread(0.9, 0.8, 2.0)
    assert compared.plain == Spread(10.0, 1.0, 100.0)


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("records", 99, "must be 100 or greater"),
        ("value_bytes", 0, "must be 1 or greater"),
        ("partitions", 0, "must be 1 or greater"),
        ("repeats", -1, "must be 1 or greater"),
        ("producers", 0, "must be 1 or greater"),
        ("changes", 0, "must be 1 or greater"),
    ],
)
def test_numbers_too_small_are_refused(field: str, value: int, right: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} has the value {value}: {right}"):
        replace(TINY, **{field: value})


def test_the_command_refuses_before_it_starts_servers() -> None:
    done = CliRunner().invoke(app, ["bench", "clients", "--producers", "0"])
    assert done.exit_code == 2
    assert "producers has the value 0: must be 1 or greater" in done.output
