"""Properties of connections to Kafka: which are taken, which are refused, and what the files must hold."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.security import checked, kafka_python_options, ssl_context

SERVERS = {"bootstrap.servers": "h1:9092, h2:9093"}
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hush"}
SASL = SERVERS | LOGIN | {"security.protocol": "SASL_PLAINTEXT"}


def test_a_string_is_the_servers() -> None:
    assert checked("h1:1,h2:2") == {"bootstrap.servers": "h1:1,h2:2", "security.protocol": "PLAINTEXT"}


def test_names_and_values_as_librdkafka_takes_them() -> None:
    given = SERVERS | {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "",
    }
    before = dict(given)
    properties = checked(given)
    assert given == before
    assert properties == {
        "bootstrap.servers": "h1:9092,h2:9093",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "",
    }
    assert checked(properties) == properties
    assert kafka_python_options(properties) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "",
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        ({"bootstrap.servers": "h1"}, "kafka.bootstrap.servers has the value 'h1'"),
        (
            SERVERS | {"group.id": "g"},
            "kafka.group.id has the value 'g': the controller knows bootstrap.servers, ",
        ),
        (SERVERS | {"ssl.keystore.password": "hush"}, r"kafka.ssl.keystore.password has the value '\*+'"),
        (
            SERVERS | {"security.protocol": "TLS"},
            "kafka.security.protocol has the value 'TLS': give PLAINTEXT, ",
        ),
        (
            SERVERS | LOGIN,
            "kafka.security.protocol has the value 'PLAINTEXT': with kafka.sasl.mechanism it must",
        ),
        (
            SERVERS | {"ssl.ca.location": "x"},
            "kafka.security.protocol has the value 'PLAINTEXT': with kafka.ssl.ca",
        ),
        (
            SASL | {"ssl.ca.location": "x"},
            "kafka.security.protocol has the value 'SASL_PLAINTEXT': with kafka.ssl",
        ),
        (SASL | {"sasl.mechanism": "GSSAPI"}, "kafka.sasl.mechanism has the value 'GSSAPI': give PLAIN, "),
        (SASL | {"sasl.mechanisms": "PLAIN "}, "kafka.sasl.mechanisms has the value 'PLAIN '"),
        (
            {name: value for name, value in SASL.items() if name != "sasl.mechanism"},
            "kafka.sasl.mechanism is missing",
        ),
        (
            {name: value for name, value in SASL.items() if name != "sasl.password"},
            "kafka.sasl.password is missing: sasl.mechanism PLAIN needs it",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.certificate.location": "c"},
            "kafka.ssl.key.location is missing: ssl.certificate.location needs it",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.key.location": "k"},
            "kafka.ssl.certificate.location is missing",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.key.password": "hush"},
            "kafka.ssl.key.location is missing: ssl.key.password needs it",
        ),
        (
            SERVERS | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "off"},
            "kafka.ssl.endpoint.identification.algorithm has the value 'off': give https or none",
        ),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{told}") as refused:
        checked(given)
    assert "hush" not in str(refused.value)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """An authority, a client's certificate and key, and what does not belong to them."""
    authority = trustme.CA()
    issued, other = authority.issue_cert("a@b"), authority.issue_cert("c@d")
    paths = {name: tmp_path / name for name in ("ca", "certificate", "key", "locked", "other", "text")}
    authority.cert_pem.write_to_path(paths["ca"])
    issued.cert_chain_pems[0].write_to_path(paths["certificate"])
    issued.private_key_pem.write_to_path(paths["key"])
    other.private_key_pem.write_to_path(paths["other"])
    locked = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")
    )
    paths["locked"].write_bytes(locked)
    paths["text"].write_text("no PEM")
    return {name: str(path) for name, path in paths.items()}


def test_a_context_checks_the_server_and_shows_the_client(files: dict[str, str]) -> None:
    own = {"ssl.certificate.location": files["certificate"], "ssl.key.location": files["locked"]}
    context = ssl_context({"ssl.ca.location": files["ca"], "ssl.key.password": "open sesame", **own})
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1, (
        "the authorities of the system are not trusted beside the given one"
    )
    anywhere = ssl_context({"ssl.endpoint.identification.algorithm": "none"})
    assert (anywhere.verify_mode, anywhere.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_a_context_takes_text_in_place_of_files(files: dict[str, str]) -> None:
    text = {name: Path(path).read_text() for name, path in files.items()}
    own = {"ssl.certificate.pem": text["certificate"], "ssl.key.password": "open sesame"}
    context = ssl_context({"ssl.ca.pem": text["ca"], "ssl.key.pem": text["locked"], **own})
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("ca", "key", "password", "told"),
    [
        ("text", "key", None, "x.ssl.ca.pem has the value"),
        ("ca", "other", None, "x.ssl.key.pem has the value .* give the key of ssl.certificate.pem"),
        ("ca", "text", None, "x.ssl.key.pem has the value"),
        ("ca", "locked", "hush", "x.ssl.key.password has the value .* does not open ssl.key.pem"),
        ("ca", "locked", None, "x.ssl.key.password has the value .* does not open ssl.key.pem"),
    ],
)
def test_text_that_cannot_be_used_is_named(
    ca: str, key: str, password: str | None, told: str, files: dict[str, str]
) -> None:
    text = {name: Path(path).read_text() for name, path in files.items()}
    given = {
        "ssl.ca.pem": text[ca],
        "ssl.certificate.pem": text["certificate"],
        "ssl.key.pem": text[key],
        "ssl.key.password": password,
    }
    with pytest.raises(ConfigError, match=f"^{told}") as refused:
        ssl_context({name: value for name, value in given.items() if value is not None}, "x.")
    assert "hush" not in str(refused.value)
    assert "-----" not in str(refused.value)


@pytest.mark.parametrize(
    ("ca", "certificate", "key", "password", "told"),
    [
        (
            "nowhere",
            None,
            None,
            None,
            "x.ssl.ca.location has the value 'nowhere': the file cannot be read: No such",
        ),
        (
            "text",
            None,
            None,
            None,
            "x.ssl.ca.location has the value '.*': give a file of certificates in PEM",
        ),
        (
            "ca",
            "nowhere",
            "key",
            None,
            "x.ssl.certificate.location has the value 'nowhere': the file cannot be read",
        ),
        (
            "ca",
            "certificate",
            "nowhere",
            None,
            "x.ssl.key.location has the value 'nowhere': the file cannot be read",
        ),
        ("ca", "text", "key", None, "x.ssl.certificate.location has the value '.*': give a certificate in"),
        (
            "ca",
            "certificate",
            "text",
            None,
            "x.ssl.key.location has the value '.*': give a key in PEM format",
        ),
        ("ca", "certificate", "other", None, "x.ssl.key.location has the value '.*': is not the key of"),
        ("ca", "certificate", "locked", None, "x.ssl.key.password is missing: does not open"),
        ("ca", "certificate", "locked", "hush", r"x.ssl.key.password has the value '\*+': does not open"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    ca: str,
    certificate: str | None,
    key: str | None,
    password: str | None,
    told: str,
    files: dict[str, str],
) -> None:
    given = {
        "ssl.ca.location": files.get(ca, ca),
        "ssl.certificate.location": None if certificate is None else files.get(certificate, certificate),
        "ssl.key.location": None if key is None else files.get(key, key),
        "ssl.key.password": password,
    }
    with pytest.raises(ConfigError, match=f"^{told}") as refused:
        ssl_context({name: value for name, value in given.items() if value is not None}, "x.")
    assert "hush" not in str(refused.value)
