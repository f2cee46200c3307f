"""A secured cluster: who gets in, who does not and is told why, and what is readable without credentials."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kazoo.security import make_acl
from pyspark.sql import SparkSession

from spark_ordered_kafka import ControllerClient, register
from spark_ordered_kafka.controller.zk.session import ROOT
from spark_ordered_kafka.credentials import controller_credentials
from spark_ordered_kafka.demo import INPUT, OUTPUT, Demo, DemoPlan
from spark_ordered_kafka.errors import ConfigError, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER, MECHANISMS
from tests.integration.controllers import in_process
from tests.integration.foreign_clients import java_gateway
from tests.integration.keepers import connected, keeper, with_sasl
from tests.integration.secured import EVERYBODY, Kafka
from tests.servers import TIMEOUT, await_true, processes_of, unique_name


def by_certificate(cluster: LocalCluster, user: str) -> Kafka:
    """Properties of a user who shows a certificate and no password."""
    security = cluster.description()["security"]
    return {
        "bootstrap.servers": security["mutual_tls_bootstrap_servers"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(cluster.secrets.ca),
        "ssl.certificate.location": str(cluster.secrets.certificate(user)),
        "ssl.key.location": str(cluster.secrets.key(user)),
    }


@pytest.mark.long
@pytest.mark.parametrize("way", [*MECHANISMS, "certificate"])
def test_a_controller_works_however_it_logs_in(way: str, secure_cluster: LocalCluster) -> None:
    if way == "certificate":
        kafka = by_certificate(secure_cluster, CONTROLLER)
    else:
        kafka = secure_cluster.kafka_properties(CONTROLLER, way)
    with in_process(
        secure_cluster, kafka=kafka, zookeeper=with_sasl(secure_cluster), authorization=EVERYBODY
    ) as controller:
        topic = controller.create(2)
        assert controller.alter(topic, 3).error_code == 0
        assert controller.topic(topic).undeleted_partition_count == 3
        # Sampling, retirement and groups go through librdkafka, with the same properties.
        foreign = unique_name("foreign")
        admin = KafkaAdmin(kafka)
        with closing(admin):
            admin.create_topic(foreign, {0: [1], 1: [1]}, {})
        producer = Producer({**secure_cluster.kafka_properties(), "partitioner": "murmur2_random"})
        for number in range(50):
            producer.produce(foreign, key=f"k{number}", value=b"v")
        assert producer.flush(TIMEOUT) == 0
        adopted = controller.http.post(f"/v1/topics/{foreign}/adopt", json={"hash": "murmur3"})
        assert "lie where the hash puts them" in adopted.json()["error_message"], adopted.text
        adopted = controller.http.post(f"/v1/topics/{foreign}/adopt", json={"hash": "murmur2"})
        assert adopted.json()["error_code"] == 0, adopted.text


def _without_ca(kafka: Kafka) -> Kafka:
    return {name: value for name, value in kafka.items() if name != "ssl.ca.location"}


# What is changed in properties with which a controller connects, and what is said about it.
WRONG: dict[str, tuple[Callable[[LocalCluster, dict[str, str]], Kafka], str]] = {
    "password, SCRAM": (
        lambda c, s: c.kafka_properties(CONTROLLER) | {"sasl.password": "hush"},
        "SASL_AUTHENTICATION_FAILED: kafka.sasl.username has the value 'controller': Kafka refuses this user or",
    ),
    "password, PLAIN": (
        lambda c, s: c.kafka_properties(CONTROLLER, "PLAIN") | {"sasl.password": "hush"},
        "SASL_AUTHENTICATION_FAILED: kafka.sasl.username has the value 'controller': Kafka refuses this user or",
    ),
    "user": (
        lambda c, s: c.kafka_properties() | {"sasl.username": "nobody"},
        "SASL_AUTHENTICATION_FAILED: kafka.sasl.username has the value 'nobody'",
    ),
    "authority": (
        lambda c, s: c.kafka_properties() | {"ssl.ca.location": s["ca"]},
        "kafka.ssl.ca.location has the value '.*': give the authority that signed the server's certificate",
    ),
    "no authority": (
        lambda c, s: _without_ca(c.kafka_properties()),
        "kafka.ssl.ca.location is missing: give the authority",
    ),
    "host": (
        lambda c, s: (
            c.kafka_properties() | {"bootstrap.servers": c.bootstrap_servers.replace("127.0.0.1", "0.0.0.0")}
        ),
        "kafka.ssl.endpoint.identification.algorithm has the value 'https': IP address mismatch",
    ),
    "plaintext to TLS": (
        lambda c, s: {"bootstrap.servers": c.bootstrap_servers},
        "kafka.security.protocol has the value 'PLAINTEXT': the listener at .* speaks SSL or SASL_SSL",
    ),
    "no login": (
        lambda c, s: {
            "bootstrap.servers": c.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(c.secrets.ca),
        },
        "kafka.security.protocol has the value 'SSL': the listener at .* speaks SASL_SSL",
    ),
    "login without SASL": (
        lambda c, s: (
            c.kafka_properties()
            | {
                "bootstrap.servers": c.description()["security"]["mutual_tls_bootstrap_servers"],
                "ssl.certificate.location": str(c.secrets.certificate(CONTROLLER)),
                "ssl.key.location": str(c.secrets.key(CONTROLLER)),
            }
        ),
        "kafka.security.protocol has the value 'SASL_SSL': the broker's listener knows no SASL; it may be SSL",
    ),
    "no certificate": (
        lambda c, s: {
            name: value
            for name, value in by_certificate(c, CONTROLLER).items()
            if name not in ("ssl.certificate.location", "ssl.key.location")
        },
        "kafka.ssl.certificate.location is missing: the server refused the TLS connection",
    ),
    "another authority's certificate": (
        lambda c, s: (
            by_certificate(c, CONTROLLER)
            | {"ssl.certificate.location": s["certificate"], "ssl.key.location": s["key"]}
        ),
        "kafka.ssl.certificate.location has the value '.*': the server refused the TLS connection",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_kafka_refuses_is_named(
    what: str, secure_cluster: LocalCluster, stranger: dict[str, str]
) -> None:
    make, told = WRONG[what]
    # A message about the time that has passed would not match.
    with pytest.raises((ConfigError, RequestError), match=f"^{told}") as refused:
        KafkaAdmin(make(secure_cluster, stranger), timeout=TIMEOUT)
    assert not refused.value.retriable
    assert "hush" not in str(refused.value)


def test_tls_to_a_listener_without_it_is_named(
    secure_cluster: LocalCluster, kafka_cluster: LocalCluster
) -> None:
    servers = kafka_cluster.bootstrap_servers
    for properties, told in [
        (
            secure_cluster.kafka_properties(),
            "'SASL_SSL': the listener at .* speaks PLAINTEXT or SASL_PLAINTEXT",
        ),
        (
            _without_ca(secure_cluster.kafka_properties()) | {"security.protocol": "SASL_PLAINTEXT"},
            "'SASL_PLAINTEXT': the broker's listener knows no SASL; it may be PLAINTEXT",
        ),
    ]:
        with pytest.raises(ConfigError, match=f"^kafka.security.protocol has the value {told}"):
            KafkaAdmin(properties | {"bootstrap.servers": servers}, timeout=TIMEOUT)


@pytest.mark.long
def test_the_command_says_at_once_what_kafka_refuses(secure_cluster: LocalCluster, tmp_path: Path) -> None:
    config = (secure_cluster.directory / "controller-1" / "controller.toml").read_text()
    wrong = tmp_path / "controller.toml"
    wrong.write_text(
        "\n".join(
            line
            for line in config.splitlines()
            if not line.startswith(("kafka.sasl.password", "zookeeper.connect", "port"))
        )
        + f'\nkafka.sasl.password = "hush"\nzookeeper.connect = "{keeper(secure_cluster).connect}"\n'
    )
    command = [sys.executable, "-m", "spark_ordered_kafka.cli", "controller", "run", "--config", str(wrong)]
    done = subprocess.run([*command, "--port", "20001"], capture_output=True, text=True, timeout=120)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert last.startswith(
        "error: SASL_AUTHENTICATION_FAILED: kafka.sasl.username has the value 'controller'"
    )
    assert "hush" not in done.stderr


def test_users_have_the_rights_of_kafkas_acls(secure_cluster: LocalCluster) -> None:
    topic = unique_name("acls")
    with closing(KafkaAdmin(secure_cluster.kafka_properties())) as admin:
        admin.create_topic(topic, {0: [1]}, {})
    with closing(KafkaAdmin(secure_cluster.kafka_properties("alice"))) as alice:
        assert topic not in alice.describe_topics()
        client = AdminClient({**secure_cluster.kafka_properties(), "log_level": 0})
        allowed = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        for future in client.create_acls([allowed]).values():
            future.result(TIMEOUT)
        await_true(lambda: topic in alice.describe_topics(), "alice sees the topic")
    with closing(KafkaAdmin(by_certificate(secure_cluster, "bob"))) as bob:
        assert topic not in bob.describe_topics()


@pytest.mark.long
def test_kafkas_java_client_takes_the_client_properties(secure_cluster: LocalCluster) -> None:
    path = secure_cluster.secrets.properties_file("admin", "client")
    with java_gateway(secure_cluster) as gateway:
        properties = gateway.jvm.java.util.Properties()
        stream = gateway.jvm.java.io.FileInputStream(str(path))
        properties.load(stream)
        stream.close()
        admin = gateway.jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        assert admin.describeCluster().nodes().get().size() == 1
        admin.close()


def test_the_controller_speaks_tls_only(secure_cluster: LocalCluster) -> None:
    url = secure_cluster.controller_url
    assert url.startswith("https://")
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(f"{url.replace('https', 'http')}/readyz", timeout=TIMEOUT)
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(f"{url}/readyz", timeout=TIMEOUT)


@pytest.mark.long
def test_the_demo_runs_on_it(secure_cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> None:
    login = secure_cluster.controller_options()
    url = login["controller.url"]
    credentials = controller_credentials({k: v for k, v in login.items() if k != "controller.url"}, url)
    kafka = {f"kafka.{name}": value for name, value in secure_cluster.kafka_properties().items()}
    defaults = {f"spark.ordered-kafka.{name}": value for name, value in (login | kafka).items()}
    for name, value in defaults.items():
        spark.conf.set(name, value)
    try:
        register(spark)
        with ControllerClient(url, credentials=credentials) as controller:
            plan = DemoPlan(
                records=6_000,
                keys=200,
                rows_per_batch=1_000,
                changes=((0.2, INPUT, 4), (0.4, OUTPUT, 5), (0.6, INPUT, 3)),
            )
            report = Demo(spark, controller, tmp_path, plan, lambda _: None).run()
    finally:
        for name in defaults:
            spark.conf.unset(name)
        register(spark)
    assert report.violations == 0, (report.delivered, report.recovered)
    assert report.delivered.records == plan.records
    assert [(topic, change.target) for topic, change in report.changes] == [
        (topic, target) for _, topic, target in plan.changes
    ]


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_ordered_kafka.cli", "local", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=400)


@pytest.mark.long
def test_the_command_with_several_servers_of_the_older_kafka(tmp_path: Path) -> None:
    home = tmp_path / "cluster"
    many = ("--brokers", "2", "--zookeepers", "3", "--kafka-version", "3.9.2")
    try:
        up = run_cli("up", "--dir", str(home), "--secure", *many, "--output", "json")
        assert up.returncode == 0, up.stderr
        described = json.loads(up.stdout)
        security = described["security"]
        assert described["controller"].startswith("https://")
        assert set(security["users"]) == {"admin", "alice", "bob"}
        cluster = LocalCluster(home)
        assert not any(cluster.secrets.password(user) in up.stdout + up.stderr for user in security["users"])

        # Replicas on both brokers are in sync: they talk to each other, and to their KRaft controller.
        topic = unique_name("replicated")
        with closing(KafkaAdmin(cluster.kafka_properties())) as admin:
            admin.create_topic(topic, {0: [1, 2]}, {"min.insync.replicas": "2"})
        producer = Producer({**cluster.kafka_properties(), "acks": "all"})
        delivered: list[object] = []
        producer.produce(topic, b"v", on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(TIMEOUT) == 0
        assert delivered == [None]
        with connected(replace(with_sasl(cluster), connect=cluster.zookeeper)) as client:
            assert client.get_acls(f"{ROOT}/controller")[0] == [make_acl("sasl", CONTROLLER, all=True)]

        shown = json.loads(run_cli("status", "--dir", str(home), "--output", "json").stdout)
        assert shown["running"] is True
        assert shown["security"] == security
        cluster.kill("broker-1")
        again = run_cli("up", "--dir", str(home))
        assert again.returncode == 0, again.stderr
        assert security["users"]["admin"]["client_properties"] in again.stdout
        with closing(KafkaAdmin(cluster.kafka_properties("bob"))) as bob:
            # The other one may have had it as fenced for a moment, between its registrations.
            await_true(lambda: [broker.id for broker in bob.brokers()] == [1, 2], "both brokers are listed")
        assert run_cli("down", "--dir", str(home)).returncode == 0
        assert processes_of(home) == []
    finally:
        LocalCluster(home).down()


def test_a_directory_stays_what_it_was_set_up_as(secure_cluster: LocalCluster) -> None:
    with pytest.raises(
        ConfigError, match=r"secure has the value False: the cluster in .* was set up with True"
    ):
        LocalCluster(secure_cluster.directory, secure=False).up()
