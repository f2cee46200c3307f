"""A controller in the test's process, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process
from tests.integration.members import Room
from tests.integration.reassigning import Judge


@pytest.fixture(scope="module")
def running_controller(kafka_cluster: LocalCluster) -> Iterator[InProcess]:
    """Runs on the shared servers, with a ZooKeeper tree of its own."""
    with in_process(kafka_cluster) as running:
        yield running


@pytest.fixture
def controller(running_controller: InProcess) -> Iterator[InProcess]:
    """The module's controller; what a test hooked into it is taken out again."""
    yield running_controller
    running_controller.before = lambda _: None


@pytest.fixture(scope="module")
def judge(three_brokers: LocalCluster) -> Iterator[Judge]:
    """What the three brokers say."""
    judge = Judge(three_brokers)
    yield judge
    judge.close()


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
def room(cluster: LocalCluster) -> Iterator[Room]:
    """Opens consumers of one group and closes them at the end."""
    with ExitStack() as stack:
        yield Room(cluster, stack)
