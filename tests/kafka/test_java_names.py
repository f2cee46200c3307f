"""Properties of Kafka's Java clients: all of them are known, and what is said of each is true."""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from spark_ordered_kafka.errors import ConfigError, ConfigErrors
from spark_ordered_kafka.kafka.java_names import FIXED, NOTES, REFUSED, RENAMED, SAME, translated
from spark_ordered_kafka.kafka.java_security import MEANING as OF_SECURITY
from spark_ordered_kafka.kafka.properties import client_properties, consumer_properties
from spark_ordered_kafka.kafka.property_checks import check_properties
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS, kafka_jars
from spark_ordered_kafka.local.java import classpath, find_java
from spark_ordered_kafka.parsing import is_secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
# librdkafka's own names, refused like the ones of Java that mean the same.
OF_LIBRDKAFKA = {
    "enable.auto.offset.store",
    "enable.partition.eof",
    "partitioner",
    "request.required.acks",
    "statistics.interval.ms",
}


@pytest.fixture(scope="module")
def of_java() -> set[str]:
    """All properties, as the Java clients themselves print them for Kafka's documentation."""
    java = find_java()
    jars = classpath(kafka_jars(KAFKA_VERSIONS[0], java=java, progress=lambda _: None))
    found: set[str] = set()
    for client in ("consumer.ConsumerConfig", "producer.ProducerConfig"):
        command = [java, "-cp", jars, f"org.apache.kafka.clients.{client}"]
        page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = re.findall(r'id="(?:consumer|producer)configs_([^"]+)"', page)
        assert len(names) > 100
        found.update(names)
    return found


def known_to_librdkafka(name: str) -> bool:
    try:
        Consumer({"group.id": "g", name: "1"}).close()
    except KafkaException as error:
        return "No such configuration property" not in str(error)
    return True


def test_every_property_of_java_is_treated_and_no_other(of_java: set[str]) -> None:
    treated = [*SAME, *RENAMED, *FIXED, *REFUSED, *OF_SECURITY]
    assert len(treated) == len(set(treated)), "each in one way"
    assert set(treated) - OF_LIBRDKAFKA == of_java
    assert set(NOTES) <= set(SAME)


@pytest.mark.parametrize("name", [*SAME, *(one.name for one in RENAMED.values())])
def test_librdkafka_has_what_is_passed_on(name: str) -> None:
    assert known_to_librdkafka(name)


@pytest.mark.parametrize(
    "name",
    sorted({one for reason in REFUSED.values() for one in re.findall(r"kafka\.([a-z.]+[a-z])", reason)}),
)
def test_librdkafka_has_what_is_advised(name: str) -> None:
    assert known_to_librdkafka(name)


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_by_name_with_a_reason(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        translated({name: "1"}, "option kafka.")
    value = "********" if is_secret(name) else "1"
    assert str(caught.value) == f"option kafka.{name} has the value '{value}': {REFUSED[name]}"


@pytest.mark.parametrize("name", FIXED)
def test_what_holds_anyway_may_be_said(name: str) -> None:
    for value in FIXED[name].values:
        assert translated({name: f" {value.upper()} "}, "") == {}
    with pytest.raises(
        ConfigError, match=re.escape(f"set {' or '.join(FIXED[name].values)}, or leave it out")
    ):
        translated({name: "2"}, "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"max.request.size": "5", "fetch.max.wait.ms": "7"},
            {"message.max.bytes": "5", "fetch.wait.max.ms": "7"},
        ),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
        ({"receive.buffer.bytes": "-1"}, {"socket.receive.buffer.bytes": "0"}),
        ({"max.request.size": "5", "message.max.bytes": "6"}, {"message.max.bytes": "6"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.truststore.certificates": "PEM"}, {"ssl.ca.pem": "PEM"}),
        (
            {"ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C", "ssl.keystore.type": "PEM"},
            {"ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="a b" password="x;\'=y";',
            },
            {"sasl.mechanism": "PLAIN", "sasl.username": "a b", "sasl.password": "x;'=y"},
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{SCRAM} required\n username=a\n password=b ;",
            },
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "a", "sasl.password": "b"},
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{BEARER} required clientId="c" clientSecret="s" scope="k" extension_pool="p";',
                "sasl.oauthbearer.token.endpoint.url": "https://i/t",
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "k",
                "sasl.oauthbearer.extensions": "pool=p",
                "sasl.oauthbearer.token.endpoint.url": "https://i/t",
            },
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{BEARER} required unsecuredLoginStringClaim_sub="alice";',
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=alice",
            },
        ),
    ],
)
def test_translations(given: dict[str, str], expected: dict[str, str]) -> None:
    assert translated(given, "") == expected
    assert all(map(known_to_librdkafka, expected))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"buffer.memory": "32m"}, "kafka.buffer.memory has the value '32m': a whole number of bytes"),
        (
            {"sasl.jaas.config": "secret"},
            r"kafka.sasl.jaas.config has the value '\*+': write it as Kafka does",
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="a;'},
            r"jaas.config has the value '\*+': write it",
        ),
        (
            {"sasl.jaas.config": f"{PLAIN} required username=a;", "sasl.mechanism": "PLAIN"},
            "it has no password; ",
        ),
        (
            {"sasl.jaas.config": f"{PLAIN} required username=a password=b;"},
            "kafka.sasl.mechanism is missing: set it to PLAIN, which sasl.jaas.config is for",
        ),
        (
            {"sasl.jaas.config": f"{SCRAM} required username=a password=b;", "sasl.mechanism": "PLAIN"},
            "kafka.sasl.mechanism has the value 'PLAIN': set it to SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"},
            "Kerberos is not built into the librdkafka",
        ),
        (
            {"sasl.login.callback.handler.class": "com.example.Mine"},
            "of Java's classes only org.apache.kafka",
        ),
        (
            {"ssl.keystore.key": "K"},
            "kafka.ssl.keystore.certificate.chain is missing: a key needs its certificate",
        ),
        (
            {"ssl.truststore.location": "/nowhere.p12"},
            "planned or the client is made: No such file",
        ),
    ],
)
def test_wrong_values(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translated(given, "kafka.")


def test_all_that_is_wrong_is_said_at_once() -> None:
    given = {
        "acks": "1",
        "max.block.ms": "5",
        "sasl.jaas.config": "x",
        "ssl.keystore.key": "K",
        "linger.ms": "5",
    }
    with pytest.raises(ConfigErrors) as caught:
        translated(given, "kafka.")
    assert [error.option for error in caught.value.errors] == [
        "kafka.acks",
        "kafka.max.block.ms",
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.certificate.chain",
    ]
    assert str(caught.value).startswith(
        "4 options are wrong:\n  kafka.acks has the value '1': transactions need"
    )


def test_librdkafka_judges_all_that_is_left() -> None:
    wrong = {
        "linger.ms": "soon",
        "compression.type": "zip",
        "fetch.min.bytes": "7",
        "ssl.keystore.location": "/x",
    }
    for client, complete in ((Consumer, consumer_properties), (Producer, client_properties)):
        with pytest.raises(ConfigErrors) as caught:
            check_properties(client, wrong, "option kafka.", complete)
        assert [error.option.removeprefix("option kafka.") for error in caught.value.errors] == [
            "linger.ms",
            "compression.type",
            "ssl.keystore.location",
        ]
        assert "ssl.keystore.password" in str(caught.value)


def test_a_client_that_only_judges_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    # As logging.config.dictConfig does to each logger that it is not told of.
    logging.getLogger("spark_ordered_kafka.librdkafka.judge").disabled = False
    for client in (Consumer, Producer):
        for _ in range(20):
            check_properties(client, nowhere)
    assert caplog.records == []


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Java's stores, made by its own tool: ``key`` and ``trust``, each as ``.jks`` and ``.p12``."""
    directory = tmp_path_factory.mktemp("stores")
    for kind in ("jks", "p12"):
        more = ["-storetype", {"jks": "JKS", "p12": "PKCS12"}[kind], "-storepass", "secret"]
        key, trust, pem = (directory / name for name in (f"key.{kind}", f"trust.{kind}", f"{kind}.pem"))
        keytool(
            "-genkeypair", "-keyalg", "RSA", "-dname", "CN=me", "-keystore", key, "-keypass", "secret", *more
        )
        keytool("-exportcert", "-rfc", "-file", pem, "-keystore", key, *more)
        keytool("-importcert", "-noprompt", "-alias", "ca", "-file", pem, "-keystore", trust, *more)
    return directory


def keytool(*arguments: str | Path) -> None:
    tool = Path(find_java()).with_name("keytool")
    command = [str(tool) if tool.exists() else "keytool", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, input="secret\nsecret\nsecret\n", text=True)


def test_a_truststore_becomes_text(stores: Path) -> None:
    location = str(stores / "trust.p12")
    for kind in ({}, {"ssl.truststore.type": "PKCS12"}, {"ssl.truststore.type": "JKS"}):
        given = {"ssl.truststore.location": location, "ssl.truststore.password": "secret", **kind}
        (found,) = translated(given, "").items()
        assert (found[0], found[1].split()) == ("ssl.ca.pem", (stores / "p12.pem").read_text().split())
    with pytest.raises(ConfigError, match=r"does not open with ssl\.truststore\.password"):
        translated({"ssl.truststore.location": location, "ssl.truststore.password": "wrong"}, "")
    pem = {"ssl.truststore.location": str(stores / "p12.pem"), "ssl.truststore.type": "PEM"}
    assert translated(pem, "")["ssl.ca.pem"].split() == (stores / "p12.pem").read_text().split()


def test_a_keystore_is_librdkafka_s_own(stores: Path) -> None:
    given = {"ssl.keystore.location": str(stores / "key.p12"), "ssl.keystore.password": "secret"}
    made = translated(given | {"ssl.keystore.type": "PKCS12", "security.protocol": "SSL"}, "")
    assert made == given | {"security.protocol": "SSL"}
    check_properties(Producer, made)


def test_jks_is_refused_with_a_command_that_converts_it(stores: Path) -> None:
    old = (stores / "trust.jks").rename(stores / "old.jks")
    with pytest.raises(ConfigError, match="only Java reads JKS") as caught:
        translated({"ssl.truststore.location": str(old)}, "")
    _, *command = shlex.split(str(caught.value).rpartition(": ")[2])
    keytool(*command)
    made = translated(
        {"ssl.truststore.location": str(old.with_suffix(".p12")), "ssl.truststore.password": "secret"}, ""
    )
    assert made["ssl.ca.pem"].split() == (stores / "jks.pem").read_text().split()
