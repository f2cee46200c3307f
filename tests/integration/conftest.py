"""Fixtures of several modules: a controller in the test's process, Kafka's side of the story, and clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import trustme
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.local import LocalCluster
from tests.integration.acls import Acls
from tests.integration.controllers import InProcess, in_process
from tests.integration.desk import Desk
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


@pytest.fixture(scope="module")
def acls(secure_cluster: LocalCluster) -> Acls:
    """Rights in Kafka, given by its super user."""
    return Acls(AdminClient({**secure_cluster.kafka_properties(), "log_level": 3}))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An authority that nobody in the cluster trusts, and a certificate that it has signed."""
    home = tmp_path_factory.mktemp("stranger")
    authority = trustme.CA()
    issued = authority.issue_cert("eve@localhost", common_name="admin")
    authority.cert_pem.write_to_path(home / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(home / "eve.pem")
    issued.private_key_pem.write_to_path(home / "eve.key")
    return {
        "ca": str(home / "ca.pem"),
        "certificate": str(home / "eve.pem"),
        "key": str(home / "eve.key"),
    }


@pytest.fixture
def room(cluster: LocalCluster) -> Iterator[Room]:
    """Opens consumers of one group and closes them at the end."""
    with ExitStack() as stack:
        yield Room(cluster, stack)


@pytest.fixture
def desk(room: Room, topic_name: str) -> Iterator[Desk]:
    """A source with records, and a target."""
    with ExitStack() as stack:
        yield Desk(room, topic_name, stack)
