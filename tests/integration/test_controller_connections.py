"""Certificates and keys given as text, where no node has files of them; and proxies of the environment, which are not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import javaproperties
import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka import ControllerClient, OrderedConsumer, OrderedProducer
from spark_ordered_kafka.client.schemas import CreateTopicRequest
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ConfigError, RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.servers import TIMEOUT, await_true, unique_name
from tests.streams import FORMAT


def as_text(properties: dict[str, str]) -> dict[str, str]:
    """The properties with the text of each file in place of its path."""
    return {
        name.replace(".location", ".pem"): Path(value).read_text() if name.endswith(".location") else value
        for name, value in properties.items()
    }


def text_only(cluster: LocalCluster) -> dict[str, str]:
    """Kafka by a certificate, the controllers by a password; nothing is in a file."""
    security, secrets = cluster.description()["security"], cluster.secrets
    kafka = {
        "bootstrap.servers": security["mutual_tls_bootstrap_servers"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(secrets.ca),
        "ssl.certificate.location": str(secrets.certificate(CONTROLLER)),
        "ssl.key.location": str(secrets.key(CONTROLLER)),
    }
    found = as_text(kafka | cluster.controller_options("admin"))
    assert not any(name.endswith(".location") for name in found)
    return found


@pytest.fixture
def topic(secure_cluster: LocalCluster) -> str:
    """A managed topic."""
    name = unique_name("text-only")
    with ControllerClient(secure_cluster.controller_url, credentials=by_text(secure_cluster)) as admin:
        admin.create_topic(CreateTopicRequest(topic=name, partitions=2))
    return name


def by_text(cluster: LocalCluster) -> ControllerCredentials:
    """The super user's, with the authority as text."""
    return ControllerCredentials(
        username="admin", password=cluster.secrets.password("admin"), ca_pem=cluster.secrets.ca.read_text()
    )


def test_plain_clients_with_certificates_as_text(secure_cluster: LocalCluster, topic: str) -> None:
    conf = text_only(secure_cluster)
    with OrderedProducer(conf) as producer:
        for number in range(20):
            producer.produce(topic, key=f"k{number % 3}", value=str(number))
    received: set[bytes | None] = set()
    with OrderedConsumer(conf | {"group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])

        def is_read() -> bool:
            received.update(message.value() for message in consumer.consume(100, timeout=0.5))
            return len(received) == 20

        await_true(is_read, "all records")


@pytest.mark.long
def test_spark_with_certificates_as_text(
    secure_cluster: LocalCluster, spark: SparkSession, topic: str
) -> None:
    options = {
        name if name.startswith("controller.") else f"kafka.{name}": value
        for name, value in text_only(secure_cluster).items()
    }
    rows = spark.range(30).selectExpr("CAST(id % 5 AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.repartition(2, "key").write.format(FORMAT).options(**options, topic=topic).mode("append").save()
    assert spark.read.format(FORMAT).options(**options, subscribe=topic).load().count() == 30


def test_a_certificate_of_ones_own_as_text(secure_cluster: LocalCluster, tmp_path: Path) -> None:
    """Also from a properties file, as commands take it."""
    secrets = secure_cluster.secrets
    own = {
        "controller.ssl.ca.location": str(secrets.ca),
        "controller.ssl.certificate.location": str(secrets.certificate("bob")),
        "controller.ssl.key.location": str(secrets.key("bob")),
    }
    file = tmp_path / "bob.properties"
    url = {"controller.url": secure_cluster.controller_url}
    file.write_text(javaproperties.dumps(as_text(own) | url, timestamp=False))
    words = ["topics", "describe", "--topic", "no-such-topic", "--command-config", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "spark_ordered_kafka.cli", *words],
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )
    assert "User:CN=bob" in done.stderr


def test_what_is_wrong_with_a_text_is_named_and_no_text_shown(secure_cluster: LocalCluster) -> None:
    secrets = secure_cluster.secrets
    ca, certificate = secrets.ca.read_text(), secrets.certificate("bob").read_text()
    key, other = secrets.key("bob").read_text(), secrets.key("alice").read_text()

    def refusal(**given: str) -> str:
        with (
            pytest.raises(ConfigError) as found,
            ControllerClient(
                secure_cluster.controller_url, credentials=ControllerCredentials(**given)
            ) as client,
        ):
            client.topics()
        for secret in (ca, certificate, key, other):
            assert secret.splitlines()[1] not in str(found.value)
        return str(found.value)

    stranger = refusal(
        ca_pem=certificate.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    )
    assert stranger.startswith("controller.ssl.ca.pem has the value '-----BEGIN CERTIFICATE-----...'")
    assert "give the authority that signed it" in stranger
    assert refusal(ca_pem="-----BEGIN CERTIFICATE-----\nx").startswith("controller.ssl.ca.pem")
    mismatch = refusal(ca_pem=ca, certificate_pem=certificate, key_pem=other)
    assert mismatch.startswith("controller.ssl.key.pem")


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_proxies_of_the_environment_are_not_used(
    secure_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    # Nothing listens there.
    monkeypatch.setitem(os.environ, variable, "http://127.0.0.1:1")
    with ControllerClient(secure_cluster.controller_url, credentials=by_text(secure_cluster)) as client:
        assert [row.id for row in client.brokers().brokers] == [1]


def test_a_wrong_password_is_no_matter_of_certificates(secure_cluster: LocalCluster) -> None:
    wrong = ControllerCredentials(
        username="admin", password="no", ca_pem=secure_cluster.secrets.ca.read_text()
    )
    with (
        ControllerClient(secure_cluster.controller_url, credentials=wrong) as client,
        pytest.raises(RequestError, match=r"controller\.username 'admin'"),
    ):
        client.topics()
