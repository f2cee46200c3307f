"""Credentials of clients at the controllers: a user's password or a token, and TLS. Parsed once, secrets never shown."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import check_together, is_loopback, shown, url_parts

PREFIX: Final = "controller."
URL: Final = "controller.url"
USERNAME: Final = "controller.username"
PASSWORD: Final = "controller.password"
TOKEN: Final = "controller.token"
SSL_CA: Final = "controller.ssl.ca.location"
SSL_CERTIFICATE: Final = "controller.ssl.certificate.location"
SSL_KEY: Final = "controller.ssl.key.location"
SSL_KEY_PASSWORD: Final = "controller.ssl.key.password"
SSL_CA_PEM: Final = "controller.ssl.ca.pem"
SSL_CERTIFICATE_PEM: Final = "controller.ssl.certificate.pem"
SSL_KEY_PEM: Final = "controller.ssl.key.pem"

# Each in the form of a file, and in that of its text.
_FORMS: Final = ((SSL_CA, SSL_CA_PEM), (SSL_CERTIFICATE, SSL_CERTIFICATE_PEM), (SSL_KEY, SSL_KEY_PEM))
_PEM: Final = {
    SSL_CA_PEM: re.compile(r"^-----BEGIN CERTIFICATE-----\s*$", re.MULTILINE),
    SSL_CERTIFICATE_PEM: re.compile(r"^-----BEGIN CERTIFICATE-----\s*$", re.MULTILINE),
    SSL_KEY_PEM: re.compile(r"^-----BEGIN [A-Z ]*PRIVATE KEY-----\s*$", re.MULTILINE),
}
_SSL: Final = (SSL_CA, SSL_CERTIFICATE, SSL_KEY, SSL_KEY_PASSWORD, *_PEM)
NAMES: Final[tuple[str, ...]] = (USERNAME, PASSWORD, TOKEN, *_SSL)
"""Options of every client of the controllers, besides :data:`URL`."""

_LONGEST_SHOWN: Final = 40
# Half a surrogate pair has no bytes to send.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
# What a header can hold (RFC 6750, section 2.1).
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True)
class ControllerCredentials:
    """A client's credentials, and how it verifies the controller. Hashable; ``str`` and ``repr`` show no secret.

    Attributes:
        username: of a user of Kafka, with ``password``; HTTP Basic.
        token: a bearer token.
        ca_location: PEM file of the authorities that signed the controllers' certificates; None: the system's.
        certificate_location: PEM file of the client's own certificate, with ``key_location``, for mutual TLS.
        key_password: of the key's file, or of ``key_pem``.
        ca_pem, certificate_pem, key_pem: the text of such files, in place of their paths.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)

    @property
    def authorization(self) -> str | None:
        """The header ``Authorization``; None: there is none to send."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.username is None:
            return None
        pair = f"{self.username}:{self.password or ''}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    @property
    def described(self) -> str:
        """The option whose value a controller that answers 401 does not accept."""
        if self.token is not None:
            return TOKEN
        if self.username is not None:
            return f"{USERNAME} {self.username!r} with {PASSWORD}"
        name, value = self.own_certificate
        if value is not None:
            return f"{name} {value!r}"
        return f"a request without credentials; set {USERNAME} and {PASSWORD}, {TOKEN} or {SSL_CERTIFICATE}"

    @property
    def authorities(self) -> tuple[str, str | None]:
        """The option that names them, and its value as it may be shown."""
        return (SSL_CA, self.ca_location) if self.ca_pem is None else (SSL_CA_PEM, _beginning(self.ca_pem))

    @property
    def own_certificate(self) -> tuple[str, str | None]:
        """The option that names it, and its value as it may be shown."""
        if self.certificate_pem is None:
            return SSL_CERTIFICATE, self.certificate_location
        return SSL_CERTIFICATE_PEM, _beginning(self.certificate_pem)

    @property
    def ssl_properties(self) -> dict[str, str]:
        """The files, or their text, by the names that librdkafka has for them."""
        given = {
            "ssl.ca.location": self.ca_location,
            "ssl.certificate.location": self.certificate_location,
            "ssl.key.location": self.key_location,
            "ssl.key.password": self.key_password,
            "ssl.ca.pem": self.ca_pem,
            "ssl.certificate.pem": self.certificate_pem,
            "ssl.key.pem": self.key_pem,
        }
        return {name: value for name, value in given.items() if value is not None}


NO_CREDENTIALS: Final = ControllerCredentials()


def controller_credentials(given: Mapping[str, str], urls: str, label: str = "") -> ControllerCredentials:
    """The credentials of a client.

    Args:
        given: values by option (:data:`NAMES`), without options that are not set.
        urls: ``controller.url``, checked before.
        label: stands before an option's name in messages.

    Raises:
        ConfigError: a value is wrong, two do not fit together, or secrets would go over the network unprotected.
    """

    def wrong(name: str, expected: str) -> ConfigError:
        value = given.get(name)
        known = _beginning(value) if name in _PEM and value is not None else value
        return ConfigError(f"{label}{name}", shown(name, known), expected)

    for name, value in given.items():
        if name in _PEM:
            if _PEM[name].search(value) is None:
                what = "a key" if name == SSL_KEY_PEM else "certificates"
                raise wrong(
                    name, f"give {what} in PEM format, with its line breaks, and not the path of a file"
                )
        elif not value or _CONTROL.search(value) is not None:
            raise wrong(name, "text without control characters is needed")
    if TOKEN in given and USERNAME in given:
        raise wrong(TOKEN, f"{USERNAME} is set too; give one of them")
    for location, pem in _FORMS:
        if location in given and pem in given:
            raise wrong(pem, f"{location} is set too; give one of them")
    pairs = ((USERNAME, PASSWORD), (SSL_CERTIFICATE, SSL_KEY), (SSL_CERTIFICATE_PEM, SSL_KEY_PEM))
    check_together(given, *pairs, label=label)
    if SSL_KEY_PASSWORD in given and not {SSL_KEY, SSL_KEY_PEM} & set(given):
        raise wrong(SSL_KEY, f"{SSL_KEY_PASSWORD} needs it")
    if ":" in given.get(USERNAME, ""):
        raise wrong(USERNAME, "HTTP Basic takes no name with a colon")
    if TOKEN in given and _TOKEN.fullmatch(given[TOKEN]) is None:
        raise wrong(TOKEN, "the characters a-z A-Z 0-9 . _ ~ + / - are allowed")
    _check_protected(given, urls, label)
    return ControllerCredentials(
        username=given.get(USERNAME),
        password=given.get(PASSWORD),
        token=given.get(TOKEN),
        ca_location=given.get(SSL_CA),
        certificate_location=given.get(SSL_CERTIFICATE),
        key_location=given.get(SSL_KEY),
        key_password=given.get(SSL_KEY_PASSWORD),
        ca_pem=given.get(SSL_CA_PEM),
        certificate_pem=given.get(SSL_CERTIFICATE_PEM),
        key_pem=given.get(SSL_KEY_PEM),
    )


def _beginning(pem: str) -> str:
    line = pem.strip().partition("\n")[0].strip()
    return f"{line[:_LONGEST_SHOWN]}..."


def _check_protected(given: Mapping[str, str], urls: str, label: str) -> None:
    for url in urls.split(","):
        scheme, host = url_parts(url)
        if scheme == "https":
            continue
        secret = next((name for name in (PASSWORD, TOKEN) if name in given), None)
        if secret is not None and not is_loopback(host):
            hint = f"{secret} would go there unencrypted: https is needed, or a loopback address"
            raise ConfigError(f"{label}{URL}", url.strip(), hint)
    # Unused without an https address (D-149).
    if not any(url_parts(url)[0] == "https" for url in urls.split(",")):
        for name in _SSL:
            if name in given:
                raise ConfigError(f"{label}{URL}", urls, f"{name} is set: https is needed for it")
