"""A browser, and a controller whose page it opens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.web.browsing import Browsing, Server, chromium, commit


# For a module: while it is open, asyncio cannot be used in the thread of the tests.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browsing(browser: Browser) -> Iterator[Browsing]:
    """Opens tabs and closes them at the end."""
    browsing = Browsing(browser)
    yield browsing
    browsing.close()


@pytest.fixture(scope="module")
def controller(kafka_cluster: LocalCluster) -> Iterator[InProcess]:
    """Runs on the shared servers, with a ZooKeeper tree of its own."""
    with in_process(kafka_cluster) as running:
        yield running


@pytest.fixture(scope="module")
def url(controller: InProcess) -> Iterator[str]:
    """Where the controller serves its page."""
    with Server(controller.service) as server:
        yield server.url


@pytest.fixture(scope="module")
def topic(controller: InProcess, kafka_cluster: LocalCluster) -> str:
    """A topic that was 2, 5 and 3 partitions, and a group that reads it."""
    topic = controller.create(2, prefix="orders")
    controller.alter(topic, 5)
    controller.alter(topic, 3)
    commit(kafka_cluster, f"readers of {topic}", topic)
    return topic
