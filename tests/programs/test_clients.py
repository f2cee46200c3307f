"""Programs of plain clients, drawn at random and judged by a model: others in every run.

``PROGRAMS=500 pytest tests/programs/test_clients.py`` runs so many; ``make programs MINUTES=10`` for so long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis.internal.conjecture import engine

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.joining import GroupOffsets
from spark_ordered_kafka.local import LocalCluster
from tests.programs.books import Record
from tests.programs.found import FOUND
from tests.programs.judge import Judge
from tests.programs.printed import run_by_itself
from tests.programs.running import BrokenPromiseError, check
from tests.programs.search import find
from tests.programs.steps import Act, Consume, Member, Program, Write
from tests.seeds import examples

MANY = int(os.environ.get("PROGRAMS", examples(15)))


def test_programs_of_plain_clients_keep_every_promise(cluster: LocalCluster) -> None:
    find(cluster, MANY)


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_not_found_again(cluster: LocalCluster, name: str) -> None:
    check(cluster, FOUND[name])


# -- the judge, judged ----------------------------------------------------------------------------------------------


def nothing(*_: Any) -> None:
    """What a method does that does nothing."""


PLANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "rewind does nothing": (OrderedConsumer, "_rewind", nothing),
    "nothing is committed": (GroupOffsets, "commit", lambda _, offsets: offsets),
}
_WRITE = Write("w0", "a", ("k0", "k1", "k2", "k3"), 3)


@pytest.mark.long
def test_a_broken_promise_is_printed_as_code_that_runs_by_itself(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Without a record before the rewind there is nothing to be found: a group may take its time to begin.
    steps = (_WRITE, Act("w0", "flush"), Consume(0, 2, 60.0), Act("c0", "rewind"), Consume(0, 4, 60.0))
    with monkeypatch.context() as planted:
        planted.setattr(*PLANTS["rewind does nothing"])
        with pytest.raises(BrokenPromiseError, match="committed") as found:
            check(cluster, Program((Member(), Member()), steps))
    assert "c0 got [(" in run_by_itself(cluster, tmp_path, str(found.value))[1]


@pytest.mark.parametrize(
    ("delivered", "broken"),
    [("23", None), ("0123", None), ("3", "neither committed nor its own"), ("2", "never come again")],
)
def test_only_what_was_deleted_need_not_come(delivered: str, broken: str | None) -> None:
    """Of four records of a key the first two are deleted; one that was fetched by then is delivered all the same."""
    judge = Judge(Program((Member(),), ()), {"a-1": [Record("a-1", 0, at, "k", str(at)) for at in range(4)]})
    judge.opened("end")
    judge.deleted("a-1", {0: 2})
    for number in delivered:
        judge.told("end", "got", [("a-1", 0, int(number), number)])
    left = [f"{number} never come again" for number in judge.due(["a-1"])]
    found = [*judge.violations, *left]
    assert bool(found) == (broken is not None), found
    assert broken is None or any(broken in text for text in found), found


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("plant", PLANTS)
def test_what_breaks_a_promise_is_found(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plant: str
) -> None:
    monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", 60)
    with monkeypatch.context() as planted:
        planted.setattr(*PLANTS[plant])
        with pytest.raises(BrokenPromiseError, match="committed") as found:
            find(cluster, 100)
    code, output = run_by_itself(cluster, tmp_path, str(found.value))
    assert "c0 got [(" in output
    print(str(found.value).partition("\n\n")[0], code[code.index("def main") :])  # noqa: T201 - shown by pytest -s
