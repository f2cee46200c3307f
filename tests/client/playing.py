"""Servers that play controllers, in states that real ones are hard to bring into, and the routes that a client asks them for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import ErrorCode
from tests.servers import TIMEOUT

NOBODY = "http://127.0.0.1:1"
CREATE = schemas.CreateTopicRequest(topic="t", partitions=1)
COUNTS = schemas.PartitionCountsRequest(topics=[])
LIMITS = schemas.ReassignmentThrottleRequest(throttle=None)


ROUTES: dict[tuple[str, str], Callable[[ControllerClient], object]] = {
    ("GET", "/healthz"): lambda c: c.healthz(),
    ("GET", "/readyz"): lambda c: c.readyz(),
    ("GET", "/metrics"): lambda c: c.metrics(),
    ("GET", "/v1/topics"): lambda c: c.topics(),
    ("POST", "/v1/topics"): lambda c: c.create_topic(CREATE),
    ("GET", "/v1/topics/{topic}"): lambda c: c.topic("t", details=True),
    ("PATCH", "/v1/topics/{topic}"): lambda c: c.alter_topic("t", schemas.AlterTopicRequest(), wait=1),
    ("POST", "/v1/topics/{topic}/adopt"): lambda c: c.adopt_topic("t", schemas.AdoptTopicRequest()),
    ("POST", "/v1/topics/{topic}/release"): lambda c: c.release_topic("t", schemas.ReleaseTopicRequest()),
    ("GET", "/v1/topics/{topic}/layout"): lambda c: c.layout("t", 3),
    ("GET", "/v1/topics/{topic}/leader-epochs"): lambda c: c.leader_epochs("t", [0, 1]),
    ("POST", "/v1/topics/{topic}/delete-records"): lambda c: c.delete_records("t", schemas.DeleteRecordsRequest()),
    ("POST", "/v1/topics/{topic}/truncations"): lambda c: c.truncations("t"),
    ("POST", "/v1/layouts"): lambda c: c.layouts([("t", 0), ("u", 0)]),
    ("POST", "/v1/topics/{topic}/misrouted"): lambda c: c.report_misrouted("t", 1),
    ("POST", "/v1/writer-names"): lambda c: c.take_writer_name("t"),
    ("POST", "/v1/writer-names/release"): lambda c: c.release_writer_name("t", "w", "n"),
    ("POST", "/v1/partition-counts"): lambda c: c.alter_partition_counts(COUNTS, wait=1),
    ("GET", "/v1/topics/{topic}/change"): lambda c: c.change("t"),
    ("DELETE", "/v1/topics/{topic}/change"): lambda c: c.cancel_change("t"),
    ("GET", "/v1/controllers"): lambda c: c.controllers(),
    ("GET", "/v1/diagnostics"): lambda c: c.diagnostics(),
    ("GET", "/v1/kafka-topics"): lambda c: c.kafka_topics(),
    ("GET", "/v1/topics/{topic}/foreign-producers"): lambda c: c.foreign_producers("t"),
    ("GET", "/v1/topics/{topic}/hanging-transactions"): lambda c: c.hanging_transactions("t"),
    ("GET", "/v1/brokers"): lambda c: c.brokers(),
    ("GET", "/v1/autoscale"): lambda c: c.autoscale(),
    ("GET", "/v1/healing"): lambda c: c.healing(),
    ("POST", "/v1/leader-elections"): lambda c: c.elect_leaders(schemas.LeaderElectionRequest()),
    ("PUT", "/v1/brokers/{broker}/guard-rails"): lambda c: c.set_guard_rails(
        7, schemas.GuardRailsRequest(max_partitions=None)
    ),
    ("GET", "/v1/groups/{group}/positions"): lambda c: c.group_positions("g", "t"),
    ("GET", "/v1/groups"): lambda c: c.groups(),
    ("GET", "/v1/caller"): lambda c: c.caller(),
    ("GET", "/v1/audit-log"): lambda c: c.audit_log(),
    ("GET", "/v1/reviews"): lambda c: c.reviews(),
    ("GET", "/v1/reviews/{review_id}"): lambda c: c.review(7),
    ("POST", "/v1/reviews/{review_id}/approve"): lambda c: c.approve_review(7),
    ("POST", "/v1/reviews/{review_id}/discard"): lambda c: c.discard_review(7),
    ("DELETE", "/v1/topics/{topic}"): lambda c: c.delete_topic("t"),
    ("POST", "/v1/topic-deletions"): lambda c: c.delete_topics(schemas.DeleteTopicsRequest(topics=["t"])),
    ("POST", "/v1/reassignments"): lambda c: c.reassign(schemas.ReassignmentRequest(rollback=1)),
    ("GET", "/v1/reassignments"): lambda c: c.reassignments(),
    ("GET", "/v1/reassignments/{request_id}"): lambda c: c.reassignment(7),
    ("PATCH", "/v1/reassignments/{request_id}"): lambda c: c.alter_reassignment_throttle(7, LIMITS),
    ("DELETE", "/v1/reassignments/{request_id}"): lambda c: c.cancel_reassignment(7),
    ("POST", "/v1/reassignments/verify"): lambda c: c.verify_reassignment(schemas.VerifyRequest(partitions=[])),
    ("POST", "/v1/reassignments/plan"): lambda c: c.plan_reassignment(schemas.ReassignmentPlanRequest(goal="balance")),
    ("GET", "/v1/log-dirs"): lambda c: c.log_dirs(),
    ("GET", "/v1/replica-log-dirs"): lambda c: c.replica_log_dirs(),
    ("POST", "/v1/replica-log-dirs"): lambda c: c.alter_replica_log_dirs(schemas.ReplicaLogDirsRequest(replicas=[])),
    ("GET", "/v1/replica-status"): lambda c: c.replica_status(),
    ("POST", "/v1/replication-factors"): lambda c: c.alter_replication_factors(
        schemas.ReplicationFactorsRequest(topics=[]), wait=1
    ),
}  # fmt: skip


@dataclass
class Answer:
    """What a played controller answers; a status of 0 cuts the connection."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Played:
    """An HTTP server that plays a controller in a state that a real one is hard to bring into."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        played = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                played.bodies.append(self.rfile.read(int(self.headers.get("content-length", "0"))))
                played.headers.append({name.lower(): value for name, value in self.headers.items()})
                played.paths.append(self.path)
                played.requests.append((self.command, self.path.partition("?")[0]))
                answered = answer()
                if answered.status == 0:
                    self.close_connection = True
                    return
                self.send_response(answered.status)
                for name, value in (answered.headers | {"content-length": str(len(answered.body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answered.body)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - BaseHTTPRequestHandler's names

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - overridden
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def keys(self) -> list[str | None]:
        return [headers.get("idempotency-key") for headers in self.headers]


@contextmanager
def played(answer: Answer | Callable[[], Answer]) -> Iterator[Played]:
    server = Played((lambda: answer) if isinstance(answer, Answer) else answer)
    thread = threading.Thread(target=server.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join(TIMEOUT)
        server.server.server_close()


@contextmanager
def hanging() -> Iterator[Played]:
    """Takes requests and does not answer before the end of the test."""
    ended = threading.Event()

    def wait() -> Answer:
        ended.wait(TIMEOUT)
        return Answer(0)

    with played(wait) as server:
        try:
            yield server
        finally:
            ended.set()


def told(status: int, code: int, message: str = "why", **headers: str) -> Answer:
    body = schemas.Result(error_code=code, error="X", error_message=message).model_dump_json()
    return Answer(status, body.encode(), headers)


STANDBY = told(503, ErrorCode.NOT_CONTROLLER)
TOPICS = Answer(200, b'{"topics": []}')
CREATED = Answer(201, b'{"topic": "t"}')
UNKNOWN_CODE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN = told(404, UNKNOWN_CODE)
