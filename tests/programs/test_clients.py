"""Programs of plain clients, drawn at random and judged by a model (``PROGRAMS=500``: so many; `make programs`)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings

from spark_ordered_kafka.local import LocalCluster
from tests.programs.drawing import programs
from tests.programs.running import check
from tests.programs.steps import Program
from tests.seeds import examples

MANY = int(os.environ.get("PROGRAMS", examples(60)))


def test_programs_of_plain_clients_keep_every_promise(cluster: LocalCluster) -> None:
    @settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
    @given(program=programs())
    def judge(program: Program) -> None:
        check(cluster, program)

    judge()
