"""A ZooKeeper leader that has lost its quorum answers nobody's question for a layout."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.local import LocalCluster
from tests.inside import session_of
from tests.integration.controllers import InProcess, in_process
from tests.servers import TIMEOUT, await_true, unique_name


def mode(address: str) -> str:
    """``leader``, ``follower``, or nothing of a server that serves nobody."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), TIMEOUT) as connection:
            connection.sendall(b"srvr")
            told = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except ConnectionError:
        return ""  # an election is under way
    return next((line.removeprefix("Mode: ") for line in told.splitlines() if line.startswith("Mode: ")), "")


def elected(ensemble: LocalCluster) -> tuple[str, list[str]]:
    """The leader's address and the names of the others, once all of them serve."""
    addresses = ensemble.zookeeper.split("/")[0].split(",")
    modes: list[str] = []

    def is_whole() -> bool:
        modes[:] = map(mode, addresses)
        return sorted(modes) == ["follower"] * (len(addresses) - 1) + ["leader"]

    await_true(is_whole, "the ensemble has its leader and all followers")
    others = [f"zookeeper-{number}" for number, one in enumerate(modes, 1) if one != "leader"]
    return addresses[modes.index("leader")], others


@pytest.mark.parametrize(
    "path",
    ["layout?writer=true", *(pytest.param(path, marks=pytest.mark.long) for path in ("layout", "change"))],
)
def test_a_leader_without_followers_answers_no_layout(ensemble: LocalCluster, path: str) -> None:
    # On a busy machine the leader may learn that it is alone before it is asked.
    assert any(was_asked_unaware(ensemble, path) for _ in range(5)), "it knew each time that it was alone"


def was_asked_unaware(ensemble: LocalCluster, path: str) -> bool:
    """Ask a controller of the leader while the others stand still; whether the leader did not know of it all the time."""
    leader, others = elected(ensemble)
    settings = ZooKeeperSettings(f"{leader}/{unique_name('quorum')}", session_timeout=20.0)
    with in_process(ensemble, zookeeper=settings) as patient:
        topic = patient.create(2)
    # The leader learns after some seconds that it is alone.
    with in_process(ensemble, zookeeper=settings, request_timeout=1.0) as controller:
        url = f"/v1/topics/{topic}/{path}"
        await_true(lambda: controller.http.get(url).status_code == 200, "answers while there is a quorum")
        for name in others:
            ensemble.pause(name)
        try:
            answer = controller.http.get(url)
            is_unaware = mode(leader) == "leader"
        finally:
            for name in others:
                ensemble.resume(name)
        assert answer.status_code >= 500, answer.text
        if is_unaware:
            assert answer.status_code == 504, answer.text
            assert answer.json()["error"] == "REQUEST_TIMED_OUT"
        await_true(
            lambda: controller.http.get(url).status_code == 200, "answers once there is a quorum again"
        )
    return is_unaware


def test_many_who_ask_at_once_cost_few_writes(controller: InProcess) -> None:
    topic = controller.create(2)
    client = session_of(controller.service).client
    controller.http.get(f"/v1/topics/{topic}/layout")
    before, started = client.last_zxid, time.monotonic()
    with ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda _: controller.service.topics.writer_layout(topic), range(1000)))
    assert {one.layout_epoch for one in found} == {0}
    # Every hundred of them at most two, and what else happens in the meantime.
    assert client.last_zxid - before < 500, time.monotonic() - started


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory: Path = tmp_path_factory.mktemp("ensemble")
    with LocalCluster(directory, brokers=1, controllers=0, zookeepers=3) as cluster:
        yield cluster
