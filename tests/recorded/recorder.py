"""Records answers and znodes of this version from real servers: ``python -m tests.recorded.recorder`` (a minute).

To be run before a release whose answers or znodes say more than those of the last one; what is recorded of earlier ones stays, in
a directory for each version. ``tests/test_recorded.py`` reads all of them.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.autoscale.configuration import AutoscaleSettings
from spark_ordered_kafka.controller.autoscale.rules import Rules
from spark_ordered_kafka.controller.change import protocol
from spark_ordered_kafka.controller.change.protocol import STEPS, Instruction
from spark_ordered_kafka.controller.healing.rules import Rules as HealingRules
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.controller.zk.session import ROOT
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.processes import ended_by_sigterm
from tests.inside import before_fencing
from tests.integration.controllers import InProcess, in_process
from tests.servers import TIMEOUT, await_true, commit_offsets, create_topic, unique_name

HERE = Path(__file__).parent
TOKENS = {name: f"{name}-" + "t" * 40 for name in ("alice", "bob")}

WANTED = {
    "controller", "candidate", "layout", "creation", "deletion", "release", "plan", "throttles", "broker", "topic-deleting", "topic-releasing",
    "partition-marked", "partition-deleted", "request-running", "request-cancelling", "request-done", "moves-done",
    "autoscale-changed", "healing-requested", "review-pending", "review-approved", "review-done", "review-discarded", "topic-cancelled", "topic-failed",
    *(f"topic-expand-{step}" for step in STEPS),
    *(f"topic-{kind}-committing" for kind in ("shrink", "order", "unorder")),
}  # fmt: skip


class Recorder:
    """Keeps the first answer of each route and status, and the first znode of each kind and state."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self.znodes: dict[str, dict[str, Any]] = {}

    def ask(
        self, controller: InProcess, method: str, path: str, *, detail: str = "", who: str = "", **more: Any
    ) -> Any:
        """The answer to a request; ``detail`` tells it from others of the same route and status."""
        headers = {"authorization": f"Bearer {TOKENS[who]}"} if who else {}
        answer = controller.http.request(method, path, headers=headers, **more)
        with suppress(ValueError):
            route = self._route(controller, method, path)
            name = re.sub("[^a-zA-Z0-9]+", "-", f"{method} {route} {answer.status_code} {detail}").strip("-")
            body = answer.json()
            told = {"method": method, "route": route, "status": answer.status_code, "body": body}
            self.answers.setdefault(name, told)
            return body
        return None

    def _route(self, controller: InProcess, method: str, path: str) -> str:
        for route, methods in controller.http.app.openapi()["paths"].items():  # type: ignore[attr-defined]
            if method.lower() in methods and re.fullmatch(re.sub("{.*?}", "[^/]+", route), path):
                return str(route)
        raise AssertionError(path)

    def walk(self, client: KazooClient, path: str = ROOT) -> None:
        """Take all znodes as they are."""
        with suppress(NoNodeError):
            data, _ = client.get(path)
            for name in client.get_children(path):
                self.walk(client, f"{path}/{name}")
            told = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data or b"null")
            if isinstance(told, dict):
                self.znodes.setdefault(_label(path.removeprefix(ROOT), told), {"path": path, "data": told})


def _label(path: str, told: dict[str, Any]) -> str:
    parts = path.strip("/").split("/")
    match parts:
        case ["topics", _]:
            change, last = told["change"], told["last_change"]
            if told["deleting_since"] is not None:
                return "topic-releasing" if told["releasing"] else "topic-deleting"
            if change is not None:
                return f"topic-{change['kind']}-{change['step']}"
            return "topic" if last is None else f"topic-{last['outcome']}"
        case ["topics", _, "partitions", _]:
            return f"partition-{told['status']}"
        case ["topics", _, "layouts", _]:
            return "layout"
        case ["admin", "reassign_partitions_status", _]:
            return f"request-{told['state']}"
        case ["admin", "reassign_partitions_status", _, "moves"]:
            return "-".join(["moves", *sorted({move["state"] for move in told["moves"]})])
        case ["autoscale", _]:
            return "autoscale-changed" if told["changes"] and told["decisions"] else "autoscale"
        case ["healing"]:
            return "healing-requested" if told["requests"] and told["history"] else "healing"
        case ["reviews", _]:
            return f"review-{told['status']}"
    names = {
        "create_topics": "creation", "delete_topics": "deletion", "release_topics": "release", "reassign_partitions": "plan",
        "reassign_partitions_throttles": "throttles", "ids": "broker",
    }  # fmt: skip
    return {"controller": "controller", "election": "candidate"}.get(parts[0]) or next(
        names[part] for part in parts if part in names
    )


@contextmanager
def walking(recorder: Recorder, connect: str) -> Iterator[KazooClient]:
    """All the time, in a thread of its own."""
    client, over = KazooClient(connect), threading.Event()
    client.start(TIMEOUT)

    def walk() -> None:
        while not over.wait(0.005):
            recorder.walk(client)

    thread = threading.Thread(target=walk)
    thread.start()
    try:
        yield client
    finally:
        over.set()
        thread.join()
        client.stop()


def record(recorder: Recorder, cluster: LocalCluster, directory: Path) -> None:
    """All kinds of answers and znodes."""
    chroot = unique_name("recorded")
    steps: list[Any] = [lambda: None]
    with (
        walking(recorder, f"{cluster.zookeeper}/{chroot}") as client,
        in_process(
            cluster, chroot=chroot, retire_interval=2.0, before_step=lambda _: steps[0]()
        ) as controller,
    ):
        _record_topics(recorder, controller, cluster, client)
        _record_reassignments(recorder, controller, client, steps)
        _record_ends(recorder, controller, client)
    _record_reviews(recorder, cluster, directory)
    _record_autoscale(recorder, cluster)
    _record_healing(recorder, cluster)


def _record_topics(
    recorder: Recorder, controller: InProcess, cluster: LocalCluster, client: KazooClient
) -> None:
    ask, topic = recorder.ask, "orders"
    for path in ("/healthz", "/readyz", "/v1/controllers", "/v1/brokers"):
        ask(controller, "GET", path)
    limits = {"max_partitions": 1000}
    ask(controller, "PUT", "/v1/brokers/1/guard-rails", json=limits)
    ask(controller, "POST", "/v1/topics", json={"topic": topic, "partitions": 2, "replication_factor": 1})
    ask(controller, "POST", "/v1/topics", json={"topics": [{"topic": name} for name in ("more", topic)]})
    ask(controller, "POST", "/v1/topics", json={"topic": topic, "frost": 1})
    create_topic(cluster.bootstrap_servers, "plain", 1)
    ask(controller, "POST", "/v1/topics/plain/adopt", json={})
    _commit_offsets(cluster, topic)

    def look(instruction: Instruction) -> None:
        step = controller.change(topic).change
        recorder.walk(client)
        ask(controller, "GET", f"/v1/topics/{topic}/change", detail=step.step if step else "")
        ask(controller, "GET", f"/v1/topics/{topic}", detail=step.step if step else "")
        ask(controller, "GET", f"/v1/topics/{topic}/layout", params={"writer": "true"}, detail="writer")

    def cancel(instruction: Instruction) -> None:
        if isinstance(instruction, protocol.AwaitLeaders):
            ask(controller, "DELETE", f"/v1/topics/{topic}/change")

    def fail(instruction: Instruction) -> None:
        if isinstance(instruction, protocol.FenceIdle):
            raise RuntimeError("on purpose")

    def change(count: int, **more: Any) -> None:
        body = {"topics": [{"topic": topic, "partition_count": count}], "timeout_ms": 30_000}
        ask(controller, "POST", "/v1/partition-counts", json=body, params={"wait": TIMEOUT}, **more)

    controller.before = look
    change(4)
    change(3)
    ask(controller, "GET", "/v1/topics", detail="marked")
    for ordered in (False, True):
        body = {"ordered_delivery": ordered, "configs": {"retention.ms": "100000"}}
        ask(controller, "PATCH", f"/v1/topics/{topic}", json=body, params={"wait": TIMEOUT})
    for hook, end in ((cancel, "cancelled"), (fail, "failed")):
        controller.before = hook
        change(5, detail=end)
        ask(controller, "GET", f"/v1/topics/{topic}/change", detail=end)
        recorder.walk(client)
    controller.before = lambda _: None
    recorder.walk(client)
    _ask_about(recorder, controller, topic)


def _commit_offsets(cluster: LocalCluster, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "group"})
    await_true(lambda: topic in consumer.list_topics(timeout=TIMEOUT).topics, "the topic shows")
    commit_offsets(consumer, [TopicPartition(topic, 0, 0)])
    consumer.close()


def _ask_about(recorder: Recorder, controller: InProcess, topic: str) -> None:
    ask = recorder.ask
    ask(controller, "GET", f"/v1/topics/{topic}", params={"details": "true"}, detail="details")
    ask(controller, "GET", "/v1/topics/nowhere")
    ask(controller, "GET", f"/v1/topics/{topic}/layout")
    ask(controller, "GET", f"/v1/topics/{topic}/layout", params={"writer": "true"}, detail="writer")
    ask(controller, "POST", "/v1/layouts", json={"topics": [{"topic": topic}, {"topic": "missing"}]})
    ask(controller, "GET", f"/v1/topics/{topic}/leader-epochs")
    position = {"partition": 0, "offset": 5, "leader_epoch": 0}
    ask(controller, "POST", f"/v1/topics/{topic}/truncations", json={"positions": [position]})
    ask(controller, "POST", f"/v1/topics/{topic}/misrouted", json={"records": 1})
    ask(controller, "POST", f"/v1/topics/{topic}/delete-records", json={"force": True})
    name = ask(controller, "POST", "/v1/writer-names", json={"topic": topic})
    ask(controller, "POST", "/v1/writer-names/release", json={"topic": topic, **name})
    ask(controller, "GET", "/v1/groups/group/positions")
    ask(controller, "GET", f"/v1/topics/{topic}/foreign-producers")
    ask(controller, "GET", f"/v1/topics/{topic}/hanging-transactions")
    for path in ("/v1/kafka-topics", "/v1/groups", "/v1/diagnostics", "/v1/caller", "/v1/audit-log"):
        ask(controller, "GET", path)


def _record_reassignments(
    recorder: Recorder, controller: InProcess, client: KazooClient, steps: list[Any]
) -> None:
    ask, place = recorder.ask, {"topic": "orders", "partition": 0}
    (held,) = [row.replicas for row in controller.topic("orders").partitions[:1]]
    other = [3 - held[0]]

    def look() -> None:
        recorder.walk(client)
        ask(controller, "GET", "/v1/reassignments")
        found = ask(controller, "GET", "/v1/reassignments/latest")
        ask(controller, "GET", "/v1/reassignments/latest", detail=found.get("state", ""))

    def cancel() -> None:
        ask(controller, "PATCH", "/v1/reassignments/latest", json={"throttle": None})
        ask(controller, "DELETE", "/v1/reassignments/latest")
        recorder.walk(client)

    def submit(replicas: list[int]) -> int:
        body = {"partitions": [place | {"replicas": replicas}], "throttle": 1_000_000, "timeout_ms": 30_000}
        return int(ask(controller, "POST", "/v1/reassignments", json=body)["request_id"])

    def ended(request_id: int) -> bool:
        return bool(ask(controller, "GET", f"/v1/reassignments/{request_id}", detail="by id")["complete"])

    steps[0] = look
    first = submit(other)
    await_true(lambda: ended(first), "the reassignment ends")
    look()
    steps[0] = cancel
    second = submit(held)
    await_true(lambda: ended(second), "the reassignment ends")
    steps[0] = lambda: None
    look()
    rows = {"partitions": [place | {"replicas": held}]}
    ask(controller, "POST", "/v1/reassignments/verify", json=rows)
    ask(controller, "POST", "/v1/reassignments/plan", json={"goal": "balance"})
    for path in ("/v1/log-dirs", "/v1/replica-log-dirs", "/v1/replica-status"):
        ask(controller, "GET", path, params={"topic": "orders"})
    (row, *_) = ask(controller, "GET", "/v1/replica-log-dirs", params={"topic": "orders"})["replicas"]
    replica = {name: row[name] for name in ("topic", "partition", "broker")}
    moved = {"replicas": [{**replica, "log_dir": row["current_replica_log_dir"]}]}
    ask(controller, "POST", "/v1/replica-log-dirs", json=moved)
    factors = {"topics": [{"topic": "orders", "replication_factor": 2}]}
    ask(controller, "POST", "/v1/replication-factors", json=factors, params={"wait": TIMEOUT})


def _record_ends(recorder: Recorder, controller: InProcess, client: KazooClient) -> None:
    before_fencing(controller.service.releaser, lambda: recorder.walk(client))
    recorder.ask(controller, "POST", "/v1/topics/plain/release", json={})
    recorder.ask(controller, "DELETE", "/v1/topics/orders")
    recorder.ask(controller, "POST", "/v1/topic-deletions", json={"topics": ["more", "nowhere"]})


def _record_reviews(recorder: Recorder, cluster: LocalCluster, directory: Path) -> None:
    (directory / "tokens").write_text(
        "\n".join(str(hashed(token, f"User:{name}")) for name, token in TOKENS.items())
    )
    (directory / "roles.toml").write_text(
        "[[grants]]\nrole = 'admin'\nprincipals = ['User:alice', 'User:bob']\n"
    )

    settings: dict[str, Any] = {
        "authentication": AuthenticationSettings(required=True, tokens_file=str(directory / "tokens")),
        "authorization": AuthorizationSettings(roles_file=str(directory / "roles.toml")),
        "review_required": True,
    }
    chroot, ask = unique_name("recorded"), recorder.ask
    with (
        walking(recorder, f"{cluster.zookeeper}/{chroot}") as client,
        in_process(cluster, chroot=chroot, **settings) as controller,
    ):
        for topic, what in (("reviewed", "approve"), ("unwanted", "discard")):
            asked = ask(controller, "POST", "/v1/topics", who="alice", json={"topic": topic, "partitions": 1})
            recorder.walk(client)
            review = f"/v1/reviews/{asked['review_id']}"
            ask(controller, "GET", review, who="bob")
            ask(controller, "POST", f"{review}/{what}", who="bob")
            ask(controller, "GET", review, who="bob", detail=what)
        ask(controller, "GET", "/v1/reviews", who="bob")
        recorder.walk(client)


def _record_autoscale(recorder: Recorder, cluster: LocalCluster) -> None:
    """A topic that is too large shrinks by itself."""
    rules = Rules(mode="act", shrink_after=0.2, cooldown=1.0)
    chroot, settings = unique_name("recorded"), AutoscaleSettings(interval=0.2, rules=rules)
    with (
        walking(recorder, f"{cluster.zookeeper}/{chroot}"),
        in_process(cluster, chroot=chroot, autoscale=settings) as controller,
    ):
        topic = controller.create(1, prefix="too-large")
        assert controller.alter(topic, 2).error == "NONE"

        def shrunk() -> bool:
            (row,) = controller.http.get("/v1/autoscale").json()["topics"]
            return row["observation"] is not None and row["count"] == 1 and bool(row["changes"])

        await_true(shrunk, "the topic shrinks by itself")
        recorder.ask(controller, "GET", "/v1/autoscale")
        await_true(lambda: "autoscale-changed" in recorder.znodes, "its znode is seen")


def _record_healing(recorder: Recorder, cluster: LocalCluster) -> None:
    """Leaders that sit on one broker are spread."""
    rules = HealingRules(mode="act", interval=0.3, uneven_after=0.0, leader_difference=0.2, disk_share=1.0)
    chroot = unique_name("recorded")
    with (
        walking(recorder, f"{cluster.zookeeper}/{chroot}"),
        in_process(cluster, chroot=chroot, healing=rules) as controller,
    ):
        assigned = {"topic": unique_name("one-sided"), "assignments": {p: [1, 2] for p in range(8)}}
        assert controller.http.post("/v1/topics", json=assigned).status_code == 201

        def done() -> bool:
            view = controller.http.get("/v1/healing").json()
            return any(one["outcome"] == "done" for one in view["history"])

        await_true(done, "the leaders are spread")
        recorder.ask(controller, "GET", "/v1/healing")
        recorder.ask(controller, "POST", "/v1/leader-elections", json={})
        await_true(lambda: "healing-requested" in recorder.znodes, "its znode is seen")


def save(recorder: Recorder, directory: Path, machine: dict[str, str]) -> None:
    """One file for each; ``machine`` has what is written instead of names of this machine."""
    for kind, rows in (("answers", recorder.answers), ("znodes", recorder.znodes)):
        (directory / kind).mkdir(parents=True, exist_ok=True)
        for old in (directory / kind).glob("*.json"):
            old.unlink()
        for name, told in rows.items():
            text = json.dumps(told, indent=1, sort_keys=True) + "\n"
            for own, instead in machine.items():
                text = text.replace(own, instead)
            (directory / kind / f"{name}.json").write_text(text, encoding="utf-8")


def main() -> None:
    recorder = Recorder()
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory, "c"), brokers=2, controllers=0) as c,
    ):
        record(recorder, c, Path(directory))
    missing = WANTED - recorder.znodes.keys()
    assert not missing, f"not seen: {sorted(missing)}; seen: {sorted(recorder.znodes)}"
    machine = {directory: "/var/kafka", f'"{socket.gethostname()}-': '"host-'}
    save(recorder, HERE / version("spark-ordered-kafka"), machine)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
