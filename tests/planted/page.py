"""docs/planted-faults.md: a row for each fault, as it was found last."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Mapping

from tests.planted.running import Outcome
from tests.planted.table import ROOT, Fault

PAGE = ROOT / "docs" / "planted-faults.md"
_HEAD = """# Planted faults

<!-- `make planted` writes this page. -->

Do the tests find what they are there for? `make planted` answers that: for each row below it copies the project, plants one fault by a patch (`tests/planted/faults/`), and runs the tests that `tests/planted/faults.toml` names for it, on real servers where the promise is about servers. The fault counts as found only when each of these tests fails in its own assertion, or with an error of this package, of the words that the table expects; an import that fails or a time-out does not count. Before that, all these tests pass without a fault. `PLANTED=<name> make planted` runs one. What each promise is held by: [reliability.md](reliability.md).

Seconds count from the start of pytest, servers included; where they are many, the machine was busy. The commit is the last one that had changed the package by then.

| fault | what the patch does | what that breaks | found by | after | run |
|---|---|---|---|---|---|
"""


def rows() -> dict[str, str]:
    """The rows that are there, by the fault's name."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def update(outcomes: Mapping[str, Outcome], faults: Mapping[str, Fault]) -> None:
    """Write the page with new rows for these outcomes, and the rows that are there for the other faults."""
    known = rows()
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {_commit()}"
    lines = [_row(outcomes[name], now) if name in outcomes else known.get(name) for name in faults]
    PAGE.write_text(_HEAD + "".join(f"{line}\n" for line in lines if line is not None))


def _row(outcome: Outcome, now: str) -> str:
    fault = outcome.fault
    found = "<br>".join(f"`{short(test)}`" for test in fault.tests)
    seconds = "<br>".join(
        f"{outcome.seconds[test]:.0f} s" if test in outcome.seconds else "not found" for test in fault.tests
    )
    return f"| `{fault.name}` | {fault.breaks} | {fault.promise} | {found} | {seconds} | {now} |"


def short(test: str) -> str:
    """A node id as pages have it, relative to tests/."""
    return test.removeprefix("tests/")


def _commit() -> str:
    """The last one that has changed the package."""
    command = ["git", "log", "-1", "--format=%h", "--", "spark_ordered_kafka"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"`{done.stdout.strip()}`" if done.returncode == 0 else "no commit"
