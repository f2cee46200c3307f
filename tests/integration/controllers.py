"""Controllers inside the test's process, which can be held or ended at any instruction of a change."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from confluent_kafka.admin import AdminClient
from fastapi.testclient import TestClient

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.layouts import reader
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.change.protocol import Instruction
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, Timing, ZooKeeperSettings
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.ports import free_ports
from tests.servers import TIMEOUT, unique_name

HELD = 300.0
"""Seconds that a change may be held: whatever a test does meanwhile may take as long as it is given."""


@dataclass
class Hold:
    """Holds the runner before the first instruction of a type until :meth:`release`."""

    kind: type
    reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def __call__(self, instruction: Instruction) -> None:
        if isinstance(instruction, self.kind) and not self._released.is_set():
            self.reached.set()
            assert self._released.wait(HELD), f"nobody released {self.kind.__name__}"

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        self._released.set()

    def await_reached(self) -> None:
        assert self.reached.wait(TIMEOUT), f"{self.kind.__name__} was not reached"


class InProcess:
    """An active controller in this process and a client of its routes."""

    def __init__(self, service: ControllerService, http: TestClient) -> None:
        self.service = service
        self.http = http
        self.before: Callable[[Instruction], None] = lambda _: None
        self.before_step: Callable[[str], None] = lambda _: None

    def create(self, partitions: int = 2, prefix: str = "topic", **fields: Any) -> str:
        topic = unique_name(prefix)
        answer = self.http.post("/v1/topics", json={"topic": topic, "partitions": partitions, **fields})
        assert answer.status_code == 201, answer.text
        return topic

    def alter(self, topic: str, count: int, *, wait: bool = True, **fields: Any) -> schemas.TopicResult:
        body = {"topics": [{"topic": topic, "partition_count": count}], **fields}
        params = {"wait": TIMEOUT} if wait else {}
        answer = self.http.post("/v1/partition-counts", json=body, params=params)
        assert answer.status_code == 200, answer.text
        return schemas.TopicResults.model_validate_json(answer.content).topics[0]

    def topic(self, topic: str, *, details: bool = False) -> schemas.TopicView:
        params = {"details": "true"} if details else {}
        answer = self.http.get(f"/v1/topics/{topic}", params=params)
        assert answer.status_code == 200, answer.text
        return schemas.TopicView.model_validate_json(answer.content)

    def change(self, topic: str) -> schemas.TopicChange:
        return schemas.TopicChange.model_validate_json(self.http.get(f"/v1/topics/{topic}/change").content)

    def layout(self, topic: str) -> schemas.LayoutHistoryView:
        answer = self.http.get(f"/v1/topics/{topic}/layout")
        return reader(schemas.LayoutHistoryView)(answer.content)

    def await_end(self, topic: str) -> schemas.FinishedChangeView:
        deadline = time.monotonic() + 2 * TIMEOUT
        while True:
            answer = self.change(topic)
            if answer.change is None and answer.last_change is not None:
                return answer.last_change
            assert time.monotonic() < deadline, f"{topic}: {answer.change} does not end"
            time.sleep(0.02)


@contextmanager
def in_process(
    cluster: LocalCluster,
    *,
    timing: Timing | None = None,
    chroot: str = "",
    await_active: bool = True,
    before_step: Callable[[str], None] = lambda _: None,
    **more: Any,
) -> Iterator[InProcess]:
    """A controller with a ZooKeeper tree of its own, unless ``chroot`` names one; ``more`` are further settings.

    ``before_step`` is called before every step of reassignments, until a test sets another one.
    """
    connect = f"{cluster.zookeeper}/{chroot or unique_name('test')}"
    given: dict[str, Any] = {
        "kafka": {"bootstrap.servers": cluster.bootstrap_servers},
        "zookeeper": ZooKeeperSettings(connect, session_timeout=10.0),
        "url": "http://in-process",
        "timing": Timing() if timing is None else timing,
    }
    settings = ControllerSettings(**(given | more))
    box: list[InProcess] = []
    service = ControllerService(
        settings,
        before=lambda instruction: box[0].before(instruction),
        before_step=lambda step: box[0].before_step(step),
    )
    box.append(InProcess(service, TestClient(create_app(service))))
    box[0].before_step = before_step
    service.start()
    try:
        deadline = time.monotonic() + 2 * TIMEOUT
        while await_active and not service.active:
            assert time.monotonic() < deadline, "the controller did not become active"
            time.sleep(0.02)
        yield box[0]
    finally:
        service.stop()


@contextmanager
def served(controller: InProcess, port: int, *, without: Collection[str] = ()) -> Iterator[None]:
    """The controller's API on a port of this machine, ``without`` routes that earlier versions do not have."""
    app = create_app(controller.service)
    app.router.routes[:] = [one for one in app.routes if getattr(one, "path", None) not in without]
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + TIMEOUT
        while not server.started:
            assert time.monotonic() < deadline, "the API does not start"
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join(TIMEOUT)


def free_port() -> int:
    """None that the system gives to an outgoing connection before a server listens on it."""
    return next(free_ports((), random.Random()))


def exists(cluster: LocalCluster, topic: str) -> bool:
    """Whether Kafka has a topic of that name."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return topic in admin.list_topics(timeout=TIMEOUT).topics


def several(controller: InProcess, path: str, topics: list[Any], **fields: Any) -> list[tuple[str, str, str]]:
    """Topic, error and message of each result of a request for several topics; ``params`` are those of the query."""
    params = fields.pop("params", {})
    answer = controller.http.post(path, json={"topics": topics, **fields}, params=params)
    assert answer.status_code == 200, answer.text
    return [(row["topic"], row["error"], row["error_message"] or "") for row in answer.json()["topics"]]


def errors(rows: list[tuple[str, str, str]]) -> list[str]:
    """The error names in the rows of :func:`several`."""
    return [error for _, error, _ in rows]
