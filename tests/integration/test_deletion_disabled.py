"""Brokers that delete no topics (``delete.topic.enable=false``): what is gone already is replaced all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.state import load, save
from spark_ordered_kafka.updates import updated
from tests.integration.controllers import in_process
from tests.servers import TIMEOUT, create_topic, unique_name

pytestmark = pytest.mark.long
_CHROOT = "deletion-disabled"


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[tuple[LocalCluster, str, str]]:
    """A cluster that deletes no topics any more, and two topics that another tool deleted before; it made the second again."""
    gone, again = unique_name("gone"), unique_name("again")
    with LocalCluster(tmp_path, controllers=0) as cluster:
        with in_process(cluster, chroot=_CHROOT) as controller:
            for topic in (gone, again):
                controller.http.post("/v1/topics", json={"topic": topic, "partitions": 1}).raise_for_status()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for deletion in admin.delete_topics([gone, again], operation_timeout=TIMEOUT).values():
            deletion.result(TIMEOUT)
        create_topic(cluster.bootstrap_servers, again, 2)
    state = load(tmp_path)
    assert state is not None
    save(tmp_path, updated(state, broker_config={"delete.topic.enable": "false"}))
    with LocalCluster(tmp_path, controllers=0) as cluster:
        yield cluster, gone, again


def test_names_of_deleted_topics_are_free_and_what_is_there_stays(
    restarted: tuple[LocalCluster, str, str],
) -> None:
    cluster, gone, again = restarted
    with in_process(cluster, chroot=_CHROOT) as controller:
        answer = controller.http.post("/v1/topics", json={"topic": gone, "partitions": 3})
        assert answer.status_code == 201, answer.text
        answer = controller.http.post(f"/v1/topics/{again}/adopt", json={})
        assert answer.status_code == 200, answer.text
        for topic, partitions in ((gone, 3), (again, 2)):
            answer = controller.http.delete(f"/v1/topics/{topic}")
            assert (answer.status_code, answer.json()["error"]) == (400, "TOPIC_DELETION_DISABLED")
            assert controller.alter(topic, partitions + 1).error == "NONE"
