"""Commits of a consumer while its group's coordinator begins anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room
from tests.queries import await_stable
from tests.streams import NumberedWriter, create

_TIMES = 8


@pytest.mark.long
@pytest.mark.timeout(600)
def test_commits_wait_for_a_coordinator_that_begins(
    cluster: LocalCluster, room: Room, topic_name: str
) -> None:
    """A commit asks first whether the coordinator answers (D-454). That it was none yet was an error at once."""
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name).write(5)
    await_stable(cluster, topic_name)
    member = room.member(topic_name, enable_auto_commit=False)

    def begin_anew() -> None:
        cluster.kill("broker-1")
        cluster.start("broker-1")

    with ThreadPoolExecutor(1) as threads:
        for _ in range(_TIMES):
            while not member.read(count=1):
                continue
            begun = threads.submit(begin_anew)
            while not begun.done():
                member.consumer.commit()
                member.read(0.01, count=1)
    assert member.messages
