"""What clients show to controllers: parsed alike everywhere, refused early, and never printed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from spark_ordered_kafka.client.options import consumer_options, producer_options
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.credentials import NAMES, ControllerCredentials, controller_credentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.spark.options import sink_options, source_options

HTTPS = "https://c1:8090,https://c2:8090"
BASIC = {"controller.username": "alice", "controller.password": "hunter2-hunter2"}
TLS = {
    "controller.ssl.ca.location": "/ca.pem",
    "controller.ssl.certificate.location": "/alice.pem",
    "controller.ssl.key.location": "/alice.key",
    "controller.ssl.key.password": "open-sesame",
}


PEM = "-----BEGIN CERTIFICATE-----\nTk9ORQ==\n-----END CERTIFICATE-----\n"
KEY_PEM = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"
TEXT = {
    "controller.ssl.ca.pem": PEM,
    "controller.ssl.certificate.pem": PEM,
    "controller.ssl.key.pem": KEY_PEM,
}


def of_source(given: dict[str, str]) -> Connection:
    options = {"kafka.bootstrap.servers": "h:1", "controller.url": HTTPS, "subscribe": "t"}
    return source_options(options | given).connection


def of_sink(given: dict[str, str]) -> Connection:
    return sink_options({"kafka.bootstrap.servers": "h:1", "controller.url": HTTPS} | given).connection


def of_producer(given: dict[str, str]) -> Connection:
    return producer_options({"bootstrap.servers": "h:1", "controller.url": HTTPS} | given).connection


def of_consumer(given: dict[str, str]) -> Connection:
    conf = {"bootstrap.servers": "h:1", "controller.url": HTTPS, "group.id": "g"}
    return consumer_options(conf | given).connection


PARSERS = [of_source, of_sink, of_producer, of_consumer]


@pytest.mark.parametrize("parse", PARSERS)
def test_all_clients_take_the_same_options(parse: Callable[[dict[str, str]], Connection]) -> None:
    connection = parse(BASIC | TLS)
    assert connection.credentials == ControllerCredentials(
        username="alice",
        password="hunter2-hunter2",
        ca_location="/ca.pem",
        certificate_location="/alice.pem",
        key_location="/alice.key",
        key_password="open-sesame",
    )
    assert connection.credentials.authorization == "Basic YWxpY2U6aHVudGVyMi1odW50ZXIy"
    assert not set(NAMES) & set(connection.kafka)
    by_token = parse({"controller.token": "t0ken"})
    assert by_token.credentials.authorization == "Bearer t0ken"
    assert len({connection, parse(BASIC | TLS), by_token}) == 2
    assert pickle.loads(pickle.dumps(connection)) == connection


@pytest.mark.parametrize("parse", PARSERS)
def test_secrets_are_never_shown(parse: Callable[[dict[str, str]], Connection]) -> None:
    for connection in map(parse, (BASIC | TLS, {"controller.token": "hunter2-hunter2"}, TEXT)):
        for text in (
            repr(connection),
            str(connection),
            repr(connection.credentials),
            connection.credentials.described,
        ):
            assert "hunter2" not in text
            assert "sesame" not in text


WRONG: list[tuple[dict[str, str], str]] = [
    ({"controller.username": "alice"}, r"controller\.password is missing: controller\.username needs it"),
    ({"controller.password": "hunter2"}, r"controller\.username is missing"),
    (BASIC | {"controller.token": "hunter2"}, r"controller\.token .*controller\.username is set too"),
    ({"controller.ssl.certificate.location": "/c"}, r"controller\.ssl\.key\.location is missing"),
    ({"controller.ssl.key.password": "hunter2"}, r"controller\.ssl\.key\.location is missing"),
    (BASIC | {"controller.username": "a:b"}, r"controller\.username .*colon"),
    ({"controller.token": "hunter2\r\nX-Evil: 1"}, r"controller\.token .*control characters"),
    ({"controller.token": "hunter2 "}, r"controller\.token"),
    (BASIC | {"controller.password": ""}, r"controller\.password"),
    (BASIC | {"controller.url": "http://c1:8090"}, r"controller\.url .*unencrypted"),
    (
        BASIC | {"controller.url": "https://c1:8090,http://c2:8090"},
        r"controller\.url .*http://c2.*unencrypted",
    ),
    (
        {"controller.token": "hunter2", "controller.url": "http://10.0.0.1:1"},
        r"controller\.url .*unencrypted",
    ),
    (TLS | {"controller.url": "http://localhost:1"}, r"controller\.url .*https is needed"),
    # A client of HTTP would send these instead of the token.
    (
        {"controller.token": "t", "controller.url": "https://alice:hunter2@c1:1"},
        r"controller\.url .*//\*+@c1",
    ),
    (TLS | {"controller.ssl.ca.pem": PEM}, r"controller\.ssl\.ca\.pem .*ca\.location is set too"),
    ({"controller.ssl.ca.pem": "/ca.pem"}, r"controller\.ssl\.ca\.pem .*not the path of a file"),
    ({"controller.ssl.ca.pem": PEM.replace("\n", "\\n")}, r"controller\.ssl\.ca\.pem .*line breaks"),
    ({"controller.ssl.key.pem": KEY_PEM}, r"controller\.ssl\.certificate\.pem is missing"),
    ({"controller.ssl.certificate.pem": PEM}, r"controller\.ssl\.key\.pem is missing"),
    (
        {"controller.ssl.certificate.pem": PEM, "controller.ssl.key.pem": "hunter2"},
        r"controller\.ssl\.key\.pem .*\*",
    ),
    ({"controller.ssl.ca.pem": PEM, "controller.url": "http://localhost:1"}, r"https is needed"),
    ({"controller.pasword": "hunter2"}, r"unknown option controller\.pasword"),
]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(("given", "message"), WRONG)
def test_what_is_wrong_is_named_without_its_secret(
    parse: Callable[[dict[str, str]], Connection], given: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as found:
        parse(given)
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:8090", "http://127.0.0.1:1", "http://[::1]:1", "HTTPS://c:1"]
)
def test_passwords_stay_on_this_machine_or_are_encrypted(url: str) -> None:
    assert controller_credentials(BASIC, url).username == "alice"


def test_unknown_options_are_still_librdkafkas_to_judge_and_secrets_masked() -> None:
    conf: dict[str, Any] = {
        "bootstrap.servers": "h:1",
        "controller.url": HTTPS,
        "ssl.key.passwort": "hunter2",
    }
    with pytest.raises(ConfigError, match="librdkafka"):
        producer_options(conf)
