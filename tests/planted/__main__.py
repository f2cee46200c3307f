"""Plants each fault and runs the tests that must find it: ``make planted``, or ``PLANTED=<name> make planted`` for one."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Annotated

import typer

from tests.planted.page import PAGE, short, update
from tests.planted.running import Outcome, PlantingError, try_with, try_without
from tests.planted.table import ROOT, faults


def planted(
    names: Annotated[list[str] | None, typer.Argument(help="Faults to plant; all if left out.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Do not run the tests without a fault first.")
    ] = False,
) -> None:
    """Ends with 1 where a fault is not found, and with 2 where that cannot be said."""
    known = faults()
    wrong = sorted(set(names or ()) - known.keys())
    if wrong:
        raise typer.BadParameter(f"{', '.join(wrong)}: there are {', '.join(known)}")
    chosen = [known[name] for name in names or known]
    outcomes: dict[str, Outcome] = {}
    try:
        if not trust:
            try_without(chosen)
            typer.echo("without a fault all their tests pass")
        for fault in chosen:
            outcomes[fault.name] = outcome = try_with(fault)
            _show(outcome)
            # Each at once: a run may be ended.
            update(outcomes, known)
    except PlantingError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{PAGE.relative_to(ROOT)} is up to date")
    missed = [name for name, outcome in outcomes.items() if not outcome.found]
    typer.echo(f"{len(outcomes) - len(missed)} of {len(outcomes)} faults are found")
    if missed:
        typer.echo(f"not found: {', '.join(missed)}", err=True)
        raise typer.Exit(1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(outcome: Outcome) -> None:
    typer.echo(outcome.fault.name)
    for test, seconds in outcome.seconds.items():
        typer.echo(f"  {seconds:4.0f} s  {short(test)}")
    for test, said in outcome.missed.items():
        typer.echo(f"  MISSED  {short(test)}\n          {said}")


if __name__ == "__main__":
    # As ctrl-C, upon which the servers of the tests are taken down.
    signal.signal(signal.SIGTERM, _interrupt)
    typer.run(planted)
