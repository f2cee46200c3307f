"""Looks for a program that breaks a promise, and shrinks it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings

from spark_ordered_kafka.local import LocalCluster
from tests.programs.drawing import programs
from tests.programs.running import BrokenPromiseError, Run, check
from tests.programs.steps import Program


def find(cluster: LocalCluster, many: int, ran: Callable[[Run], object] = lambda _: None) -> None:
    """Run so many programs; the first that breaks a promise is shrunk, and the shortest one raised as BrokenPromiseError.

    One that does not break it each time is raised all the same. ``ran`` is called after each that breaks none.
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
    @given(program=programs())
    def judge(program: Program) -> None:
        try:
            ran(check(cluster, program))
        except BrokenPromiseError as error:
            broken.append(error)
            raise

    try:
        judge()
    except Exception:
        if not broken:
            raise
    if broken:
        # hypothesis would raise the last one, or a group of them where the moment decides what happens.
        raise min(broken, key=lambda error: len(str(error)))
