"""Clients that Kafka refuses: the first error says why, at once, and that no retry helps."""

from __future__ import annotations

import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer, register
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.credentials import controller_credentials
from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.kafka.producer import TransactionalProducer
from spark_ordered_kafka.kafka.reader import ReadSettings, read_segments
from spark_ordered_kafka.kafka.segments import Segment
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.native.loading import VARIABLE, kernel
from spark_ordered_kafka.spark.schema import source_schema
from tests.integration.acls import Acls, acl
from tests.servers import TIMEOUT, await_true
from tests.streams import FORMAT

ALICE = "User:alice"
DEADLINE = 120
_PASSWORD = "SASL_AUTHENTICATION_FAILED: Kafka refuses the login of user '{}'"
_AUTHORITY = "ssl.ca.location has the value '.*': give the authority that signed the brokers' certificates"


@dataclass(frozen=True)
class Wrong:
    """What is wrong in a client's properties, and what is said of it."""

    properties: dict[str, str]
    said: str


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The certificate of an authority that has signed nothing in the cluster."""
    path: Path = tmp_path_factory.mktemp("stranger") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture(params=["password", "user", "authority"])
def wrong(request: pytest.FixtureRequest, authority: str) -> Wrong:
    return {
        "password": Wrong({"sasl.password": "hush"}, _PASSWORD.format("admin")),
        "user": Wrong({"sasl.username": "mallory"}, _PASSWORD.format("mallory")),
        "authority": Wrong({"ssl.ca.location": authority}, _AUTHORITY),
    }[request.param]


@pytest.fixture
def topic(secure_cluster: LocalCluster, topic_name: str) -> str:
    connection = _connection(secure_cluster)
    with ControllerClient.of(connection) as controller:
        controller.create_topic(CreateTopicRequest(topic=topic_name, partitions=1, replication_factor=1))
    return topic_name


def _connection(cluster: LocalCluster, user: str = "admin") -> Connection:
    options = cluster.controller_options(user)
    url = options["controller.url"]
    return Connection(cluster.kafka_properties(user), url, controller_credentials(options, url, ""))


def _is_shown(controller: ControllerClient, topic: str) -> bool:
    try:
        return controller.topic(topic).topic == topic
    except RequestError:
        return False


def _conf(cluster: LocalCluster, user: str = "admin") -> dict[str, Any]:
    return {**cluster.kafka_properties(user), **cluster.controller_options(user)}


def _consume(conf: dict[str, Any], topic: str) -> None:
    with OrderedConsumer(conf | {"group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            consumer.poll(0.1)


def _produce(conf: dict[str, Any], topic: str) -> None:
    producer = OrderedProducer(conf)
    try:
        producer.produce(topic, "value", "key")
        producer.flush(TIMEOUT)
    finally:
        producer.close()


CLIENTS: dict[str, Callable[[dict[str, Any], str], None]] = {"consumer": _consume, "producer": _produce}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_plain_client_says_why_kafka_refuses_it(
    secure_cluster: LocalCluster, topic: str, wrong: Wrong, client: str
) -> None:
    with pytest.raises((ConfigError, RequestError), match=f"^{wrong.said}") as refused:
        CLIENTS[client](_conf(secure_cluster) | wrong.properties, topic)
    assert not refused.value.retriable
    assert "hush" not in str(refused.value)


def test_the_producer_of_a_task_says_so_too(secure_cluster: LocalCluster, topic: str, wrong: Wrong) -> None:
    """Where an executor has other files than the driver, such as an older authority."""
    connection = _connection(secure_cluster)
    connection = replace(connection, kafka={**connection.kafka, **wrong.properties})
    with pytest.raises((ConfigError, RequestError), match=f"^{wrong.said}"):
        TransactionalProducer(connection, topic, f"ordered:{topic}:w:0", TIMEOUT)


def _read(
    connection: Connection, topic: str, end: int, *, start: int = 0, stall_timeout: float = DEADLINE
) -> int:
    """How many records a task reads of a range of offsets."""
    settings = ReadSettings(connection, False, True, stall_timeout=stall_timeout)
    schema = to_arrow_schema(source_schema(False), timezone="UTC")
    return sum(
        batch.num_rows for batch in read_segments(settings, [Segment(topic, 0, 0, start, end)], schema)
    )


@pytest.mark.long
@pytest.mark.parametrize("native", ["off", "require"])
def test_the_reader_of_a_task_says_so_too(
    secure_cluster: LocalCluster, topic: str, wrong: Wrong, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before it would give up to wait for the leader."""
    monkeypatch.setenv(VARIABLE, native)
    kernel.cache_clear()
    connection = _connection(secure_cluster)
    connection = replace(connection, kafka={**connection.kafka, **wrong.properties})
    with pytest.raises((ConfigError, RequestError), match=f"^{wrong.said}") as refused:
        _read(connection, topic, 1)
    assert not refused.value.retriable


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose certificate no client of the cluster trusts."""
    issued = trustme.CA().issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "impostor.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "impostor.pem")

    class Handshake(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True):
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handshake) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.long
def test_a_broker_that_others_stand_in_for_is_no_reason_to_give_up(
    secure_cluster: LocalCluster, topic: str, impostor: str
) -> None:
    """While brokers get other certificates, one after another; the reader names what it has met if nothing comes at all."""
    _produce(_conf(secure_cluster), topic)
    connection = _connection(secure_cluster)
    servers = f"{impostor},{connection.bootstrap_servers}"
    told = ""
    # Which of the servers a client meets first is random.
    for number in range(20):
        kafka = {**connection.kafka, "bootstrap.servers": servers, "client.id": f"reader-{number}"}
        its = replace(connection, kafka=kafka)
        # Long enough for a broker to be met and to say where the log ends, on a busy machine too.
        with pytest.raises(UnavailableError, match="the log ends at 2") as stalled:
            _read(its, topic, 100, start=2, stall_timeout=15)
        told = str(stalled.value)
        assert _read(its, topic, 1) == 1
        if "certificate verify failed" in told:
            break
    assert "the last error of a connection: " in told


# What a user with no right but these may not do, and what is said of it.
LESS: dict[str, tuple[str, list[tuple[str, str, str]], str]] = {
    "no group": ("consumer", [("READ", "TOPIC", "")], "GROUP_AUTHORIZATION_FAILED"),
    "no topic": (
        "consumer",
        [("DESCRIBE", "TOPIC", ""), ("READ", "GROUP", "")],
        "TOPIC_AUTHORIZATION_FAILED",
    ),
    "no transactional id": (
        "producer",
        [("WRITE", "TOPIC", ""), ("READ", "TOPIC", ""), ("READ", "GROUP", "ordered:")],
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "no ledger": (
        "producer",
        [("WRITE", "TOPIC", ""), ("READ", "TOPIC", ""), ("WRITE", "TRANSACTIONAL_ID", "ordered:")],
        "GROUP_AUTHORIZATION_FAILED",
    ),
    "no write": (
        "producer",
        [("READ", "TOPIC", ""), ("WRITE", "TRANSACTIONAL_ID", "ordered:"), ("READ", "GROUP", "ordered:")],
        "TOPIC_AUTHORIZATION_FAILED",
    ),
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.long] * (what != "no write")) for what in LESS]
)
def test_a_missing_right_is_named(secure_cluster: LocalCluster, topic: str, what: str) -> None:
    client, rights, said = LESS[what]
    given = [acl(ALICE, right, kind, prefix + topic, prefixed=prefix != "") for right, kind, prefix in rights]
    Acls(AdminClient({**secure_cluster.kafka_properties()})).add(*given)
    with ControllerClient.of(_connection(secure_cluster, "alice"), retry_for=0.0) as controller:
        # The controllers read ACLs every few seconds.
        await_true(lambda: _is_shown(controller, topic), "the controller shows the topic to alice")
    if client == "consumer":
        with OrderedProducer(_conf(secure_cluster)) as producer:
            producer.produce(topic, "value", "key")
    with pytest.raises(OrderedKafkaError, match=f"^{said}") as refused:
        CLIENTS[client](_conf(secure_cluster, "alice"), topic)
    assert not refused.value.retriable


def _batch(spark: SparkSession, options: dict[str, str], topic: str, _: Path) -> None:
    spark.read.format(FORMAT).options(**options, subscribe=topic).load().count()


def _stream(spark: SparkSession, options: dict[str, str], topic: str, home: Path) -> None:
    rows = spark.readStream.format(FORMAT).options(**options, subscribe=topic).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(home)).start()
    query.awaitTermination(DEADLINE)


def _batch_write(spark: SparkSession, options: dict[str, str], topic: str, _: Path) -> None:
    rows = spark.range(1).selectExpr("'v' AS value")
    rows.write.format(FORMAT).options(**options, topic=topic).mode("append").save()


def _stream_write(spark: SparkSession, options: dict[str, str], topic: str, home: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    writing = rows.writeStream.format(FORMAT).options(**options, topic=topic)
    writing.option("checkpointLocation", str(home)).start().awaitTermination(DEADLINE)


SPARK: dict[str, Callable[[SparkSession, dict[str, str], str, Path], None]] = {
    "batch": _batch,
    "stream": _stream,
    "batch write": _batch_write,
    "stream write": _stream_write,
}


@pytest.mark.long
@pytest.mark.parametrize("client", SPARK)
def test_a_read_or_write_of_spark_says_why_kafka_refuses_it(
    secure_cluster: LocalCluster, spark: SparkSession, topic: str, wrong: Wrong, client: str, tmp_path: Path
) -> None:
    register(spark)
    kafka = secure_cluster.kafka_properties() | wrong.properties
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    options.update(secure_cluster.controller_options())
    with pytest.raises(Exception, match=f"(?s){wrong.said}") as refused:
        SPARK[client](spark, options, topic, tmp_path)
    assert "hush" not in str(refused.value)
    assert "Job aborted" not in str(refused.value), "a task has found it out, not the plan"
