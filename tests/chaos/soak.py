"""New histories until the time is up: ``make soak MINUTES=10``."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.chaos.history import history
from tests.chaos.outcome import ChaosError, Summary
from tests.chaos.run import run
from tests.chaos.servers import ChaosCluster


def soak(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long to go on.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Of the first history; random if left out.")] = None,
) -> None:
    """Run histories with new seeds, one line each; ends with 1 at the first that breaks a promise."""
    seeds = random.Random(seed)
    done: list[Summary] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as directory, ChaosCluster(Path(directory)) as cluster:
        deadline = time.monotonic() + 60 * minutes
        while time.monotonic() < deadline:
            try:
                done.append(run(cluster, history(seeds.randrange(10**9))))
            except ChaosError as error:
                typer.echo(str(error), err=True)
                _total(done)
                raise typer.Exit(1) from None
            typer.echo(str(done[-1]))
    _total(done)


def _total(done: list[Summary]) -> None:
    typer.echo(
        f"{len(done)} histories without a violation: {sum(one.records for one in done)} records,"
        f" {sum(one.delivered for one in done)} delivered, {sum(one.changes for one in done)} changes,"
        f" {sum(one.batches for one in done)} batches, {sum(one.replayed for one in done)} replayed,"
        f" {sum(one.deaths for one in done)} writers died, {sum(one.deleted for one in done)} records deleted,"
        f" {sum(len(one.faults) for one in done)} server faults"
    )


if __name__ == "__main__":
    with ended_by_sigterm():
        typer.run(soak)
