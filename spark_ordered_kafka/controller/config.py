"""The controller's configuration file: TOML with Kafka-style dotted names, checked whole before anything starts.

``[zookeeper]`` and ``connect = …`` below it is the same as ``zookeeper.connect = …``. In any text ``${env:NAME}`` stands
for an environment variable and ``${file:/path}`` for what a file holds, without the line break at its end: so secrets
need not be in the file itself (the names are those of Kafka's ``EnvVarConfigProvider`` and ``FileConfigProvider``).
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    ControllerSettings,
    ReassignSettings,
    Timing,
    TlsSettings,
    ZooKeeperSettings,
    check_review,
)
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.security import checked
from spark_ordered_kafka.parsing import (
    HIDDEN,
    KAFKA_PREFIX,
    is_http_url,
    is_like_secret,
    is_loopback,
    is_secret,
)

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")

_Text = Annotated[str, Field(min_length=1)]
_Port = Annotated[int, Field(ge=1, le=65535)]
_Millis = Annotated[int, Field(ge=1, le=24 * 3600 * 1000)]
_Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
_HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$|^[0-9A-Fa-f:.]+$")]
_ZooKeeperConnect = Annotated[str, Field(min_length=1, pattern=r"^[^\s/]+(/\S*)?$")]


class _File(BaseModel):
    """Every key but those below ``kafka.``; an alias is the key."""

    model_config = ConfigDict(extra="forbid", strict=True)

    host: _Text = "127.0.0.1"
    port: _Port = 8090
    advertised_url: _Text | None = Field(None, alias="advertised.url")
    allowed_hosts: list[_HostName] = Field(default_factory=list, alias="allowed.hosts")

    zookeeper_connect: _ZooKeeperConnect = Field(alias="zookeeper.connect")
    zookeeper_session_timeout: _Millis = Field(6000, alias="zookeeper.session.timeout.ms")
    zookeeper_ssl_enabled: bool = Field(False, alias="zookeeper.ssl.enabled")
    zookeeper_ssl_ca: _Text | None = Field(None, alias="zookeeper.ssl.ca.location")
    zookeeper_ssl_certificate: _Text | None = Field(None, alias="zookeeper.ssl.certificate.location")
    zookeeper_ssl_key: _Text | None = Field(None, alias="zookeeper.ssl.key.location")
    zookeeper_ssl_key_password: _Text | None = Field(None, alias="zookeeper.ssl.key.password")
    zookeeper_sasl_username: _Text | None = Field(None, alias="zookeeper.sasl.username")
    zookeeper_sasl_password: _Text | None = Field(None, alias="zookeeper.sasl.password")
    zookeeper_digest_username: _Text | None = Field(None, alias="zookeeper.digest.username")
    zookeeper_digest_password: _Text | None = Field(None, alias="zookeeper.digest.password")

    ssl_certificate: _Text | None = Field(None, alias="ssl.certificate.location")
    ssl_key: _Text | None = Field(None, alias="ssl.key.location")
    ssl_key_password: _Text | None = Field(None, alias="ssl.key.password")
    ssl_ca: _Text | None = Field(None, alias="ssl.ca.location")
    ssl_client_auth: Literal["none", "requested", "required"] = Field("none", alias="ssl.client.auth")

    authentication_required: bool | None = Field(None, alias="authentication.required")
    authentication_kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, alias="authentication.kafka.mechanism"
    )
    authentication_tokens_file: _Text | None = Field(None, alias="authentication.tokens.file")
    super_users: list[Annotated[str, Field(pattern=r"^User:.+$")]] = Field(
        default_factory=list, alias="authorization.super.users"
    )
    roles_file: _Text | None = Field(None, alias="authorization.roles.file")
    allow_everyone: bool = Field(False, alias="authorization.allow.everyone.if.no.acl.found")

    max_broker_partitions: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        2**31 - 1, alias="max.broker.partitions"
    )
    topic_policy_class: _Text | None = Field(None, alias="topic.policy.class")
    reason_required: bool = Field(False, alias="reason.required")
    review_required: bool = Field(False, alias="review.required")

    audit_log_file: _Text | None = Field(None, alias="audit.log.file")
    log_format: Literal["text", "json"] = Field("text", alias="log.format")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", alias="log.level")

    startup_timeout: _Millis = Field(30_000, alias="startup.timeout.ms")
    request_timeout: _Millis = Field(10_000, alias="request.timeout.ms")
    retire_interval: _Millis = Field(5_000, alias="retire.interval.ms")
    retire_replication_factor: Annotated[int, Field(ge=1)] | None = Field(
        None, alias="retire.replication.factor"
    )
    change_creating: _Millis = Field(60_000, alias="change.creating.timeout.ms")
    change_drain: Annotated[int, Field(ge=0, le=3_600_000)] = Field(2_000, alias="change.drain.timeout.ms")
    change_closing: _Millis = Field(30_000, alias="change.closing.timeout.ms")

    reassign_max_moves_per_broker: _Count = Field(50, alias="reassign.max.moves.per.broker")
    reassign_max_moves: _Count = Field(500, alias="reassign.max.moves")
    reassign_broker_timeout: _Millis = Field(30_000, alias="reassign.broker.timeout.ms")
    reassign_status_retention: Annotated[int, Field(ge=0, le=2**53)] = Field(
        24 * 3600 * 1000, alias="reassign.partitions.status.min.retention.ms"
    )


@dataclass(frozen=True)
class ControllerConfig:
    """What ``ordered-kafka controller run`` needs: where to listen, how to log, and the controller's settings."""

    host: str
    port: int
    log_format: Literal["text", "json"]
    log_level: str
    settings: ControllerSettings


def read_file(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The entries of a configuration file by dotted name, references resolved.

    Raises ConfigError: it cannot be read, is not TOML, or refers to what is not there.
    """
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("--config", str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("--config", str(path), f"is not TOML: {error}") from error
    return {name: _resolved(name, value, environment) for name, value in _flat("", parsed)}


def controller_config(entries: Mapping[str, Any], *, default_host: str) -> ControllerConfig:
    """The configuration from ``entries`` by dotted name; ``default_host`` is what other hosts call this one.

    Raises ConfigError for the first wrong entry: names it, and says what would be right.
    """
    kafka = _kafka(entries)
    given = {name: value for name, value in entries.items() if not name.startswith(KAFKA_PREFIX)}
    try:
        file = _File.model_validate(given)
    except ValidationError as error:
        raise _explained(error) from error
    tls = _tls(file)
    settings = ControllerSettings(
        kafka=kafka,
        zookeeper=_zookeeper(file),
        url=_url(file, "http" if tls is None else "https", default_host),
        # A name of this machine is not one that a page could have been loaded by.
        allowed_hosts=frozenset((*file.allowed_hosts, file.host, default_host)),
        timing=Timing(
            creating=file.change_creating / 1000,
            closing=file.change_closing / 1000,
            drain=file.change_drain / 1000,
        ),
        startup_timeout=file.startup_timeout / 1000,
        request_timeout=file.request_timeout / 1000,
        retire_interval=file.retire_interval / 1000,
        retire_replication_factor=file.retire_replication_factor,
        tls=tls,
        authentication=_authentication(file, tls),
        authorization=AuthorizationSettings(
            super_users=frozenset(file.super_users),
            roles_file=file.roles_file,
            allow_everyone_if_no_acl_found=file.allow_everyone,
        ),
        max_broker_partitions=file.max_broker_partitions,
        topic_policy_class=file.topic_policy_class,
        reason_required=file.reason_required,
        review_required=file.review_required,
        audit_log_file=file.audit_log_file,
        reassign=ReassignSettings(
            max_moves_per_broker=file.reassign_max_moves_per_broker,
            max_moves=file.reassign_max_moves,
            broker_timeout=file.reassign_broker_timeout / 1000,
            status_retention=file.reassign_status_retention / 1000,
        ),
    )
    return ControllerConfig(file.host, file.port, file.log_format, file.log_level, settings)


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def _resolved(name: str, value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_resolved(name, item, environment) for item in value]
    if not isinstance(value, str):
        return value

    def replacement(found: re.Match[str]) -> str:
        source, key = found.groups()
        if source == "env":
            if key not in environment:
                raise ConfigError(name, _shown(name, value), f"there is no environment variable {key}")
            return environment[key]
        try:
            return Path(key).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(name, _shown(name, value), f"{key} cannot be read: {error}") from error

    return _REFERENCE.sub(replacement, value)


def _kafka(entries: Mapping[str, Any]) -> dict[str, str]:
    """librdkafka's properties; TOML's booleans and numbers as the text that Kafka's property files have."""
    found = {}
    for name, value in entries.items():
        if not name.startswith(KAFKA_PREFIX):
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            text = str(value).lower() if isinstance(value, bool) else None
        else:
            text = str(value)
        if text is None:
            raise ConfigError(name, _shown(name, value), "text is needed")
        found[name.removeprefix(KAFKA_PREFIX)] = text
    return checked(found)


def _explained(error: ValidationError) -> ConfigError:
    """The first thing that pydantic found, in this package's words."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = [str(field.alias or key) for key, field in _File.model_fields.items()]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "conf/controller.toml has all of them"
        hidden = is_like_secret(name, known)
        return ConfigError(f"unknown key {name}", HIDDEN if hidden else first["input"], hint)
    if first["type"] == "missing":
        return ConfigError(name, None, "it must be set")
    return ConfigError(name, _shown(name, first["input"]), first["msg"])


def _shown(name: str, value: object) -> object:
    return HIDDEN if is_secret(name) else value


def _together(file: _File, **fields: str) -> bool:
    """Whether fields that only work together are set; ``fields`` are attributes and their keys."""
    there = [name for name in fields if getattr(file, name) is not None]
    if there and len(there) < len(fields):
        missing = next(key for name, key in fields.items() if name not in there)
        raise ConfigError(missing, None, f"it must be set beside {fields[there[0]]}")
    return bool(there)


def _zookeeper(file: _File) -> ZooKeeperSettings:
    sasl = _together(
        file,
        zookeeper_sasl_username="zookeeper.sasl.username",
        zookeeper_sasl_password="zookeeper.sasl.password",
    )
    digest = _together(
        file,
        zookeeper_digest_username="zookeeper.digest.username",
        zookeeper_digest_password="zookeeper.digest.password",
    )
    if sasl and digest:
        raise ConfigError(
            "zookeeper.digest.username",
            file.zookeeper_digest_username,
            "zookeeper.sasl.username is set too: one of them owns the znodes",
        )
    if file.zookeeper_ssl_ca is not None and not file.zookeeper_ssl_enabled:
        raise ConfigError("zookeeper.ssl.enabled", False, "zookeeper.ssl.ca.location is set: set it to true")
    _together(
        file,
        zookeeper_ssl_certificate="zookeeper.ssl.certificate.location",
        zookeeper_ssl_key="zookeeper.ssl.key.location",
    )
    return ZooKeeperSettings(
        connect=file.zookeeper_connect,
        session_timeout=file.zookeeper_session_timeout / 1000,
        ssl_enabled=file.zookeeper_ssl_enabled,
        ssl_ca_location=file.zookeeper_ssl_ca,
        ssl_certificate_location=file.zookeeper_ssl_certificate,
        ssl_key_location=file.zookeeper_ssl_key,
        ssl_key_password=file.zookeeper_ssl_key_password,
        sasl_username=file.zookeeper_sasl_username,
        sasl_password=file.zookeeper_sasl_password,
        digest_username=file.zookeeper_digest_username,
        digest_password=file.zookeeper_digest_password,
    )


def _tls(file: _File) -> TlsSettings | None:
    _together(file, ssl_certificate="ssl.certificate.location", ssl_key="ssl.key.location")
    if file.ssl_client_auth != "none" and (file.ssl_certificate is None or file.ssl_ca is None):
        missing = "ssl.certificate.location" if file.ssl_certificate is None else "ssl.ca.location"
        raise ConfigError(missing, None, f"ssl.client.auth = {file.ssl_client_auth!r} needs it")
    if file.ssl_certificate is None or file.ssl_key is None:
        return None
    for key, path in (
        ("ssl.certificate.location", file.ssl_certificate),
        ("ssl.key.location", file.ssl_key),
        ("ssl.ca.location", file.ssl_ca),
    ):
        if path is not None and not Path(path).is_file():
            raise ConfigError(key, path, "there is no such file")
    return TlsSettings(
        certificate_location=file.ssl_certificate,
        key_location=file.ssl_key,
        key_password=file.ssl_key_password,
        ca_location=file.ssl_ca,
        client_auth=file.ssl_client_auth,
    )


def _authentication(file: _File, tls: TlsSettings | None) -> AuthenticationSettings:
    methods = (
        file.authentication_kafka_mechanism is not None
        or file.authentication_tokens_file is not None
        or file.ssl_client_auth != "none"
    )
    required = file.authentication_required
    if required is None:
        # Whoever says how callers prove who they are expects them to, also on loopback: a proxy may stand before it.
        required = methods or not is_loopback(file.host)
    if required and not methods:
        raise ConfigError(
            "authentication.required",
            "true" if file.authentication_required else f"true, since host is {file.host}",
            "nobody could get in: set authentication.kafka.mechanism, authentication.tokens.file or ssl.client.auth; "
            "or authentication.required = false, which lets everybody in",
        )
    authentication = AuthenticationSettings(
        required=required,
        kafka_mechanism=file.authentication_kafka_mechanism,
        tokens_file=file.authentication_tokens_file,
    )
    if file.review_required:
        check_review(authentication, tls)
    return authentication


def _url(file: _File, scheme: str, default_host: str) -> str:
    if file.advertised_url is not None:
        url = file.advertised_url.rstrip("/")
        if not is_http_url(url) or not url.startswith(f"{scheme}://"):
            raise ConfigError(
                "advertised.url", file.advertised_url, f"a URL such as {scheme}://host:8090 is needed"
            )
        return url
    name = default_host if file.host in ("0.0.0.0", "::") else file.host
    return f"{scheme}://[{name}]:{file.port}" if ":" in name else f"{scheme}://{name}:{file.port}"
