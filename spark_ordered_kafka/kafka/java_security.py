"""Logins and certificates of Kafka's Java clients as librdkafka's properties: JAAS, and PEM and PKCS#12 stores.

A truststore is read where the query is planned and travels to the executors as text. Of a keystore librdkafka needs the
file on every executor, unless it is given inline as PEM (``ssl.keystore.key`` and ``ssl.keystore.certificate.chain``).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.parsing import HIDDEN, together

JAAS = "sasl.jaas.config"
HANDLER = "sasl.login.callback.handler.class"
ALGORITHM = "ssl.endpoint.identification.algorithm"
TRUSTSTORE = (
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
KEYSTORE = (
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.type",
)
MEANING: Mapping[str, str] = {
    JAAS: "`PlainLoginModule`: `sasl.username` and `sasl.password`; `ScramLoginModule`: the same;"
    " `OAuthBearerLoginModule`: `sasl.oauthbearer.client.id`, `.client.secret`, `.scope` and `.extensions`, or, with"
    " `unsecuredLoginStringClaim_sub`, an unsecured token",
    HANDLER: "Java's `OAuthBearerLoginCallbackHandler`: `sasl.oauthbearer.method=oidc`; any other class is refused",
    ALGORITHM: "the same; empty becomes `none`",
    "ssl.truststore.certificates": "`ssl.ca.pem`",
    "ssl.truststore.location": "`ssl.ca.pem`: PEM or PKCS#12, read where the query is planned, so that executors need no"
    " file; JKS is refused with the command that converts it",
    "ssl.truststore.password": "opens the PKCS#12",
    "ssl.truststore.type": "what the file is shows by itself",
    "ssl.keystore.certificate.chain": "`ssl.certificate.pem`",
    "ssl.keystore.key": "`ssl.key.pem`",
    "ssl.keystore.location": "PEM: `ssl.key.location` and `ssl.certificate.location`; PKCS#12: the same name. Every"
    " executor needs the file. JKS is refused with the command that converts it",
    "ssl.keystore.type": "what the file is shows by itself",
}
"""The properties that :func:`translated` looks at, with what becomes of each, in Markdown."""

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_JAAS_HINT = (
    'write it as Kafka does: org.apache.kafka.common.security.plain.PlainLoginModule required username="…"'
    ' password="…"; or with scram.ScramLoginModule or oauthbearer.OAuthBearerLoginModule in place of'
    " plain.PlainLoginModule"
)
_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_SUBJECT = "unsecuredLoginStringClaim_sub"
_EXTENSION = "extension_"
_TYPES = ("PEM", "PKCS12", "JKS")
_MAGIC = ((b"\xfe\xed\xfe\xed", "JKS"), (b"-----BEGIN", "PEM"), (b"\x30", "PKCS12"))


def translated(properties: Mapping[str, str], label: str) -> dict[str, str]:
    """What librdkafka needs in place of :data:`MEANING`; other properties are left out. ``label`` stands before names in
    messages.

    Raises ConfigError for all that are wrong at once.
    """
    found = together(
        {
            "login": lambda: _login(properties, label),
            "trust": lambda: _trust(properties, label),
            "keys": lambda: _keys(properties, label),
        }
    )
    algorithm = properties.get(ALGORITHM)
    # Empty is Java's way to leave names unchecked.
    checked = {} if algorithm is None else {ALGORITHM: algorithm.strip() or "none"}
    return checked | {name: value for part in found.values() for name, value in part.items()}


def _login(properties: Mapping[str, str], label: str) -> dict[str, str]:
    handler, jaas = properties.get(HANDLER), properties.get(JAAS)
    if handler is not None and handler not in _HANDLERS:
        hint = f"of Java's classes only {_HANDLERS[0]} has a counterpart here; leave it out"
        raise ConfigError(f"{label}{HANDLER}", handler, hint)
    if jaas is None:
        return {} if handler is None else {"sasl.oauthbearer.method": "oidc"}
    module, given = _parsed(jaas, label)
    mechanisms = _MODULES[module]
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms"))
    if mechanism not in mechanisms:
        hint = f"set it to {' or '.join(mechanisms)}, which {JAAS} is for"
        raise ConfigError(f"{label}sasl.mechanism", mechanism, hint)
    return _token(given, properties) if mechanism == "OAUTHBEARER" else _password(given, label)


def _parsed(jaas: str, label: str) -> tuple[str, dict[str, str]]:
    """The login module, and its options."""
    try:
        module, _, *options = shlex.split(jaas.strip().removesuffix(";"))
        given = dict(option.split("=", 1) for option in options)
    except ValueError as error:
        raise ConfigError(f"{label}{JAAS}", HIDDEN, _JAAS_HINT) from error
    if module.endswith("Krb5LoginModule"):
        hint = "Kerberos is not built into the librdkafka of confluent-kafka's wheels; log in another way"
        raise ConfigError(f"{label}{JAAS}", HIDDEN, hint)
    if module not in _MODULES:
        raise ConfigError(f"{label}{JAAS}", HIDDEN, _JAAS_HINT)
    return module, given


def _password(given: Mapping[str, str], label: str) -> dict[str, str]:
    missing = [name for name in ("username", "password") if name not in given]
    if missing:
        raise ConfigError(f"{label}{JAAS}", HIDDEN, f"it has no {' and no '.join(missing)}; {_JAAS_HINT}")
    return {"sasl.username": given["username"], "sasl.password": given["password"]}


def _token(given: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    if _SUBJECT in given:
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={given[_SUBJECT]}",
        }
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    found = {f"sasl.oauthbearer.{to}": given[name] for name, to in names.items() if name in given}
    extensions = [
        f"{name.removeprefix(_EXTENSION)}={value}"
        for name, value in given.items()
        if name.startswith(_EXTENSION)
    ]
    if extensions:
        found["sasl.oauthbearer.extensions"] = ",".join(extensions)
    return {"sasl.oauthbearer.method": "oidc"} | found


def _trust(properties: Mapping[str, str], label: str) -> dict[str, str]:
    inline, location, password, kind = (properties.get(name) for name in TRUSTSTORE)
    if inline is not None:
        return {"ssl.ca.pem": inline}
    if location is None:
        return {}
    option = f"{label}ssl.truststore.location"
    content = _content(option, location)
    if _kind(option, location, content, kind, label, "ssl.truststore.type") == "PEM":
        return {"ssl.ca.pem": content.decode("ascii", "replace")}
    return {"ssl.ca.pem": _certificates(option, location, content, password)}


def _keys(properties: Mapping[str, str], label: str) -> dict[str, str]:
    chain, key, location, kind = (properties.get(name) for name in KEYSTORE)
    if key is not None and chain is not None:
        return {"ssl.key.pem": key, "ssl.certificate.pem": chain}
    if key is not None or chain is not None:
        missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
        raise ConfigError(f"{label}{missing}", None, "a key needs its certificate, and a certificate its key")
    if location is None:
        return {}
    option = f"{label}ssl.keystore.location"
    content = _content(option, location)
    if _kind(option, location, content, kind, label, "ssl.keystore.type") == "PEM":
        return {"ssl.key.location": location, "ssl.certificate.location": location}
    return {"ssl.keystore.location": location}


def _content(option: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        hint = f"the file is read where the query is planned or the client is made: {error.strerror}"
        raise ConfigError(option, location, hint) from error


def _kind(option: str, location: str, content: bytes, given: str | None, label: str, type_option: str) -> str:
    """PEM or PKCS12: what the file is, since Java's own default, JKS, takes both of its formats."""
    if given is not None and given.upper() not in _TYPES:
        raise ConfigError(f"{label}{type_option}", given, f"one of {', '.join(_TYPES)}")
    found = next((kind for magic, kind in _MAGIC if content.lstrip().startswith(magic)), None)
    if found is None:
        raise ConfigError(option, location, "not a store: neither PEM nor PKCS#12")
    if found == "JKS":
        target = Path(location).with_suffix(".p12")
        command = (
            f"keytool -importkeystore -srckeystore {location} -destkeystore {target} -deststoretype PKCS12"
        )
        raise ConfigError(option, location, f"only Java reads JKS; convert it, and give that file: {command}")
    return found


def _certificates(option: str, location: str, content: bytes, password: str | None) -> str:
    # Not needed by those who have no such store, and installed with the extra `spark` for it.
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError as error:
        hint = "PKCS#12 is opened by a library that is not here: pip install cryptography, or give PEM"
        raise ConfigError(option, location, hint) from error

    try:
        store = load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        hint = f"its PKCS#12 does not open with ssl.truststore.password: {error}"
        raise ConfigError(option, location, hint) from error
    own = [] if store.cert is None else [store.cert]
    found = [one.certificate.public_bytes(Encoding.PEM).decode() for one in (*own, *store.additional_certs)]
    if not found:
        raise ConfigError(option, location, "it holds no certificate")
    return "".join(found)
