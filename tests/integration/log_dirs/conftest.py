"""A controller of the three brokers, its command line, and Kafka's admin, for all tests of log directories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.integration.log_dirs.moving import Cli, placed
from tests.servers import TIMEOUT


@pytest.fixture(scope="package")
def controller(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers) as running:
        yield running


@pytest.fixture(scope="package")
def admin(three_brokers: LocalCluster) -> Iterator[KafkaAdmin]:
    opened = KafkaAdmin(three_brokers.bootstrap_servers, timeout=TIMEOUT)
    yield opened
    opened.close()


@pytest.fixture(scope="package")
def cli(three_brokers: LocalCluster) -> Cli:
    return Cli(three_brokers.controller_url)


@pytest.fixture(scope="package")
def idle_topic(admin: KafkaAdmin) -> str:
    """One partition on brokers 1 and 2, which nobody moves."""
    return placed(admin, [1, 2])
