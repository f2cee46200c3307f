"""A controller and clients that log in by OAUTHBEARER: tokens of an issuer that the broker asks for its keys."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import javaproperties
import jwt
import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import rsa

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.requests import BrokerRequests
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.jars import kafka_jars
from spark_ordered_kafka.local.java import find_java
from spark_ordered_kafka.local.ports import HOST
from spark_ordered_kafka.local.servers import kafka_command
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.servers import TIMEOUT

MODULE = "org.apache.kafka.common.security.oauthbearer"
LIFE = 10
"""Seconds that a token is good for: the broker ends each session with its token (KIP-368).

A busy machine may take some of them between a token and its use.
"""
# Seconds in which a broker starts or stops on a busy machine, and in which four tokens of a client end.
LONG = 120.0


class Issuer(ThreadingHTTPServer):
    """Gives tokens by the client credentials grant, and its public key. ``given``: tokens by client."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)
        self.key = rsa.generate_private_key(65537, 2048)
        self.given: Counter[str] = Counter()
        self.broken = False
        self.url = f"http://{HOST}:{self.server_port}"

    def token(self, client: str) -> str:
        now = time.time()
        claims = {
            "sub": client,
            "scope": "kafka",
            "iss": self.url,
            "aud": "kafka",
            "iat": now,
            "exp": now + LIFE,
        }
        return jwt.encode(claims, self.key, "RS256", headers={"kid": "one"})

    def keys(self) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [key | {"kid": "one", "use": "sig", "alg": "RS256"}]}


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        self._answer(200, self.server.keys())

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        user, _, password = login.partition(":")
        if self.server.broken:
            self._answer(503, {})
        elif self.path != "/token":
            self._answer(404, {})
        elif password != f"{user}-secret" or form["grant_type"] != ["client_credentials"]:
            self._answer(401, {"error": "invalid_client", "error_description": "who is that?"})
        else:
            self.server.given[user] += 1
            self._answer(
                200,
                {"access_token": self.server.token(user), "token_type": "Bearer", "expires_in": LIFE},
            )

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        threading.Thread(target=issuer.serve_forever, daemon=True).start()
        yield issuer
        issuer.shutdown()


def login(cluster: LocalCluster, issuer: Issuer, client: str = "controller") -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": client,
        "sasl.oauthbearer.client.secret": f"{client}-secret",
        "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
        "sasl.oauthbearer.scope": "kafka",
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[LocalCluster]:
    """A cluster whose broker takes tokens alone, on the listener that others have in plain text."""
    with LocalCluster(tmp_path_factory.mktemp("oauth")) as cluster:
        cluster.stop("broker-1")
        home = cluster.log("broker-1").parent
        with (home / "server.properties").open() as file:
            properties = javaproperties.load(file)
        prefix = "listener.name.plaintext.oauthbearer.sasl"
        properties |= {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            f"{prefix}.jaas.config": f'{MODULE}.OAuthBearerLoginModule required clientId="broker" clientSecret="broker-secret";',
            f"{prefix}.server.callback.handler.class": f"{MODULE}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.login.callback.handler.class": f"{MODULE}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
            "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": issuer.url,
            "connections.max.reauth.ms": str(1000 * LIFE),
        }
        config = home / "oauth.properties"
        config.write_text(javaproperties.dumps(properties))
        with _Broker(config, cluster.kafka_version, issuer):
            AdminClient({**login(cluster, issuer)}).list_topics(timeout=LONG)
            yield cluster


class _Broker:
    """A broker with its own configuration, which may ask the issuer."""

    def __init__(self, config: Path, version: str, issuer: Issuer) -> None:
        java = find_java()
        first, *others = kafka_command(java, kafka_jars(version, java=java, progress=lambda _: None), config)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys,{issuer.url}/token"
        self._command = [first, allowed, *others]
        self._log = config.with_name("oauth.log")

    def __enter__(self) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(LONG)


@pytest.fixture
def controller(cluster: LocalCluster, issuer: Issuer) -> Iterator[InProcess]:
    with in_process(cluster, kafka=login(cluster, issuer)) as running:
        yield running


@pytest.mark.long
def test_a_topic_grows_under_writers_and_readers_with_tokens(
    cluster: LocalCluster, issuer: Issuer, controller: InProcess
) -> None:
    topic, port = controller.create(2), free_port()
    conf = login(cluster, issuer, "writer") | {"controller.url": f"http://{HOST}:{port}"}
    sent: list[tuple[bytes, bytes]] = []
    with served(controller, port), OrderedProducer(conf) as producer:
        for count in (4, 3, 6):
            for number in range(200):
                sent.append((b"key-%d" % (number % 20), b"%d" % len(sent)))
                producer.produce(topic, key=sent[-1][0], value=sent[-1][1])
            producer.flush(TIMEOUT)
            assert controller.alter(topic, count).error == "NONE"
        reading = conf | {"group.id": topic, "auto.offset.reset": "earliest"}
        with OrderedConsumer(reading) as consumer:
            consumer.subscribe([topic])
            read: list[tuple[bytes, bytes]] = []
            deadline = time.monotonic() + TIMEOUT
            while len(read) < len(sent):
                assert time.monotonic() < deadline, f"{len(read)} of {len(sent)} records"
                read += [
                    (message.key() or b"", message.value() or b"") for message in consumer.consume(1000, 1.0)
                ]
    assert _by_key(read) == _by_key(sent)


def _by_key(records: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    return {key: [value for one, value in records if one == key] for key, _ in records}


@pytest.mark.long
def test_it_goes_on_when_tokens_end_and_while_the_issuer_is_away_for_a_moment(
    issuer: Issuer, controller: InProcess
) -> None:
    topic = controller.create(2)
    before, deadline = issuer.given["controller"], time.monotonic() + LONG
    while issuer.given["controller"] < before + 4:
        assert len(controller.topic(topic, details=True).partitions) == 2
        assert time.monotonic() < deadline
    issuer.broken = True
    try:
        assert len(controller.topic(topic, details=True).partitions) == 2
    finally:
        issuer.broken = False
    assert controller.alter(topic, 3).error == "NONE"


@pytest.mark.long
def test_what_is_wrong_is_said_before_anything_begins(cluster: LocalCluster, issuer: Issuer) -> None:
    right = login(cluster, issuer)
    with pytest.raises(RequestError, match=r"kafka\.sasl\.oauthbearer\.client\.id.*who is that") as refused:
        BrokerRequests(right | {"sasl.oauthbearer.client.secret": "no"}, TIMEOUT)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(ConfigError, match=r"token\.endpoint\.url .*no access_token"):
        BrokerRequests(right | {"sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/other"}, TIMEOUT)
    with pytest.raises(UnavailableError, match="while getting a token for Kafka from"):
        BrokerRequests(right | {"sasl.oauthbearer.token.endpoint.url": f"http://{HOST}:1/x"}, TIMEOUT)
