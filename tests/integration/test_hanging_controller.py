"""A controller that accepts connections and answers nothing, as one that is stopped or on a frozen machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from itertools import count
from threading import Event

import pytest

from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.local import LocalCluster
from tests.integration.gateway import gateway_to
from tests.streams import create

# Far less than the clients' patience: one that waits for the controller that hangs ends the test.
pytestmark = pytest.mark.timeout(90)
_PATIENCE = 600.0


@pytest.fixture
def hanging() -> Iterator[str]:
    """The URL of a server whose connections wait to be accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def asking(cluster: LocalCluster, *urls: str) -> Layouts:
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers}, ",".join(urls))
    return Layouts(connection, timeout=_PATIENCE, retry_for=0.0)


def test_layouts_come_from_another_controller_than_one_that_hangs(
    cluster: LocalCluster, topic_name: str, hanging: str
) -> None:
    topics = [create(cluster, f"{topic_name}-{number}", 2) for number in range(2)]
    questions: list[Callable[[Layouts], object]] = [
        lambda layouts: layouts.writer_layout(topics[0]),
        lambda layouts: layouts.wait_for_layout(topics[0], _PATIENCE),
        lambda layouts: layouts.layout(topics[0]),
        lambda layouts: layouts.layouts([(topic, 0) for topic in topics]),
    ]
    for question in questions:
        with asking(cluster, hanging, cluster.controller_url) as layouts:
            assert question(layouts)


def test_controllers_that_are_all_slow_are_waited_for(
    cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both URLs are of the same one, which answers neither of the first two questions."""
    topic, numbers, ended = create(cluster, topic_name, 2), count(1), Event()

    def takes() -> bool:
        if next(numbers) > 2:
            return True
        ended.wait(_PATIENCE)
        return False

    with gateway_to(cluster) as slow:
        monkeypatch.setattr(slow, "takes", takes)
        try:
            with asking(cluster, slow.url, f"{slow.url}/") as layouts:
                assert layouts.layout(topic).layouts[-1].epoch == 0
        finally:
            ended.set()
    assert next(numbers) == 4
