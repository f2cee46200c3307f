"""A plugin of pytest that notes how each test ended, in the file that the environment names.

``python -m pytest -p tests.planted.witness``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator

import hypothesis
import pytest

FILE = "PLANTED_WITNESS"
_BEGAN = time.monotonic()


def pytest_configure() -> None:
    """The first failing example of Hypothesis will do: looking for a small one may take minutes."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "planted", parent=hypothesis.settings(), phases=phases, report_multiple_bugs=False, database=None
    )
    hypothesis.settings.load_profile("planted")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a line for each test that was called, and for each setup and teardown that failed."""
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    if error is not None or call.when == "call":
        line = {
            "test": item.nodeid,
            "when": call.when,
            "outcome": report.outcome,
            "kinds": [f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__],
            "text": "" if error is None else str(error),
            "seconds": time.monotonic() - _BEGAN,
        }
        with open(os.environ[FILE], "a") as file:
            file.write(json.dumps(line) + "\n")
    return report
