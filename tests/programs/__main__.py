"""New programs until the time is up: ``make programs MINUTES=10``. One that breaks a promise is shrunk and printed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from spark_ordered_kafka.local import LocalCluster
from tests.programs.running import BrokenPromiseError, Run
from tests.programs.search import find

_ROUND = 25


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

        def ran(run: Run) -> None:
            done.append(run)
            typer.echo(str(run))

        try:
            while time.monotonic() < deadline:
                find(cluster, _ROUND, ran)
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
