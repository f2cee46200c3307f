"""Servers and a Spark session that all tests of a run share."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from spark_ordered_kafka.local import LocalCluster
from tests import other_brokers, other_kafka, servers

SHARED_SERVERS = ("three_brokers", "secure_cluster", "chaos_cluster", "spark")
"""Fixtures that cost a test process several JVMs for as long as it lives; tests that need two of them go by the first."""

_EXIT_TIMEOUT = 120.0

# A test is judged by what it finds, not by the clock of a busy machine; a failure prints how to run it again.
hypothesis.settings.register_profile(
    "default-without-clock",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default-without-clock")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_configure() -> None:
    """Let SIGTERM end the run as ctrl-C does, so that the servers are taken down; let every JVM start fast.

    In the background of a shell ctrl-C is ignored, and so it would be by the processes that tests interrupt.

    Brokers and Spark drivers of tests live too briefly for the second compiler to pay: it costs half their processor
    time (D-211).
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if kafka := os.environ.get("TEST_KAFKA"):
        other_kafka.choose(kafka)
    if settings := os.environ.get("TEST_BROKERS"):
        other_brokers.choose(settings)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Let a process that does not end after its tests say what it waits for, and end; xdist ends its own."""
    if not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(_EXIT_TIMEOUT, exit=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that another Kafka, or brokers that are set up otherwise, cannot have are left out; the longest comes first."""
    items.sort(key=lambda item: item.path.name != "test_nemesis.py")
    kafka, settings = os.environ.get("TEST_KAFKA", ""), os.environ.get("TEST_BROKERS", "")
    different = {**other_kafka.DIFFERENT.get(kafka, {}), **other_brokers.DIFFERENT.get(settings, {})}
    for item in items:
        if reason := different.get(item.name.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason))


class SharedServersScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist is not typed
    """Gives all tests that share servers to one process, and the others file by file."""

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Raises UsageError where tests have the same name: xdist tells tests by their names, and would run one of them."""
        repeated = [name for name, count in Counter(collection).items() if count > 1]
        if repeated:
            raise pytest.UsageError(f"not with -n, for tests have the same name: {', '.join(repeated)}")
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for name in SHARED_SERVERS if name in _words(self.config.rootpath / file)), file)


@cache
def _words(file: Path) -> frozenset[str]:
    # The process that divides the tests does not know their fixtures.
    return frozenset(re.findall(r"\w+", file.read_text()))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedServersScheduling:
    """How ``-n`` divides the tests, whatever ``--dist`` says."""
    return SharedServersScheduling(config, log)


_USER_VARIABLES = (
    "BOOTSTRAP_SERVERS",
    "ORDERED_KAFKA_CONTROLLER",
    "ORDERED_KAFKA_COMMAND_CONFIG",
    "ORDERED_KAFKA_PROFILE",
)
"""What ``.ordered-kafka/env.sh`` sets, and a profile that was chosen."""


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands, also of other processes, do not find what the user who runs the tests has: profiles, and servers of the README."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    for name in _USER_VARIABLES:
        os.environ.pop(name, None)


# Kafka's default, as on most servers: what only asks for a topic must not create it (D-460).
_BROKER_CONFIG = {"auto.create.topics.enable": "true"}


@pytest.fixture(scope="session")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker and one ZooKeeper server; a controller may run too, if another test asked for one."""
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, controllers=0, broker_config=_BROKER_CONFIG) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster(kafka_cluster: LocalCluster) -> LocalCluster:
    """The same servers and one controller, all running."""
    with_controller = LocalCluster(kafka_cluster.directory, controllers=1)
    with_controller.up()
    return with_controller


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers and a controller; a test that stops one starts it again.

    Kafka elects no preferred leaders by itself, as it would every five minutes in the middle of any test.
    """
    config = _BROKER_CONFIG | {"auto.leader.rebalance.enable": "false"}
    directory = tmp_path_factory.mktemp("three")
    with LocalCluster(directory, brokers=3, controllers=1, broker_config=config) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secure_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker, a ZooKeeper server and a controller, all secured: see ``spark_ordered_kafka.local.secured``.

    The users are ``admin``, Kafka's super user, and ``alice`` and ``bob``, who have no rights but by the ACLs a test makes
    (as ``admin``, with an AdminClient of ``secure_cluster.kafka_properties()``; name them after the test's own topic).
    ``kafka_properties("alice", "PLAIN")`` are librdkafka's properties of a user, ``controller_options("alice")`` the
    options ``controller.url``, ``controller.username``, ``controller.password`` and ``controller.ssl.ca.location``;
    ``secrets`` has the files: ``secrets.ca``, ``secrets.certificate("alice")``, ``secrets.key("alice")``,
    ``secrets.password("alice")``, ``secrets.properties_file("alice", "controller")`` for ``--command-config``.
    """
    with LocalCluster(tmp_path_factory.mktemp("secure"), controllers=1, secure=True) as cluster:
        yield cluster


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name no other test uses."""
    return servers.unique_name(request.node.originalname.removeprefix("test_")[:40].replace("_", "-"))


@pytest.fixture
def make_topic(kafka_cluster: LocalCluster) -> Callable[..., str]:
    """``make_topic(partitions=1, config=None, prefix="topic")`` creates an unmanaged topic and returns its name."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None, prefix: str = "topic") -> str:
        name = servers.unique_name(prefix)
        return servers.create_topic(kafka_cluster.bootstrap_servers, name, partitions, config)

    return make


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session with two local cores."""
    session = servers.start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
