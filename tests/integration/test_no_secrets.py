"""Every secret that can be given is looked for in all that a run leaves behind: logs at DEBUG, answers, plans, errors, arguments."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import psutil
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.config import controller_config
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ConfigError, UnavailableError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER, MECHANISM, USERS
from tests.integration.controllers import free_port
from tests.servers import TIMEOUT, await_true, processes_of, unique_name

LONG = 180.0


class Canaries:
    """Secrets by what they are for, none of which may be seen anywhere."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}

    def make(self, name: str) -> str:
        """A secret that can also be a token."""
        return self.add(name, f"canary.{secrets.token_hex(17)}")

    def add(self, name: str, secret: str) -> str:
        self.secrets[name] = secret
        return secret

    def seen(self, text: str) -> list[str]:
        """Names of those that are in the text, as they are or encoded for HTTP, URLs or JSON, or as Spark shows bytes."""
        return [
            name
            for name, secret in self.secrets.items()
            if any(
                form in text
                for form in (
                    secret,
                    _within_base64(secret),
                    quote(secret, safe=""),
                    json.dumps(secret)[1:-1],
                    ", ".join(map(str, secret.encode())),
                )
            )
        ]


def _within_base64(secret: str) -> str:
    """As it stands behind a user's name of two letters, or of five."""
    return base64.b64encode(secret[: len(secret) // 3 * 3].encode()).decode()


@dataclass
class Telling:
    """A controller at DEBUG, and all that it has said."""

    url: str
    log: Path
    audit: Path
    process: subprocess.Popen[bytes]

    def said(self) -> str:
        return self.log.read_text() + self.audit.read_text()


@pytest.fixture(scope="module")
def canaries(secure_cluster: LocalCluster) -> Canaries:
    made = Canaries()
    for user in (*USERS, CONTROLLER):
        made.add(f"password of {user}", secure_cluster.secrets.password(user))
    key = secure_cluster.secrets.key(CONTROLLER).read_text().splitlines()
    made.add("key of the controllers", key[1])
    made.add("key of alice", secure_cluster.secrets.key("alice").read_text().splitlines()[1])
    return made


@contextmanager
def running(cluster: LocalCluster, canaries: Canaries, home: Path) -> Iterator[Telling]:
    """A controller with a tree and a port of its own, and with a passphrase and tokens as well."""
    passphrase, port = canaries.make("passphrase of the key"), free_port()
    key = load_pem_private_key(cluster.secrets.key(CONTROLLER).read_bytes(), None)
    (home / "own.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode()))
    )
    (home / "passphrase").write_text(f"{passphrase}\n")
    token = canaries.make("token of an admin")
    (home / "tokens").write_text(f"{hashed(token, 'User:canary')}\n")
    secret = f"${{file:{cluster.secrets.password_file(CONTROLLER)}}}"
    own, ca = str(cluster.secrets.certificate(CONTROLLER)), str(cluster.secrets.ca)
    entries = {
        "host": "127.0.0.1", "port": port, "log.level": "DEBUG", "audit.log.file": str(home / "audit.log"),
        "kafka.bootstrap.servers": cluster.bootstrap_servers, "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": MECHANISM, "kafka.sasl.username": CONTROLLER, "kafka.sasl.password": secret,
        "kafka.ssl.ca.location": ca, "zookeeper.connect": f"{cluster.zookeeper}/{unique_name('telling')}",
        "zookeeper.ssl.enabled": True, "zookeeper.ssl.ca.location": ca, "zookeeper.ssl.certificate.location": own,
        "zookeeper.ssl.key.location": str(home / "own.key"), "zookeeper.ssl.key.password": f"${{file:{home / 'passphrase'}}}",
        "zookeeper.sasl.username": CONTROLLER, "zookeeper.sasl.password": secret,
        "ssl.certificate.location": own, "ssl.key.location": str(home / "own.key"),
        "ssl.key.password": f"${{file:{home / 'passphrase'}}}", "ssl.ca.location": ca, "ssl.client.auth": "requested",
        "authentication.required": True, "authentication.kafka.mechanism": MECHANISM,
        "authentication.tokens.file": str(home / "tokens"), "authorization.super.users": ["User:canary", "User:admin"],
    }  # fmt: skip
    (home / "controller.toml").write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in entries.items())
    )
    (home / "audit.log").touch()
    words = [
        sys.executable,
        "-m",
        "spark_ordered_kafka.cli",
        "controller",
        "run",
        "--config",
        str(home / "controller.toml"),
    ]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield Telling(f"https://127.0.0.1:{port}", home / "log", home / "audit.log", process)
    finally:
        process.terminate()
        process.wait(LONG)


def answers(told: Telling, ca: str, canaries: Canaries, cluster: LocalCluster, topic: str) -> Iterator[str]:
    """Of all routes that read, and of requests that are refused, with all their headers."""
    import ssl

    token = canaries.secrets["token of an admin"]
    context = ssl.create_default_context(cafile=ca)
    with httpx2.Client(base_url=told.url, verify=context, timeout=TIMEOUT) as client:

        def ask(method: str, path: str, **given: Any) -> str:
            answer = client.request(method, path, **given)
            return f"{answer.status_code} {answer.headers} {answer.text}"

        bearer = {"Authorization": f"Bearer {token}"}
        document = client.get("/openapi.json").json()
        for path, operations in document["paths"].items():
            if "get" not in operations:
                continue
            filled = (
                path.replace("{topic}", topic).replace("{group}", topic).replace("{request_id}", "latest")
            )
            filled = filled.replace("{review_id}", "1").replace("{broker}", "1").replace("{broker_id}", "1")
            params = {"timeout_ms": 1500} if path == "/v1/events" else {}
            yield ask("GET", filled, headers=bearer, params=params)
        yield ask("GET", "/", headers=bearer)
        yield ask("POST", "/v1/topics", headers=bearer, json={"topic": topic, "partitions": 1})
        yield ask(
            "POST",
            "/v1/topics",
            headers=bearer,
            json={"nonsense": "x"},
        )
        for user in ("admin", "al"):  # with a colon, Base64 of the second has the secret's own
            wrong = canaries.make(f"wrong password of {user}")
            yield ask("GET", "/v1/topics", auth=(user, wrong))
        yield ask("GET", "/v1/topics", auth=("admin", cluster.secrets.password("admin")))
        yield ask("GET", "/v1/topics", headers={"Authorization": f"Bearer {canaries.make('wrong token')}"})
        yield ask("GET", "/v1/topics", headers={"Authorization": canaries.make("no scheme")})
        yield ask("GET", "/v1/audit-log", headers=bearer)
        yield ask("GET", "/metrics", headers=bearer)


def arguments(directory: Path) -> str:
    """The command lines of all processes that have to do with a directory."""
    found = []
    for process in processes_of(directory):
        try:
            found += process.cmdline()
        except psutil.NoSuchProcess:
            continue
    return "\n".join(found)


@pytest.mark.long
def test_a_controller_at_debug_tells_no_secret(
    secure_cluster: LocalCluster, canaries: Canaries, tmp_path: Path
) -> None:
    topic = unique_name("telling")
    with running(secure_cluster, canaries, tmp_path) as told:
        credentials = ControllerCredentials(
            token=canaries.secrets["token of an admin"], ca_location=str(secure_cluster.secrets.ca)
        )

        def is_created() -> bool:
            assert told.process.poll() is None, told.said()
            with ControllerClient(told.url, credentials=credentials) as client:
                try:
                    return client.create_topic(CreateTopicRequest(topic=topic, partitions=2)).error_code == 0
                except UnavailableError:
                    return False  # it has not begun, or does not lead yet

        await_true(is_created, "the topic is created", LONG)
        found = list(answers(told, str(secure_cluster.secrets.ca), canaries, secure_cluster, topic))
        assert any(topic in one for one in found)
        assert canaries.seen("\n".join(found)) == []
        assert canaries.seen(arguments(tmp_path) + arguments(secure_cluster.directory)) == []
    said = told.said()
    assert "DEBUG" in said.upper()
    assert topic in told.audit.read_text()
    assert canaries.seen(said) == []
    # What was looked for would have been found.
    assert canaries.seen(f"x{canaries.secrets['token of an admin']}x") == ["token of an admin"]


@pytest.mark.parametrize(
    "entry",
    [
        "kafka.sasl.passwrd", "zookeper.sasl.password", "zookeeper.digest.password", "ssl.key.passwrd", "kafka.sasl.oauthbearer.client.secret",
        "controller.token", "webhook.token",
    ],
)  # fmt: skip
def test_an_error_of_the_configuration_tells_no_secret(entry: str) -> None:
    canary = Canaries()
    entries = {"kafka.bootstrap.servers": "h:1", "zookeeper.connect": "h:1", entry: canary.make(entry)}
    with pytest.raises(ConfigError) as refused:
        controller_config(entries, default_host="h")
    assert entry.removeprefix("kafka.") in str(refused.value)
    assert canary.seen(f"{refused.value} {refused.value!r}") == []


@pytest.mark.long
def test_spark_and_plain_clients_at_debug_tell_no_secret(
    secure_cluster: LocalCluster, canaries: Canaries, tmp_path: Path
) -> None:
    topic = unique_name("telling")
    with ControllerClient(
        secure_cluster.controller_url,
        credentials=ControllerCredentials(
            username="admin",
            password=secure_cluster.secrets.password("admin"),
            ca_location=str(secure_cluster.secrets.ca),
        ),
    ) as client:
        client.create_topic(CreateTopicRequest(topic=topic, partitions=2))
    controller = secure_cluster.controller_options("admin")
    kafka = secure_cluster.kafka_properties("admin", "SCRAM-SHA-512")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="admin" password="{secure_cluster.secrets.password("admin")}";'
    java = {name: value for name, value in kafka.items() if name not in ("sasl.username", "sasl.password")}
    right = (
        {f"kafka.{name}": value for name, value in java.items()}
        | {"kafka.sasl.jaas.config": jaas}
        | controller
    )

    def canary(name: str) -> dict[str, str]:
        return {name: canaries.make(name)}

    wrong = [
        canary("controller.password"),
        canary("kafka.sasl.passwrd"),
        canary("controller.passwrd"),
        canary("kafka.ssl.key.password"),
        {
            "kafka.sasl.jaas.config": f'{module} required username="admin" password="{canaries.make("wrong jaas")}";'
        },
        {"kafka.sasl.jaas.config": f"{module} required password={canaries.make('broken jaas')}"},
        canary("kafka.sasl.oauthbearer.client.secret"),
        canary("kafka.ssl.key.pem"),
        {"controller.token": canaries.make("controller.token")},
        {"controller.url": f"https://admin:{canaries.make('in the URL')}@127.0.0.1:1"},
    ]
    of_clients = [{name.removeprefix("kafka."): value for name, value in one.items()} for one in wrong]
    given = {"right": right, "wrong": wrong, "clients": {"right": kafka | controller, "wrong": of_clients}}
    (tmp_path / "options.json").write_text(json.dumps(given))
    words = [
        sys.executable,
        "-m",
        "tests.integration.telling_driver",
        str(tmp_path / "options.json"),
        topic,
        str(tmp_path),
    ]
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)
        said: list[str] = []
        while process.poll() is None:
            said += [
                word for one in psutil.Process(process.pid).children(recursive=True) for word in _words(one)
            ]
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                continue
    text = log.read_text(errors="replace")
    assert process.returncode == 0, text[-5000:]
    assert "DEBUG" in text
    assert canaries.seen(text) == [], [line[:300] for line in text.splitlines() if canaries.seen(line)][:5]
    assert canaries.seen("\n".join(said)) == []
    checkpoint = "".join(
        one.read_text(errors="replace") for one in (tmp_path / "checkpoint").rglob("*") if one.is_file()
    )
    assert canaries.seen(checkpoint) == []


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
