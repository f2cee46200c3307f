"""A controller of this version takes over from a later one, on real servers: what only that one understands is left alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from spark_ordered_kafka.controller.zk.session import ROOT
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, in_process, several
from tests.integration.keepers import started
from tests.newer import MEMBER, WORD
from tests.servers import TIMEOUT, await_true, unique_name

STATUS = f"{ROOT}/admin/reassign_partitions_status"


class Later:
    """What a later controller has left in ZooKeeper: a topic whose change is at a step of its own, one whose record has a
    higher version, one with members of its own, one with a mark of its own; and a request that it has paused."""

    def __init__(self, client: KazooClient, controller: InProcess) -> None:
        self._client = client
        self.frozen, self.higher, self.told, self.marked = (controller.create(2) for _ in range(4))
        assert controller.alter(self.marked, 3).error_code == 0
        assert controller.alter(self.marked, 2).error_code == 0

    def write(self) -> None:
        change = {
            "id": "7", "topic": self.frozen, "kind": "expand", "source": 2, "target": 3, "existing": 2,
            "started_at": 1.0, "closing_at": 2.0, "step": WORD, MEMBER: 1,
        }  # fmt: skip
        self.alter(f"{ROOT}/topics/{self.frozen}", change=change)
        self.alter(f"{ROOT}/topics/{self.higher}", version=2)
        self.alter(f"{ROOT}/topics/{self.told}", **{MEMBER: {"deep": [1]}})
        self.alter(f"{ROOT}/topics/{self.marked}/partitions/2", status=WORD)
        request = {
            "request_id": 5,
            "created_at": 1.0,
            "principal": "p",
            "state": WORD,
            "throttle": 9,
            MEMBER: 1,
        }
        move = {"topic": self.told, "partition": 0, "before": [1], "after": [1], "state": WORD, MEMBER: 1}
        self._client.create(f"{STATUS}/5", json.dumps(request).encode())
        self._client.create(f"{STATUS}/5/moves", json.dumps({"moves": [move]}).encode())

    def alter(self, path: str, **members: Any) -> None:
        self._client.set(path, json.dumps(self.read(path) | members).encode())

    def read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._client.get(path)[0])
        return found

    def untouched(self) -> list[bytes]:
        paths = (
            f"{ROOT}/topics/{self.frozen}",
            f"{ROOT}/topics/{self.higher}",
            f"{ROOT}/topics/{self.marked}/partitions/2",
            f"{STATUS}/5",
            f"{STATUS}/5/moves",
        )
        return [self._client.get(path)[0] for path in paths]


class TakenOver(NamedTuple):
    """A controller of this version after a later one, what that one has left, how it was, and what is logged."""

    controller: InProcess
    later: Later
    before: list[bytes]
    logged: list[str]


@contextmanager
def logged() -> Iterator[list[str]]:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Kept()
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="module")
def taken_over(kafka_cluster: LocalCluster) -> Iterator[TakenOver]:
    chroot = unique_name("later")
    with started(KazooClient(f"{kafka_cluster.zookeeper}/{chroot}")) as client:
        with in_process(kafka_cluster, chroot=chroot) as before:
            later = Later(client, before)
        later.write()
        with logged() as lines, in_process(kafka_cluster, chroot=chroot, retire_interval=0.1) as controller:
            yield TakenOver(controller, later, later.untouched(), lines)


def test_everything_is_shown(taken_over: TakenOver) -> None:
    controller, later = taken_over.controller, taken_over.later
    listed = {row["topic"]: row for row in controller.http.get("/v1/topics").json()["topics"]}
    assert listed[later.frozen]["change"]["step"] == WORD
    assert later.higher in listed
    assert controller.change(later.frozen).change == controller.topic(later.frozen).change
    assert controller.topic(later.marked).partitions[2].status == WORD
    (request,) = controller.http.get("/v1/reassignments").json()["requests"]
    assert (request["state"], request["complete"], request["throttle"]) == (WORD, False, 9)


def test_what_would_act_on_it_is_refused_and_may_be_sent_again(taken_over: TakenOver) -> None:
    controller, later = taken_over.controller, taken_over.later
    counts = [{"topic": topic, "partition_count": 3} for topic in (later.frozen, later.higher, later.marked)]
    for topic, error, message in several(
        controller, "/v1/partition-counts", counts, params={"wait": TIMEOUT}
    ):
        assert error == "UNSUPPORTED_VERSION", topic
        assert "a newer controller is needed" in message
    for method, path in [
        ("DELETE", f"/v1/topics/{later.frozen}/change"),
        ("DELETE", f"/v1/topics/{later.frozen}"),
        ("DELETE", f"/v1/topics/{later.higher}"),
        ("DELETE", "/v1/reassignments/5"),
    ]:
        answer = controller.http.request(method, path)
        assert (answer.status_code, answer.json()["error"]) == (503, "UNSUPPORTED_VERSION"), path
    # It had begun to close, so writers wait for the one that goes on with it.
    assert (
        controller.http.get(f"/v1/topics/{later.frozen}/layout", params={"writer": "true"}).status_code == 503
    )
    move = {"partitions": [{"topic": later.told, "partition": 0, "replicas": [1]}]}
    (row,) = controller.http.post("/v1/reassignments", json=move).json()["partitions"]
    assert row["error"] == "REASSIGNMENT_IN_PROGRESS"


def test_everything_else_goes_on_and_nothing_is_lost(taken_over: TakenOver) -> None:
    controller, later = taken_over.controller, taken_over.later
    plain = controller.create(1)
    assert controller.alter(plain, 2).error_code == 0
    switched = controller.http.patch(
        f"/v1/topics/{later.told}", json={"ordered_delivery": False}, params={"wait": TIMEOUT}
    )
    assert switched.json()["error_code"] == 0
    record = later.read(f"{ROOT}/topics/{later.told}")
    assert (record["layout_epoch"], record[MEMBER]) == (1, {"deep": [1]})
    assert later.untouched() == taken_over.before


def test_it_is_said_once(taken_over: TakenOver) -> None:
    expected = ["request 5", f"topic {taken_over.later.frozen}", f"topic {taken_over.later.higher}"]

    def left() -> list[str]:
        return [line.partition(" is left alone")[0] for line in taken_over.logged if "left alone" in line]

    # Threads of their own look at topics and at requests.
    await_true(lambda: len(left()) >= len(expected), "all is said")
    assert sorted(left()) == sorted(expected)
