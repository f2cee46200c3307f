"""Looks for a program that breaks a promise, and shrinks it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings

from spark_ordered_kafka.local import LocalCluster
from tests.programs.drawing import programs
from tests.programs.running import Run, check
from tests.programs.steps import Program


def find(cluster: LocalCluster, many: int, ran: Callable[[Run], object] = lambda _: None) -> None:
    """Run so many programs; the first that breaks a promise is shrunk, and raised as BrokenPromiseError.

    ``ran`` is called after each that breaks none.
    """

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
        ran(check(cluster, program))

    judge()
