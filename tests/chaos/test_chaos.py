"""Random histories of changes, deaths, lags and retention on real servers; new seeds in every run.

``CHAOS_SEED=123 pytest tests/chaos -k seed`` runs a history again, ``CHAOS_SEEDS=5`` sets how many new ones there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import cast

import pytest

from tests.chaos.history import history
from tests.chaos.outcome import Summary
from tests.chaos.run import run
from tests.chaos.servers import ChaosCluster
from tests.seeds import examples, fresh_seeds

REGRESSIONS: list[int] = []
"""Seeds that failed once. A change of the generator makes other histories of them: then write the history out, as a
directed test of test_faults.py."""

_NEW_SEEDS = examples(6)


def _seeds() -> list[int]:
    given = os.environ.get("CHAOS_SEED")
    if given is not None:
        return [int(seed) for seed in given.split(",")]
    return [*REGRESSIONS, *fresh_seeds(__name__, int(os.environ.get("CHAOS_SEEDS", _NEW_SEEDS)))]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, chaos_cluster: ChaosCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[int, Future[Summary]]]:
    """What becomes of every seed. Two histories run at a time, each on servers of its own: most of a history is waiting
    for sessions that end and servers that start."""
    seeds: list[int] = [
        cast(int, item.callspec.params["seed"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_history
    ]
    idle: SimpleQueue[ChaosCluster] = SimpleQueue()
    idle.put(chaos_cluster)

    def run_on_idle_servers(seed: int) -> Summary:
        cluster = idle.get()
        try:
            return run(cluster, history(seed))
        finally:
            idle.put(cluster)

    with ExitStack() as stack:
        if len(seeds) > 1:
            idle.put(stack.enter_context(ChaosCluster(tmp_path_factory.mktemp("chaos"))))
        pool = stack.enter_context(ThreadPoolExecutor(idle.qsize(), "history"))
        # Called first at the end: a run that is broken off begins no further history.
        stack.callback(pool.shutdown, cancel_futures=True)
        yield {seed: pool.submit(run_on_idle_servers, seed) for seed in seeds}


@pytest.mark.parametrize("seed", _seeds(), ids=lambda seed: f"seed-{seed}")
def test_history(outcomes: Mapping[int, Future[Summary]], seed: int) -> None:
    print(outcomes[seed].result())  # noqa: T201 - shown by pytest -s
