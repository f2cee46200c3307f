"""Random histories of changes, deaths, lags and retention on real servers; new seeds in every run.

``CHAOS_SEED=123 pytest tests/chaos -k seed`` runs a history again, ``CHAOS_SEEDS=5`` sets how many new ones there are.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.chaos.history import history
from tests.chaos.run import run
from tests.chaos.servers import ChaosCluster

REGRESSIONS: list[int] = []
"""Seeds that failed once. A change of the generator makes other histories of them: then write the history out, as a
directed test of test_faults.py."""

_NEW_SEEDS = 30


def _seeds() -> list[int]:
    given = os.environ.get("CHAOS_SEED")
    if given is not None:
        return [int(seed) for seed in given.split(",")]
    fresh = random.SystemRandom().sample(range(10**9), int(os.environ.get("CHAOS_SEEDS", _NEW_SEEDS)))
    return [*REGRESSIONS, *fresh]


@pytest.mark.parametrize("seed", _seeds(), ids=lambda seed: f"seed-{seed}")
def test_history(chaos_cluster: ChaosCluster, seed: int) -> None:
    print(run(chaos_cluster, history(seed)))  # noqa: T201 - shown by pytest -s
