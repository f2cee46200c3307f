"""Programs that read by position, drawn at random and judged by what a plain consumer reads: others in every run."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.driven import Records
from tests.programs.read_drawing import reading_programs
from tests.programs.read_steps import Batch, Change, Follow, Next, Position, ReadStep, Write
from tests.programs.reads import check_reads
from tests.programs.running import BrokenPromiseError
from tests.programs.search import search
from tests.queries import Rows
from tests.seeds import examples

MANY = int(os.environ.get("PROGRAMS", examples(24)))
_WRITE = Write((0, 1, 2), 6)


def test_every_read_has_what_lies_between_its_positions_once_and_in_order(cluster: LocalCluster) -> None:
    search(reading_programs(), lambda program: check_reads(cluster, program), MANY)


# -- the judge, judged ----------------------------------------------------------------------------------------------

_FROM_THE_MIDDLE = Follow(Position("offsets", (50,)))
_BROKEN: dict[str, tuple[Callable[[Rows], Rows], list[ReadStep]]] = {
    "lost": (lambda rows: rows[1:], [_FROM_THE_MIDDLE, Next()]),
    "twice": (lambda rows: [*rows[:1], *rows], [Follow(), Next(again=True)]),
    "out of order": (lambda rows: rows[::-1], [Batch()]),
    "wrong": (lambda rows: [{**row, "value": b"9:9"} for row in rows], [Change(3), Batch()]),
}


@pytest.mark.long
@pytest.mark.parametrize("what", _BROKEN)
def test_a_broken_promise_is_found(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    spoil, reads = _BROKEN[what]
    take = Records.take
    monkeypatch.setattr(Records, "take", lambda self, rows: take(self, spoil(rows)))
    with pytest.raises(BrokenPromiseError, match=rf"{what} \[.+\]"):
        check_reads(cluster, [_WRITE, *reads])


@pytest.mark.long
@pytest.mark.parametrize(
    ("read", "why"),
    [
        (Batch(Position("time", (10_000,), latest=False)), "it has no start"),
        (Batch(Position("offsets", (50,)), Position("offsets", (10,))), "it would end before it starts"),
    ],
)
def test_what_must_be_refused_is_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, read: Batch, why: str
) -> None:
    writes = Write(tuple(range(12)), 2, at=0)
    assert check_reads(cluster, [writes, read]).refused == 1
    monkeypatch.setattr("tests.programs.reads.batch", lambda _: Records())
    with pytest.raises(BrokenPromiseError, match=f"not refused: {why}"):
        check_reads(cluster, [writes, read])
