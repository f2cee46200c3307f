"""Secrets among the options of source and sink: known by their names, and never shown."""

import re

import pytest

from spark_ordered_kafka.config import Connection, masked
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.spark.options import source_options
from tests.spark.test_options import SOURCE

# Those of librdkafka 2.16 whose values prove somebody's identity, or may.
SECRETS = [
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl_key",
    "ssl.keystore.password",
]


@pytest.mark.parametrize(
    "name", [*SECRETS, "controller.password", "controller.token", "controller.ssl.key.password"]
)
def test_a_secret_is_known_by_its_name_however_that_is_written(name: str) -> None:
    words = re.split(r"[._]", name)
    written = (
        *(name, name.upper(), "_".join(words), "-".join(words)),
        words[0] + "".join(word.capitalize() for word in words[1:]),
    )
    for one in written:
        for prefix in ("", "kafka.", "KAFKA_", "kafka"):
            assert masked({prefix + one: "hush"}) == {prefix + one: "********"}, one


def test_what_is_no_secret_is_shown() -> None:
    plain = {
        "bootstrap.servers": "h:1",
        "client.id": "c",
        "sasl.username": "u",
        "sasl.mechanism": "PLAIN",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca",
        "ssl.ca.pem": "-----BEGIN CERTIFICATE-----",
        "ssl.certificate.location": "/c",
        "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----",
        "ssl.key.location": "/k",
        "ssl.keystore.location": "/k",
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.scope": "s",
        "key.deserializer": "d",
    }
    assert masked(plain) == plain


@pytest.mark.parametrize("name", ["controllerToken", "controller.pasword", "ssl.key.pasword"])
def test_the_value_of_a_misspelt_secret_is_not_shown(name: str) -> None:
    with pytest.raises(ConfigError) as found:
        source_options({**SOURCE, name: "hush"})

    assert "hush" not in str(found.value)


def test_secrets_are_masked() -> None:
    assert masked({"sasl.password": "p", "client.id": "c"}) == {"sasl.password": "********", "client.id": "c"}
    connection = Connection({"bootstrap.servers": "h:1", "ssl.key.password": "hush"}, "http://c")
    assert "hush" not in str(connection) + repr(connection)
