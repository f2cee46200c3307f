"""A quorum of KRaft controllers that is starting, of a secured cluster."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.requests import BrokerRequests
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local import cluster as local_cluster
from spark_ordered_kafka.local.secrets import BROKER
from spark_ordered_kafka.local.secured import SUPER_USER
from tests.integration.acls import Acls, acl
from tests.kraft_quorum import state_with_quorum
from tests.servers import TIMEOUT, await_true

_LEADS = re.compile(r"Becoming the active controller")
_NOT_READY = "AuthorizerNotReadyException"


@pytest.fixture
def quorum(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalCluster]:
    monkeypatch.setattr(local_cluster, "new_state", state_with_quorum)
    config = {"super.users": f"User:{BROKER};User:{SUPER_USER}"}
    directory = tmp_path_factory.mktemp("quorum")
    with LocalCluster(directory, brokers=2, controllers=0, secure=True, broker_config=config) as cluster:
        yield cluster


@pytest.mark.long
def test_one_that_does_not_know_the_rights_yet_is_asked_again(quorum: LocalCluster) -> None:
    """It answers UNKNOWN_SERVER_ERROR to all but super users until it knows the newest ACLs of its quorum (D-496)."""
    Acls(AdminClient({**quorum.kafka_properties(), "log_level": 2})).add(
        acl("User:alice", "DESCRIBE", "CLUSTER", "")
    )
    names = [f"kraft-{number}" for number in (3000, 3001, 3002)]
    (leader,) = [name for name in names if _LEADS.search(quorum.log(name).read_text())]
    with closing(BrokerRequests(quorum.kafka_properties("alice"), TIMEOUT)) as requests:
        reassignments = Reassignments(requests, 4 * TIMEOUT)
        assert reassignments.all_ongoing() == {}
        for name in names:
            quorum.kill(name)
        quorum.start(leader, wait=False)

        def is_not_ready() -> bool:
            return _NOT_READY in quorum.log(leader).read_text()

        listed: list[object] = []
        asking = threading.Thread(target=lambda: listed.append(reassignments.all_ongoing()))
        asking.start()
        await_true(is_not_ready, "the one that led before has answered")
        for name in names:
            quorum.start(name, wait=False)
        asking.join(4 * TIMEOUT)
        assert listed == [{}]
