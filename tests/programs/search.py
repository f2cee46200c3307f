"""New programs until the time is up: ``make programs MINUTES=10``. One that breaks a promise is shrunk and printed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from hypothesis import HealthCheck, Phase, given, settings

from spark_ordered_kafka.local import LocalCluster
from tests.programs.drawing import programs
from tests.programs.running import BrokenPromiseError, Run, check
from tests.programs.steps import Program

_ROUND = 25


def find(cluster: LocalCluster, many: int, done: list[Run] | None = None) -> None:
    """Run so many programs; the first that breaks a promise is shrunk, and raised as BrokenPromiseError."""

    @settings(
        max_examples=many,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(program=programs())
    def judge(program: Program) -> None:
        run = check(cluster, program)
        if done is not None:
            done.append(run)

    judge()


def search(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long to go on.")] = 10.0,
    directory: Annotated[Path | None, typer.Option(help="Of the servers; they stay up if given.")] = None,
) -> None:
    """Run programs; ends with 1 at the first that breaks a promise."""
    deadline = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="programs-") as temporary:
        cluster = LocalCluster(directory or temporary, controllers=1)
        cluster.up()
        done: list[Run] = []
        try:
            while time.monotonic() < deadline:
                find(cluster, _ROUND, done)
                typer.echo(summary(done))
        except BrokenPromiseError as error:
            typer.echo(str(error), err=True)
            typer.echo(summary(done))
            raise typer.Exit(1) from None
        finally:
            if directory is None:
                cluster.down()


def summary(done: list[Run]) -> str:
    """What was run."""
    steps = sum(len(run.lines) for run in done)
    refused = sum(error is not None for run in done for _, error in run.lines)
    records = sum(run.records for run in done)
    delivered = sum(run.delivered for run in done)
    return (
        f"{len(done)} programs without a violation: {steps} steps, {refused} of them refused, {records} records,"
        f" {delivered} delivered"
    )


if __name__ == "__main__":
    typer.run(search)
