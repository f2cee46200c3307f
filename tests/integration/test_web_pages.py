"""A web page cannot drive a controller: neither by a name that was rebound to its address nor from another site."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.config import controller_config
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.local import LocalCluster
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.servers import TIMEOUT, await_true, unique_name

JSON = "application/json"
TOKEN = "t" * 40
VIEWERS = '[[grants]]\nrole = "viewer"\nprincipals = ["User:*"]\n'


@pytest.fixture(scope="module")
def port(running_controller: InProcess) -> Iterator[int]:
    free = free_port()
    with served(running_controller, free):
        yield free


@pytest.fixture(scope="module")
def topic(running_controller: InProcess) -> str:
    return running_controller.create(2)


def said(port: int, head: str, body: bytes = b"", address: str = "127.0.0.1") -> int:
    """The status of the answer to a request that is sent as it stands."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    with socket.create_connection((address, port), TIMEOUT) as connection:
        connection.sendall(f"{head}\r\nConnection: close\r\n{length}\r\n".encode() + body)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return int(answer.split()[1])


def deletions(topic: str) -> list[tuple[str, bytes]]:
    """Every way to ask for what must not be done, as request line and body."""
    of_several = json.dumps({"topics": [topic]}).encode()
    counts = json.dumps({"topics": [{"topic": topic, "partition_count": 3}]}).encode()
    return [
        ("POST /v1/topic-deletions HTTP/1.1", of_several),
        (f"DELETE /v1/topics/{topic} HTTP/1.1", b""),
        ("POST /v1/partition-counts HTTP/1.1", counts),
        (f"POST /v1/topics/{topic}/delete-records HTTP/1.1", b'{"force":true}'),
        ("POST /v1/reviews/1/approve HTTP/1.1", b""),
        (f"GET /v1/topics/{topic} HTTP/1.1", b""),
    ]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "EVIL.example.", "localhost.evil.example"]
)
def test_a_page_that_rebinds_its_name_is_not_answered(
    controller: InProcess, port: int, topic: str, host: str
) -> None:
    name = host.format(port=port)
    for line, body in deletions(topic):
        # Of the same origin, as the browser sees it.
        own = f"Host: {name}\r\nOrigin: http://{name}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: {JSON}"
        assert said(port, f"{line}\r\n{own}", body) == 421
    assert controller.topic(topic).undeleted_partition_count == 2


def test_hosts_that_no_server_should_believe(controller: InProcess, port: int, topic: str) -> None:
    body = json.dumps({"topics": [topic]}).encode()
    post = f"POST /v1/topic-deletions HTTP/1.1\r\nContent-Type: {JSON}"
    assert said(port, post, body) == 400
    assert said(port, post.replace("1.1", "1.0"), body) == 421
    assert said(port, f"{post}\r\nHost: localhost\r\nHost: evil.example", body) == 400
    # The target's authority counts, and not Host (RFC 9112, section 3.2.2).
    for target in ("http://evil.example/v1/topic-deletions", "//evil.example/v1/topic-deletions"):
        assert said(port, f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}", body) == 404
    assert controller.topic(topic).undeleted_partition_count == 2


@pytest.mark.parametrize(
    "headers",
    [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://localhost:3000\r\nSec-Fetch-Site: same-site",
        "Origin: http://127.0.0.1:{port}",  # by another name, so another site
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ],
)
@pytest.mark.parametrize(
    "kind", [JSON, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_page_of_another_site_changes_nothing(
    controller: InProcess, port: int, topic: str, headers: str, kind: str
) -> None:
    given = headers.format(port=port)
    for line, body in deletions(topic):
        status = said(port, f"{line}\r\nHost: localhost:{port}\r\n{given}\r\nContent-Type: {kind}", body)
        assert status == (200 if line.startswith("GET") else 403)
    assert controller.topic(topic).undeleted_partition_count == 2


def test_simple_requests_of_old_browsers_change_nothing(controller: InProcess, port: int, topic: str) -> None:
    """Without ``Origin`` and ``Sec-Fetch-Site``; and a preflight is not answered with leave."""
    for kind in ("", "Content-Type: text/plain", "Content-Type: text/plain; charset=application/json"):
        body = json.dumps({"topics": [topic]}).encode()
        assert (
            said(port, f"POST /v1/topic-deletions HTTP/1.1\r\nHost: localhost\r\n{kind}".rstrip(), body)
            == 415
        )
    preflight = httpx2.options(
        f"http://localhost:{port}/v1/topic-deletions",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
        timeout=TIMEOUT,
    )
    assert preflight.status_code == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    assert controller.topic(topic).undeleted_partition_count == 2


def test_clients_and_probes_get_through(port: int, topic: str) -> None:
    for url in (f"http://localhost:{port}", f"http://127.0.0.1:{port}", f"http://LOCALHOST:{port}"):
        with ControllerClient(url) as client:
            assert client.topic(topic).topic == topic
    # As kubelet and Prometheus ask: by the address.
    for path in ("/healthz", "/readyz", "/metrics"):
        assert said(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}") == 200
    # A page of the controller's own name, as behind a proxy that shows one.
    own = f"Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\nContent-Type: {JSON}"
    assert said(port, f"POST /v1/topics/{topic}/truncations HTTP/1.1\r\n{own}", b"{}") == 200


def test_ipv6_loopback_and_further_names(kafka_cluster: LocalCluster) -> None:
    with in_process(kafka_cluster, allowed_hosts=frozenset({"lb.example.com"})) as running:
        config = uvicorn.Config(create_app(running.service), host="::1", port=free_port(), log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            await_true(lambda: server.started, "the API starts")
            hosts = {
                f"[::1]:{config.port}": 200,
                "[0:0::1]": 200,
                "lb.example.com": 200,
                "LB.example.com.:80": 200,
            }
            for host, status in {**hosts, "[::2]": 421, "evil.example": 421, "::1": 421}.items():
                assert (
                    said(config.port, f"GET /v1/topics HTTP/1.1\r\nHost: {host}", address="::1") == status
                ), host
        finally:
            server.should_exit = True
            thread.join(TIMEOUT)


def test_a_follower_judges_pages_by_its_own_name(kafka_cluster: LocalCluster) -> None:
    """It redirects its own to the leader, where a browser does not let them go on."""
    chroot, ports = unique_name("pages"), (free_port(), free_port())
    with ExitStack() as ends:
        leader, follower = (
            ends.enter_context(
                in_process(kafka_cluster, chroot=chroot, url=f"http://127.0.0.1:{port}", await_active=first)
            )
            for first, port in zip((True, False), ports, strict=True)
        )
        for running, port in zip((leader, follower), ports, strict=True):
            ends.enter_context(served(running, port))
        await_true(lambda: follower.service.leader.record is not None, "it knows who leads")
        assert not follower.service.active
        body = json.dumps({"topic": unique_name("never")}).encode()
        post = f"POST /v1/topics HTTP/1.1\r\nHost: localhost:{ports[1]}\r\nContent-Type: {JSON}"
        for origin, status in (("http://evil.example", 403), (f"http://localhost:{ports[1]}", 307)):
            assert (
                said(ports[1], f"{post}\r\nOrigin: {origin}\r\nSec-Fetch-Site: same-origin", body) == status
            )


def test_a_token_file_alone_lets_nobody_in_without_a_token(
    kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{hashed(TOKEN, 'User:ci')}\n")
    entries: dict[str, Any] = {
        "kafka.bootstrap.servers": kafka_cluster.bootstrap_servers,
        "zookeeper.connect": kafka_cluster.zookeeper,
        "authentication.tokens.file": str(tokens),
        "authorization.super.users": ["User:ci"],
    }
    settings = controller_config(entries, default_host="here").settings
    with in_process(
        kafka_cluster, authentication=settings.authentication, authorization=settings.authorization
    ) as running:
        http = running.http
        token = {"Authorization": f"Bearer {TOKEN}"}
        name = unique_name("guarded")
        assert http.post("/v1/topics", json={"topic": name}, headers=token).status_code == 201
        for answer in (
            http.post("/v1/topic-deletions", json={"topics": [name]}),
            http.delete(f"/v1/topics/{name}"),
            http.get(f"/v1/topics/{name}"),
        ):
            assert answer.status_code == 401
        assert http.get(f"/v1/topics/{name}", headers=token).status_code == 200


def test_everybody_in_a_role_file_is_everybody_with_credentials(
    kafka_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Also where authentication is not required: whoever shows none has the rights of ``User:ANONYMOUS``."""
    tokens, roles = tmp_path / "tokens", tmp_path / "roles.toml"
    tokens.write_text(f"{hashed(TOKEN, 'User:anybody')}\n")
    roles.write_text(VIEWERS)
    with in_process(
        kafka_cluster,
        authentication=AuthenticationSettings(required=False, tokens_file=str(tokens)),
        authorization=AuthorizationSettings(roles_file=str(roles)),
    ) as running:
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert running.http.get("/v1/brokers", headers=token).status_code == 200
        assert running.http.get("/v1/brokers").status_code == 403
        roles.write_text(VIEWERS.replace("User:*", "User:ANONYMOUS"))
        await_true(lambda: running.http.get("/v1/brokers").status_code == 200, "the new file counts")
        assert running.http.get("/v1/brokers", headers=token).status_code == 403
