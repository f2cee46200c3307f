"""Tests of what the kernel does run with it and without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spark_ordered_kafka.native.loading import VARIABLE, kernel


@pytest.fixture
def the_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The extension module, which must load."""
    monkeypatch.setenv(VARIABLE, "require")
    kernel.cache_clear()
    yield kernel()
    kernel.cache_clear()


@pytest.fixture(scope="module", params=["require", "off"])
def native(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which of the two does the work: once each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, request.param)
        kernel.cache_clear()
        yield request.param
    kernel.cache_clear()
