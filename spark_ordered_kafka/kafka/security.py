"""How the controller's connections to Kafka are secured: librdkafka's properties, checked once, and translated for kafka-python."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeGuard

from spark_ordered_kafka import parsing
from spark_ordered_kafka.errors import ConfigError, ErrorCode, OrderedKafkaError, RequestError

PREFIX = parsing.KAFKA_PREFIX
"""Before these names wherever a user writes them: options, ``controller.toml``, error messages."""

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_IDENTIFICATION: Final = ("https", "none")

_PASSWORD = ("sasl.username", "sasl.password")
_TOKEN = tuple(
    f"sasl.oauthbearer.{name}" for name in ("method", "client.id", "client.secret", "token.endpoint.url")
)
_TOKEN_OPTIONAL = ("sasl.oauthbearer.scope", "https.ca.location")
LOGIN: Final = ("sasl.mechanism", *_PASSWORD, *_TOKEN, *_TOKEN_OPTIONAL)
"""What says who logs in, and how."""
_SSL = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
_NAMES = ("bootstrap.servers", "security.protocol", *LOGIN, *_SSL)

_PROBE_TIMEOUT = 2.0

# OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH.
_OTHER_HOST = frozenset({62, 64})


def checked(properties: Mapping[str, str] | str) -> dict[str, str]:
    """The properties of a connection to Kafka, each known and right, with ``security.protocol`` always set.

    Args:
        properties: librdkafka's names; a string is taken for ``bootstrap.servers`` alone. ``sasl.mechanisms`` is another
            name of ``sasl.mechanism``.

    Raises:
        ConfigError: a name or a value is wrong, or two do not fit together; it names ``kafka.<property>``.
    """
    given = {"bootstrap.servers": properties} if isinstance(properties, str) else dict(properties)
    mechanisms = given.pop("sasl.mechanisms", None)
    if mechanisms is not None and given.setdefault("sasl.mechanism", mechanisms) != mechanisms:
        raise _wrong(
            "sasl.mechanisms",
            mechanisms,
            f"sasl.mechanism says {given['sasl.mechanism']!r}; give one of them",
        )
    names = {name: partial(_check_name, name, value) for name, value in given.items()}
    servers = partial(_servers, given.get("bootstrap.servers"))
    found = given | parsing.together({"bootstrap.servers": servers}, *names.values())
    found["security.protocol"] = _one_of(found, "security.protocol", PROTOCOLS, "PLAINTEXT").upper()
    if "sasl.mechanism" in found:
        found["sasl.mechanism"] = found["sasl.mechanism"].upper()
    _check_sasl(found)
    _check_ssl(found)
    return found


def _check_name(name: str, value: str) -> None:
    if name not in _NAMES:
        raise _wrong(name, parsing.shown(name, value, _NAMES), f"the controller knows {', '.join(_NAMES)}")
    parsing.checked_text(f"{PREFIX}{name}", value)


def _servers(value: str | None) -> str:
    if value is None:
        raise _wrong("bootstrap.servers", None, parsing.SERVERS_HINT)
    return parsing.servers(f"{PREFIX}bootstrap.servers", value)


def kafka_python_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What :func:`checked` returned as arguments of kafka-python's clients, without ``bootstrap_servers`` and tokens.

    Raises:
        ConfigError: a certificate or a key cannot be used.
    """
    options: dict[str, Any] = {"security_protocol": properties["security.protocol"]}
    if _uses_ssl(properties):
        options["ssl_context"] = ssl_context(properties)
    if _uses_sasl(properties):
        options["sasl_mechanism"] = properties["sasl.mechanism"]
    if _uses_sasl(properties) and not uses_tokens(properties):
        options["sasl_plain_username"] = properties["sasl.username"]
        options["sasl_plain_password"] = properties["sasl.password"]
    return options


def uses_tokens(properties: Mapping[str, str]) -> bool:
    """Whether the login is by OAUTHBEARER, for which kafka-python needs a provider of tokens as well."""
    return properties.get("sasl.mechanism") == "OAUTHBEARER"


def ssl_context(properties: Mapping[str, str], prefix: str = PREFIX) -> ssl.SSLContext:
    """A context for TLS 1.2 or newer that checks the server's certificate and shows the client's own, if there is one.

    ``prefix`` stands before the names in error messages.

    Raises:
        ConfigError: a file cannot be read or used; it names the property.
    """
    context = _context()
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") == "https"
    ca, ca_pem = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    if ca is not None:
        load_authorities(context, ca, prefix)
    elif ca_pem is not None:
        _load_authorities_pem(context, ca_pem, prefix)
    else:
        context.load_default_certs()
    password = properties.get("ssl.key.password")
    certificate, key = properties.get("ssl.certificate.location"), properties.get("ssl.key.location")
    if certificate is not None and key is not None:
        load_own(context, certificate, key, password, prefix)
    certificate, key = properties.get("ssl.certificate.pem"), properties.get("ssl.key.pem")
    if certificate is not None and key is not None:
        _load_own_pem(context, certificate, key, password, prefix)
    return context


def issuer_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The context for requests to an issuer of tokens: trusts ``https.ca.location``, or else the system's authorities.

    Raises:
        ConfigError: the file cannot be read or used.
    """
    context, ca = _context(), properties.get("https.ca.location")
    if ca is None:
        context.load_default_certs()
    else:
        load_authorities(context, ca, PREFIX, "https.ca.location")
    return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def refusal(error: BaseException, properties: Mapping[str, str]) -> OrderedKafkaError | None:
    """The error that says which property a broker did not accept; None where another attempt may go better.

    Args:
        error: why kafka-python has lost a connection, or could not open it.
        properties: of the connection.
    """
    # Here, since clients of the controllers need this module for TLS only.
    from kafka import errors as kafka_errors

    if isinstance(error, ConfigError | RequestError):
        return error
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        name, secret = _PASSWORD if not uses_tokens(properties) else _TOKEN[1:3]
        what = "this user" if not uses_tokens(properties) else "the token of this client"
        return RequestError(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"{PREFIX}{name} has the value {properties.get(name)!r}: Kafka refuses {what} or {PREFIX}{secret} by "
            f"{properties.get('sasl.mechanism')} ({', '.join(map(str, error.args))})",
        )
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return _wrong(
            "sasl.mechanism", properties.get("sasl.mechanism"), "the broker's listener does not offer it"
        )
    if isinstance(error, kafka_errors.IllegalSaslStateError):
        protocol = properties["security.protocol"]
        hint = f"the broker's listener knows no SASL; it may be {protocol.removeprefix('SASL_')}"
        return _wrong("security.protocol", protocol, hint)
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            if is_other_host(cause):
                hint = f"{cause.verify_message}: connect by a name in the broker's certificate, or set it to none"
                return _wrong("ssl.endpoint.identification.algorithm", "https", hint)
            if "WRONG_VERSION_NUMBER" in _reason(cause):
                hint = "the broker's listener speaks no TLS"
                return _wrong("security.protocol", properties["security.protocol"], hint)
            own = properties.get("ssl.certificate.location")
            return certificate_refusal(cause, PREFIX, properties.get("ssl.ca.location"), own)
    return None


def is_other_host(error: ssl.SSLError) -> TypeGuard[ssl.SSLCertVerificationError]:
    """Whether the server's certificate is trusted, but is another host's."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OTHER_HOST


def certificate_refusal(
    error: ssl.SSLError, prefix: str, ca: str | None, certificate: str | None
) -> ConfigError | None:
    """The error that says which side's certificate the other side did not accept; None where it is something else.

    Args:
        error: why a TLS connection was not made.
        prefix: before ``ssl.ca.location`` and ``ssl.certificate.location`` in the message.
        ca: value of the first.
        certificate: value of the second.
    """
    reason = _reason(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = f"give the authority that signed the server's certificate ({error.verify_message})"
        return ConfigError(f"{prefix}ssl.ca.location", ca, hint)
    if "ALERT" in reason:
        hint = f"the server refused the TLS connection ({reason}): give a certificate that it trusts"
        return ConfigError(f"{prefix}ssl.certificate.location", certificate, hint)
    return None


def speaks_tls(host: str, port: int) -> bool:
    """Whether a server answers a TLS handshake; its certificate is not checked (D-150)."""
    # Nothing is sent over the connection, so it need not be trusted.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _PROBE_TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in _reason(error)
    except OSError:
        return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """What an error of kafka-python was made from: it chains some and hands over others as an argument."""
    while error is not None:
        yield error
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        error = inner or error.__cause__ or error.__context__


def _check_sasl(given: Mapping[str, str]) -> None:
    if not _uses_sasl(given):
        _refuse_unused(given, LOGIN, "SASL_SSL or SASL_PLAINTEXT")
        return
    mechanism = _one_of(given, "sasl.mechanism", MECHANISMS, None)
    with_tokens = uses_tokens(given)
    for name in _TOKEN if with_tokens else _PASSWORD:
        if given.get(name) is None:
            raise _wrong(name, None, f"sasl.mechanism {mechanism} needs it")
    for name in _PASSWORD if with_tokens else (*_TOKEN, *_TOKEN_OPTIONAL):
        if name in given:
            hint = f"with {PREFIX}{name} it must be {'another one' if with_tokens else 'OAUTHBEARER'}"
            raise _wrong("sasl.mechanism", mechanism, hint)
    if with_tokens:
        _one_of(given, "sasl.oauthbearer.method", ("oidc",), None)
        url = given["sasl.oauthbearer.token.endpoint.url"]
        if not parsing.is_http_url(url):
            raise _wrong("sasl.oauthbearer.token.endpoint.url", url, "give the issuer's, https://HOST/PATH")


def _check_ssl(given: Mapping[str, str]) -> None:
    if not _uses_ssl(given):
        _refuse_unused(given, _SSL, "SSL or SASL_SSL")
        return
    _one_of(given, "ssl.endpoint.identification.algorithm", _IDENTIFICATION, "https")
    parsing.check_together(given, ("ssl.certificate.location", "ssl.key.location"), label=PREFIX)
    if "ssl.key.password" in given and "ssl.key.location" not in given:
        raise _wrong("ssl.key.location", None, "ssl.key.password needs it")


def _refuse_unused(given: Mapping[str, str], names: tuple[str, ...], protocols: str) -> None:
    # librdkafka would ignore them (D-149).
    for name in names:
        if name in given:
            protocol = given["security.protocol"]
            raise _wrong("security.protocol", protocol, f"with {PREFIX}{name} it must be {protocols}")


def _one_of(given: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str | None) -> str:
    value = given.get(name, default)
    if value is None or value.upper() not in [one.upper() for one in allowed]:
        raise _wrong(name, value, "give " + " or ".join(filter(None, (", ".join(allowed[:-1]), allowed[-1]))))
    return value


def _uses_ssl(properties: Mapping[str, str]) -> bool:
    return properties["security.protocol"] in ("SSL", "SASL_SSL")


def _uses_sasl(properties: Mapping[str, str]) -> bool:
    return properties["security.protocol"].startswith("SASL_")


def load_authorities(context: ssl.SSLContext, ca: str, prefix: str, name: str = "ssl.ca.location") -> None:
    """Trust the certificates of a PEM file; raises ConfigError naming ``<prefix><name>``."""
    try:
        context.load_verify_locations(cafile=_readable(f"{prefix}{name}", ca))
    except ssl.SSLError as error:
        hint = f"give a file of certificates in PEM format ({_reason(error)})"
        raise ConfigError(f"{prefix}{name}", ca, hint) from error


def load_own(context: ssl.SSLContext, certificate: str, key: str, password: str | None, prefix: str) -> None:
    """Show a certificate of one's own; raises ConfigError naming the property whose file cannot be used."""
    _readable(f"{prefix}ssl.certificate.location", certificate)
    _readable(f"{prefix}ssl.key.location", key)
    try:
        # Given a password OpenSSL never asks at the terminal.
        context.load_cert_chain(certificate, key, password=password or "")
    except ssl.SSLError as error:
        # OpenSSL says little more than that it failed.
        if "MISMATCH" in _reason(error):
            hint = f"is not the key of the certificate {certificate}"
            raise ConfigError(f"{prefix}ssl.key.location", key, hint) from error
        if b"-----BEGIN CERTIFICATE-----" not in Path(certificate).read_bytes():
            hint = "give a certificate in PEM format"
            raise ConfigError(f"{prefix}ssl.certificate.location", certificate, hint) from error
        if b"ENCRYPTED" in Path(key).read_bytes():
            name = f"{prefix}ssl.key.password"
            raise ConfigError(name, parsing.shown(name, password), f"does not open {key}") from error
        hint = f"give a key in PEM format ({_reason(error)})"
        raise ConfigError(f"{prefix}ssl.key.location", key, hint) from error


def _load_authorities_pem(context: ssl.SSLContext, pem: str, prefix: str) -> None:
    try:
        context.load_verify_locations(cadata=pem)
    # Of text that is not ASCII: ValueError.
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{prefix}ssl.ca.pem", parsing.HIDDEN, "give certificates in PEM format") from error


def _load_own_pem(
    context: ssl.SSLContext, certificate: str, key: str, password: str | None, prefix: str
) -> None:
    """As :func:`load_own`. Python's ssl takes files only: this one is in memory, and no other process sees it."""
    descriptor = os.memfd_create("certificate")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(f"{certificate}\n{key}\n".encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password or "")
    except ssl.SSLError as error:
        name, hint = "key.pem", f"give the key of ssl.certificate.pem, both in PEM format ({_reason(error)})"
        if "ENCRYPTED" in key and "MISMATCH" not in _reason(error):
            name, hint = "key.password", "does not open ssl.key.pem"
        raise ConfigError(f"{prefix}ssl.{name}", parsing.HIDDEN, hint) from error
    finally:
        os.close(descriptor)


def _readable(name: str, path: str) -> str:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise ConfigError(name, path, f"the file cannot be read: {error.strerror}") from error
    return path


def _reason(error: ssl.SSLError) -> str:
    return error.reason or str(error)


def _wrong(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{PREFIX}{name}", value, expected)
