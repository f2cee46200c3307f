"""Seeds that nobody has tried yet, and how many examples are tried of what a machine writes."""

from __future__ import annotations

import os
import random


def fresh_seeds(test: str, count: int = 1) -> list[int]:
    """``count`` seeds below 10**9 for ``test``, others in every run."""
    # Processes that share the tests of a run must collect the same ones.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    source = random.SystemRandom() if run is None else random.Random(f"{run}/{test}")
    return source.sample(range(10**9), count)


def is_thorough() -> bool:
    """Whether this is `make test-all`."""
    return "THOROUGH" in os.environ


def examples(many: int) -> int:
    """``many`` in `make test-all`, a sixth of them otherwise: hypothesis tries others in every run."""
    return many if is_thorough() else many // 6
