"""New programs until the time is up: ``make programs MINUTES=10``. One that breaks a promise is shrunk and printed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.programs.operator_drawing import programs as operator_programs
from tests.programs.operators import Turn, check_operators
from tests.programs.read_drawing import reading_programs
from tests.programs.read_steps import ReadStep
from tests.programs.reads import check_reads
from tests.programs.running import BrokenPromiseError, Run
from tests.programs.search import find, search
from tests.programs.steps import Restart
from tests.seeds import fresh_seeds

_ROUND = 25
_SPARK_ROUND = 5


class Of(StrEnum):
    """Whose programs."""

    ALL = "all"
    CLIENTS = "clients"
    SPARK = "spark"
    OPERATORS = "operators"
    READS = "reads"


def main(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long to go on.")] = 10.0,
    directory: Annotated[Path | None, typer.Option(help="Of the servers; they stay up if given.")] = None,
    of: Annotated[Of, typer.Option(help="Whose programs.")] = Of.ALL,
    seed: Annotated[int | None, typer.Option(help="Of Spark's programs: the first round again.")] = None,
) -> None:
    """Run programs; ends with 1 at the first that breaks a promise."""
    deadline = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="programs-") as temporary:
        # Operators move replicas.
        cluster = LocalCluster(
            directory or temporary, controllers=2, brokers=3 if of in (Of.ALL, Of.OPERATORS) else 1
        )
        cluster.up()
        clients: list[Run] = []
        rounds: list[Callable[[], object]] = []
        if of in (Of.ALL, Of.CLIENTS):
            rounds.append(lambda: find(cluster, _ROUND, lambda run: _note(clients, run), restarts=True))
        if of in (Of.ALL, Of.SPARK):
            rounds.append(_spark_rounds(cluster, Path(temporary), seed))
        if of in (Of.ALL, Of.OPERATORS):
            rounds.append(_operator_rounds(cluster))
        if of in (Of.ALL, Of.READS):
            rounds.append(_reading_rounds(cluster))
        try:
            while time.monotonic() < deadline:
                for one in rounds:
                    one()
        except BrokenPromiseError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        finally:
            if clients:
                typer.echo(summary(clients))
            if directory is None:
                cluster.down()


def _note(done: list[Run], run: Run) -> None:
    done.append(run)
    typer.echo(str(run))


def _spark_rounds(cluster: LocalCluster, home: Path, seed: int | None) -> Callable[[], object]:
    # Only who runs them needs a session.
    from tests.programs.spark_drawing import spark_programs
    from tests.programs.spark_prelude import local_session
    from tests.programs.spark_running import SparkRun, check_spark
    from tests.programs.spark_steps import SparkProgram

    session = local_session(home / "warehouse")
    seeds = [] if seed is None else [seed]
    done: list[SparkRun] = []

    def judge(program: SparkProgram) -> None:
        done.append(check_spark(cluster, session, program))
        typer.echo(f"Spark program {len(done)}: {done[-1]}")

    def one_round() -> None:
        number = seeds.pop() if seeds else fresh_seeds("spark programs")[0]
        typer.echo(f"--of spark --seed {number}")
        search(spark_programs(elsewhere=True), judge, _SPARK_ROUND, number)

    return one_round


def _operator_rounds(cluster: LocalCluster) -> Callable[[], object]:
    numbers = count(1)

    def judge(program: list[Turn | Restart]) -> None:
        typer.echo(f"operators' program {next(numbers)}: {check_operators(cluster, program)}")

    return lambda: search(operator_programs(restarts=True), judge, _ROUND)


def _reading_rounds(cluster: LocalCluster) -> Callable[[], object]:
    numbers = count(1)

    def judge(program: list[ReadStep]) -> None:
        typer.echo(f"reading program {next(numbers)}: {check_reads(cluster, program)}")

    return lambda: search(reading_programs(), judge, _ROUND)


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
    with ended_by_sigterm():
        typer.run(main)
