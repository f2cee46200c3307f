"""Proofs of who sends a request: passwords, tokens, certificates, and what becomes of wrong ones."""

from __future__ import annotations

import asyncio
import base64
import datetime
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from spark_ordered_kafka.controller.access import tokens
from spark_ordered_kafka.controller.access.authenticator import Authenticator, CredentialsError
from spark_ordered_kafka.controller.access.caller import kafka_address
from spark_ordered_kafka.controller.access.certificates import principal_of
from spark_ordered_kafka.controller.access.passwords import (
    ACCEPTED_TTL,
    REFUSED_TTL,
    PasswordProver,
    Throttle,
    kafka_login,
)
from spark_ordered_kafka.controller.access.tokens import TokenFile, hashed, new_token
from spark_ordered_kafka.controller.settings import AuthenticationSettings, TlsSettings
from spark_ordered_kafka.errors import ConfigError, UnavailableError
from tests.servers import TIMEOUT

# -- passwords --------------------------------------------------------------------------------------------------


class Logins:
    """What Kafka would say, and how often it is asked; time passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.users = {"alice": "secret"}
        self.away = False
        self.asked: list[str] = []
        self.now = 100.0
        self.slept = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.login: Callable[[str, str], bool] = self.judged
        self.prover = PasswordProver(
            lambda *given: self.login(*given), clock=lambda: self.now, sleep=self._sleep
        )

    def judged(self, username: str, password: str) -> bool:
        assert self.gate.wait(TIMEOUT)
        self.asked.append(username)
        if self.away:
            raise UnavailableError("no broker answers")
        return self.users.get(username) == password

    async def _sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds

    def proves(self, password: str, host: str = "h", username: str = "alice") -> bool:
        return asyncio.run(self.prover.proves(username, password, host))


def test_a_proof_is_kept_for_a_while_and_a_refusal_briefly() -> None:
    kafka = Logins()
    assert [kafka.proves("secret"), kafka.proves("secret"), kafka.proves("wrong"), kafka.proves("wrong")] == [
        True,
        True,
        False,
        False,
    ]
    assert len(kafka.asked) == 2
    kafka.users["alice"] = "wrong"
    kafka.now += REFUSED_TTL
    assert kafka.proves("wrong")
    assert kafka.proves("secret"), "still kept"
    kafka.now += ACCEPTED_TTL
    assert not kafka.proves("secret")


def test_name_and_password_are_not_mixed_up() -> None:
    kafka = Logins()
    kafka.users = {"al": "icesecret"}
    assert kafka.proves("icesecret", username="al")
    assert not kafka.proves("secret", username="alice")


def test_kafka_being_away_is_no_refusal_and_is_not_kept() -> None:
    kafka = Logins()
    kafka.away = True
    with pytest.raises(UnavailableError) as found:
        kafka.proves("secret")
    assert found.value.retriable
    kafka.away = False
    assert kafka.proves("secret")


def test_a_login_that_meets_a_bug_does_not_stay_pending() -> None:
    kafka = Logins()
    kafka.login = bug
    with pytest.raises(OSError, match="too many open files"):
        kafka.proves("secret")
    kafka.login = kafka.judged
    assert kafka.proves("secret")


def bug(_username: str, _password: str) -> bool:
    raise OSError("too many open files")


def test_those_who_ask_the_same_at_the_same_time_share_an_answer() -> None:
    kafka = Logins()
    kafka.gate.clear()

    async def all_at_once() -> list[bool]:
        asked = [asyncio.ensure_future(kafka.prover.proves("alice", "secret", f"h{n}")) for n in range(50)]
        asked[0].cancel()
        await asyncio.sleep(0)
        kafka.gate.set()
        return await asyncio.gather(*asked[1:])

    assert all(asyncio.run(all_at_once()))
    assert len(kafka.asked) == 1


def test_guessing_slows_down_and_only_for_the_host_that_guesses() -> None:
    kafka = Logins()
    for n in range(12):
        assert not kafka.proves(f"guess {n}")
    assert kafka.slept > 20
    slept = kafka.slept
    assert kafka.proves("secret", host="other")
    assert kafka.slept == slept


def test_a_throttle_gives_a_guessing_host_one_proof_in_five_seconds_at_last() -> None:
    throttle, now = Throttle(), 0.0
    for _ in range(20):
        throttle.failed("h", now)
    first = throttle.reserve("h", now)
    second = throttle.reserve("h", now)
    assert (first, second) == (5.0, 10.0)
    with pytest.raises(UnavailableError, match="too many failed"):
        throttle.reserve("h", now)
    assert throttle.reserve("other", now) == now
    assert throttle.reserve("h", now + 60.0) == now + 60.0


def test_passwords_can_only_be_proven_over_sasl() -> None:
    with pytest.raises(
        ConfigError, match=r"kafka\.security\.protocol must be SASL_SSL or SASL_PLAINTEXT.*is SSL"
    ):
        kafka_login({"bootstrap.servers": "h:1", "security.protocol": "SSL"}, "PLAIN", 1.0)


# -- tokens -----------------------------------------------------------------------------------------------------


def test_a_token_is_known_by_its_hash(tmp_path: Path) -> None:
    token, path = new_token(), tmp_path / "tokens"
    long = f"sha512:{hashlib.sha512(b'x' * 40).hexdigest()} User:CN=b, O=c"
    path.write_text(f"# tokens\n\n{hashed(token, 'User:a')}\n  {long}  \n")
    file = TokenFile(str(path))
    assert file.principal_of(token) == "User:a"
    assert file.principal_of("x" * 40) == "User:CN=b, O=c"
    assert file.principal_of(token[:-1]) is None
    assert file.principal_of(str(hashed(token, "User:a")).split()[0]) is None


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token, other, path = new_token(), new_token(), tmp_path / "tokens"
    path.write_text(f"{hashed(token, 'User:a')}\n")
    file = TokenFile(str(path))
    assert file.principal_of(token) == "User:a"
    replacement = tmp_path / "new"
    replacement.write_text(f"{hashed(other, 'User:b')}\n")
    os.replace(replacement, path)
    assert (file.principal_of(token), file.principal_of(other)) == (None, "User:b")


def test_a_token_file_that_broke_lets_nobody_in_and_blames_nobody(tmp_path: Path) -> None:
    token, path = new_token(), tmp_path / "tokens"
    path.write_text(f"{hashed(token, 'User:a')}\n")
    file = TokenFile(str(path))
    path.write_text(f"{hashed(token, 'User:a')}\nhalf a li")
    with pytest.raises(UnavailableError, match=r"authentication\.tokens\.file"):
        file.principal_of(token)
    path.unlink()
    with pytest.raises(UnavailableError):
        file.principal_of(token)
    path.write_text(f"{hashed(token, 'User:a')}\n")
    assert file.principal_of(token) == "User:a"


@pytest.mark.parametrize(
    "line",
    [
        "the-token-itself",
        "User:a sha256:00",
        "sha256:00 User:a",
        f"md5:{'0' * 32} User:a",
        f"sha256:{'0' * 64} alice",
        f"sha256:{'0' * 64}",
    ],
)
def test_a_wrong_line_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(ConfigError, match=r"tokens\.file: line 2") as found:
        tokens.parse(f"# first\n{line}\n")
    assert line not in str(found.value)


@pytest.mark.parametrize(
    ("token", "principal"), [("short", "User:a"), ("x" * 40 + " ", "User:a"), ("x" * 40, "a")]
)
def test_what_cannot_be_a_token_or_principal_is_refused(token: str, principal: str) -> None:
    with pytest.raises(ConfigError) as found:
        hashed(token, principal)
    assert token not in str(found.value)


# -- certificates -----------------------------------------------------------------------------------------------


def certificate(*attributes: x509.NameAttribute[str]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(list(attributes))
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, start, start + datetime.timedelta(days=1)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_principals_are_written_as_kafka_writes_them() -> None:
    # What java.security.cert.X509Certificate.getSubjectX500Principal().getName() prints for the same subjects.
    plain = certificate(
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc."),
        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "a+b"),
        x509.NameAttribute(NameOID.COMMON_NAME, "alice=1"),
    )
    assert principal_of(plain) == r"User:CN=alice\=1,OU=a\+b,O=Example\, Inc.,C=DE"
    mail = certificate(
        x509.NameAttribute(NameOID.COMMON_NAME, "bob"), x509.NameAttribute(NameOID.EMAIL_ADDRESS, "b@c.d")
    )
    assert principal_of(mail) == "User:1.2.840.113549.1.9.1=#16056240632e64,CN=bob"


def test_an_empty_subject_names_nobody() -> None:
    with pytest.raises(ValueError, match="empty"):
        principal_of(certificate())
    with pytest.raises(ValueError, match="cannot be printed"):
        principal_of(certificate(x509.NameAttribute(NameOID.COMMON_NAME, "alice\u202eevil")))
    with pytest.raises(ValueError, match="asn1"):
        principal_of(b"no certificate")


# -- requests ---------------------------------------------------------------------------------------------------


@pytest.fixture
def token_only(tmp_path: Path) -> tuple[Authenticator, str]:
    token, path = new_token(), tmp_path / "tokens"
    path.write_text(f"{hashed(token, 'User:a')}\n")
    tls = TlsSettings("c", "k", ca_location="ca", client_auth="requested")
    settings = AuthenticationSettings(required=True, tokens_file=str(path))
    return Authenticator(settings, tls, {"bootstrap.servers": "h:1"}, 1.0), token


def test_a_header_wins_over_a_certificate(token_only: tuple[Authenticator, str]) -> None:
    authenticator, token = token_only

    def found(authorization: str | None, peer: str | None) -> str | None:
        return asyncio.run(authenticator.principal(authorization, peer, "h"))

    assert found(f"Bearer {token}", "User:CN=b") == "User:a"
    assert found(f"bearer {token}", None) == "User:a"
    assert found(None, "User:CN=b") == "User:CN=b"
    assert found(None, None) is None
    with pytest.raises(CredentialsError):
        found("Bearer wrong", "User:CN=b")
    assert "Bearer" in authenticator.challenge
    assert "Basic" not in authenticator.challenge


def basic(text: bytes) -> str:
    return f"Basic {base64.b64encode(text).decode()}"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ???",
        "Bearer",
        "Negotiate abc",
        basic(b"alice"),
        basic(b":secret"),
        basic(b"alice:"),
        basic(b"\xff\xfe:x"),
        basic(b"alice\x00bob:secret"),
        basic(b"alice:sec\x00ret"),
        basic("al\x9b2Jice:secret".encode()),
        basic("\u202eecila:secret".encode()),
        f"Bearer {'x' * 5000}",
    ],
)
def test_malformed_credentials_are_refused_without_asking_kafka(tmp_path: Path, header: str) -> None:
    path = tmp_path / "tokens"
    path.touch()
    settings = AuthenticationSettings(required=True, kafka_mechanism="PLAIN", tokens_file=str(path))
    # Nobody listens there: whoever asks gets another error.
    kafka = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}
    authenticator = Authenticator(settings, None, kafka, 1.0)
    with pytest.raises(CredentialsError):
        asyncio.run(authenticator.principal(header, None, "h"))
    authenticator.close()


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),  # of a socket bound to ::
        ("2001:db8::1", "2001:db8:0:0:0:0:0:1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_addresses_are_written_as_in_kafkas_acls(address: str, written: str) -> None:
    assert kafka_address(address) == written
