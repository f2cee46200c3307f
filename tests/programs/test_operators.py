"""Programs of operators, drawn at random and judged by what may be so: others in every run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.local import LocalCluster
from tests.programs.operators import OperatorsRun, Request, Turn
from tests.seeds import examples
from tests.servers import unique_name

MANY = int(os.environ.get("PROGRAMS", examples(18)))

requests = st.builds(
    Request,
    who=st.integers(0, 1),
    what=st.sampled_from(("alter", "alter", "alter", "cancel", "create", "delete", "release", "adopt")),
    count=st.integers(1, 5),
    wait=st.booleans(),
)
pairs = st.tuples(requests, requests).map(lambda both: Turn((both[0], both[1])))
DELETED, RELEASED = Request(0, "delete"), Request(1, "release")
turns = requests.map(lambda one: Turn((one,))) | pairs


def test_every_answer_is_allowed_and_nothing_is_left_half_done(cluster: LocalCluster) -> None:
    @settings(
        max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck), report_multiple_bugs=False
    )
    # Both were answered by success once, or one by an internal error.
    @example([Turn((DELETED, RELEASED))])
    @example([Turn((RELEASED, DELETED)), Turn((DELETED,)), Turn((Request(0, "create"),))])
    # The one that begins waits, and the other one is answered meanwhile.
    @example([Turn((Request(1, "alter", 4, wait=False), Request(0, "alter", 3)))])
    @given(st.lists(turns, max_size=10))
    def judge(program: list[Turn]) -> None:
        first = Turn((Request(0, "create"),))
        OperatorsRun(cluster.controller_url, unique_name("operated"), [first, *program]).go()

    judge()
