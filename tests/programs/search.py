"""Looks for a program that breaks a promise, and shrinks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from spark_ordered_kafka.local import LocalCluster
from tests.programs.drawing import programs
from tests.programs.running import BrokenPromiseError, Run, check
from tests.programs.steps import Program

P = TypeVar("P")


def find(
    cluster: LocalCluster, many: int, ran: Callable[[Run], object] = lambda _: None, *, restarts: bool = False
) -> None:
    """Run so many programs of the plain clients; see :func:`search`. ``ran`` is called after each that breaks nothing.

    ``restarts``: also such that restart servers of the cluster.
    """

    def judge(program: Program) -> None:
        ran(check(cluster, program))

    search(programs(restarts=restarts), judge, many)


def search(
    drawn: SearchStrategy[P], judge: Callable[[P], object], many: int, number: int | None = None
) -> None:
    """Judge so many programs; the first that breaks a promise is shrunk, and the shortest one raised as BrokenPromiseError.

    One that does not break it each time is raised all the same. ``number`` gives the same programs again.
    """
    broken: list[BrokenPromiseError] = []

    @settings(
        max_examples=many,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(program=drawn)
    def judged(program: Any) -> None:
        try:
            judge(program)
        except BrokenPromiseError as error:
            broken.append(error)
            raise

    try:
        (judged if number is None else seed(number)(judged))()
    except Exception:
        if not broken:
            raise
    if broken:
        # hypothesis would raise the last one, or a group of them where the moment decides what happens.
        shortest = min(broken, key=lambda error: len(str(error)))
        # What servers were left in by the first may be all that breaks a shorter one.
        raise shortest from (broken[0] if broken[0] is not shortest else shortest.__cause__)
