"""Servers that these tests may kill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.servers import ChaosCluster


@pytest.fixture(scope="package")
def chaos_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with ChaosCluster(tmp_path_factory.mktemp("chaos")) as cluster:
        yield cluster
