"""The controller's configuration file: TOML with Kafka-style dotted names, checked whole before anything starts.

``[zookeeper]`` and ``connect = …`` below it is the same as ``zookeeper.connect = …``. In any text ``${env:NAME}`` stands
for an environment variable and ``${file:/path}`` for a file's content without its final line break, so the file itself
needs no secrets (the names are those of Kafka's ``EnvVarConfigProvider`` and ``FileConfigProvider``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from spark_ordered_kafka.controller.access.files import toml_tables
from spark_ordered_kafka.controller.automation.configuration import dotted, flat
from spark_ordered_kafka.controller.autoscale import configuration as autoscale
from spark_ordered_kafka.controller.healing import configuration as healing
from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    ControllerSettings,
    ReassignSettings,
    Timing,
    TlsSettings,
    WebhookSettings,
    ZooKeeperSettings,
    check_review,
)
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.security import checked
from spark_ordered_kafka.parsing import (
    HIDDEN,
    KAFKA_PREFIX,
    check_together,
    checked_text,
    is_http_url,
    is_loopback,
    raise_all,
    shown,
    text,
    together,
)

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


def _plain(value: str) -> str:
    try:
        return checked_text("", value)
    except ConfigError:
        # The key's name, and perhaps the value, are added where this is explained.
        raise ValueError("text without NUL is needed") from None


_Text = Annotated[str, Field(min_length=1), AfterValidator(_plain)]
_Port = Annotated[int, Field(ge=1, le=65535)]
_Millis = Annotated[int, Field(ge=1, le=24 * 3600 * 1000)]
_Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
_HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$|^[0-9A-Fa-f:.]+$")]
_ZooKeeperConnect = Annotated[str, Field(min_length=1, pattern=r"^[^\s/]+(/\S*)?$")]


class _File(BaseModel):
    """Every key except those below ``kafka.``, with underscores instead of dots."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=dotted)

    host: _Text = "127.0.0.1"
    port: _Port = 8090
    advertised_url: _Text | None = None
    allowed_hosts: list[_HostName] = []

    zookeeper_connect: _ZooKeeperConnect
    # With less a client gives up each connection before ZooKeeper can answer.
    zookeeper_session_timeout_ms: Annotated[int, Field(ge=500, le=24 * 3600 * 1000)] = 6000
    zookeeper_ssl_enabled: bool = False
    zookeeper_ssl_ca_location: _Text | None = None
    zookeeper_ssl_certificate_location: _Text | None = None
    zookeeper_ssl_key_location: _Text | None = None
    zookeeper_ssl_key_password: _Text | None = None
    zookeeper_sasl_username: _Text | None = None
    zookeeper_sasl_password: _Text | None = None
    zookeeper_digest_username: _Text | None = None
    zookeeper_digest_password: _Text | None = None

    ssl_certificate_location: _Text | None = None
    ssl_key_location: _Text | None = None
    ssl_key_password: _Text | None = None
    ssl_ca_location: _Text | None = None
    ssl_client_auth: Literal["none", "requested", "required"] = "none"

    authentication_required: bool | None = None
    authentication_kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    authentication_tokens_file: _Text | None = None
    authorization_super_users: list[Annotated[str, Field(pattern=r"^User:.+$")]] = []
    authorization_roles_file: _Text | None = None
    authorization_allow_everyone_if_no_acl_found: bool = False

    max_broker_partitions: Annotated[int, Field(ge=0, le=2**31 - 1)] = 2**31 - 1
    topic_policy_class: _Text | None = None
    reason_required: bool = False
    review_required: bool = False

    audit_log_file: _Text | None = None
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    startup_timeout_ms: _Millis = 30_000
    request_timeout_ms: _Millis = 10_000
    retire_interval_ms: _Millis = 5_000
    retire_replication_factor: Annotated[int, Field(ge=1)] | None = None
    change_creating_timeout_ms: _Millis = 60_000
    change_drain_timeout_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 2_000
    change_closing_timeout_ms: _Millis = 30_000

    webhook_url: _Text | None = None
    webhook_token_file: _Text | None = None
    webhook_timeout_ms: _Millis = 10_000

    reassign_max_moves_per_broker: _Count = 50
    reassign_max_moves: _Count = 500
    reassign_broker_timeout_ms: _Millis = 30_000
    reassign_partitions_status_min_retention_ms: Annotated[int, Field(ge=0, le=2**53)] = 24 * 3600 * 1000


_OTHERS = autoscale.KEYS | healing.KEYS
KEYS = frozenset(map(dotted, _File.model_fields)) | _OTHERS
"""Every key except those below ``kafka.``."""


@dataclass(frozen=True)
class ControllerConfig:
    """Settings of ``ordered-kafka controller run``: where to listen, how to log, and the controller's own."""

    host: str
    port: int
    log_format: Literal["text", "json"]
    log_level: str
    settings: ControllerSettings


def read_file(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The entries of a configuration file by dotted name, references resolved.

    Raises ConfigError: the file cannot be read, is not TOML, or refers to missing variables or files.
    """
    try:
        parsed = toml_tables(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("--config", str(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError("--config", str(path), f"is not TOML: {error}") from error
    found: dict[str, Any] = {}
    for name, value in flat(parsed):
        if name in found:
            hint = "it is there twice: once as a table and once as a name in quotes"
            raise ConfigError(name, shown(name, value), hint)
        found[name] = value
    return together({name: partial(_resolved, name, value, environment) for name, value in found.items()})


def controller_config(entries: Mapping[str, Any], *, default_host: str) -> ControllerConfig:
    """The configuration from ``entries`` by dotted name; ``default_host`` is what other hosts call this one.

    Raises ConfigError for all wrong entries: names them and the valid values.
    """
    file = cache(partial(_file, entries))
    parsed = together(
        {
            "kafka": partial(_kafka, entries),
            # What is wrong with the file itself each of these raises, and it is said once.
            "zookeeper": lambda: _zookeeper(file()),
            "tls": lambda: _tls(file()),
            "url": lambda: _url(file(), default_host),
            "authentication": lambda: _authentication(file()),
            "webhook": lambda: _webhook(file()),
            "autoscale": partial(autoscale.autoscale_settings, entries),
            "healing": partial(healing.healing_rules, entries),
        }
    )
    return _config(file(), parsed, default_host)


def _config(file: _File, parsed: Mapping[str, Any], default_host: str) -> ControllerConfig:
    settings = ControllerSettings(
        # No page of another site can be loaded under this machine's own names.
        allowed_hosts=frozenset((*file.allowed_hosts, file.host, default_host)),
        timing=Timing(
            creating=file.change_creating_timeout_ms / 1000,
            closing=file.change_closing_timeout_ms / 1000,
            drain=file.change_drain_timeout_ms / 1000,
        ),
        startup_timeout=file.startup_timeout_ms / 1000,
        request_timeout=file.request_timeout_ms / 1000,
        retire_interval=file.retire_interval_ms / 1000,
        retire_replication_factor=file.retire_replication_factor,
        authorization=AuthorizationSettings(
            super_users=frozenset(file.authorization_super_users),
            roles_file=file.authorization_roles_file,
            allow_everyone_if_no_acl_found=file.authorization_allow_everyone_if_no_acl_found,
        ),
        max_broker_partitions=file.max_broker_partitions,
        topic_policy_class=file.topic_policy_class,
        reason_required=file.reason_required,
        review_required=file.review_required,
        audit_log_file=file.audit_log_file,
        reassign=ReassignSettings(
            max_moves_per_broker=file.reassign_max_moves_per_broker,
            max_moves=file.reassign_max_moves,
            broker_timeout=file.reassign_broker_timeout_ms / 1000,
            status_retention=file.reassign_partitions_status_min_retention_ms / 1000,
        ),
        **parsed,
    )
    return ControllerConfig(file.host, file.port, file.log_format, file.log_level, settings)


def _resolved(name: str, value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_resolved(name, item, environment) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(f"{name}.{key}", item, environment) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def replacement(found: re.Match[str]) -> str:
        source, key = found.groups()
        if source == "env":
            if key not in environment:
                raise ConfigError(name, shown(name, value), f"there is no environment variable {key}")
            return environment[key]
        try:
            return Path(key).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:  # or is no text, or no name of a file
            raise ConfigError(name, shown(name, value), f"{key} cannot be read: {error}") from error

    return _REFERENCE.sub(replacement, value)


def _kafka(entries: Mapping[str, Any]) -> dict[str, str]:
    given = {name: value for name, value in entries.items() if name.startswith(KAFKA_PREFIX)}
    raise_all(
        ConfigError(name, shown(name, value), "text is needed")
        for name, value in given.items()
        if not isinstance(value, str | int)
    )
    return checked({name.removeprefix(KAFKA_PREFIX): text(value) for name, value in given.items()})


def _file(entries: Mapping[str, Any]) -> _File:
    """What is neither below ``kafka.`` nor of autoscaling or self-healing."""
    given = {
        name: value
        for name, value in entries.items()
        if not name.startswith(KAFKA_PREFIX) and name not in _OTHERS
    }
    try:
        return _File.model_validate(given)
    except ValidationError as error:
        raise_all(map(_explained, error.errors(include_url=False)))
        raise


def _explained(error: ErrorDetails) -> ConfigError:
    """One of pydantic's errors as a ConfigError."""
    name, value = str(error["loc"][0]), error["input"]
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else "conf/controller.toml has all of them"
        return ConfigError(f"unknown key {name}", shown(name, value, KEYS), hint)
    if error["type"] == "missing":
        return ConfigError(name, None, "it must be set")
    return ConfigError(name, shown(name, value), error["msg"])


def _zookeeper(file: _File) -> ZooKeeperSettings:
    return ZooKeeperSettings(
        connect=file.zookeeper_connect,
        session_timeout=file.zookeeper_session_timeout_ms / 1000,
        ssl_enabled=file.zookeeper_ssl_enabled,
        ssl_ca_location=file.zookeeper_ssl_ca_location,
        ssl_certificate_location=file.zookeeper_ssl_certificate_location,
        ssl_key_location=file.zookeeper_ssl_key_location,
        ssl_key_password=file.zookeeper_ssl_key_password,
        sasl_username=file.zookeeper_sasl_username,
        sasl_password=file.zookeeper_sasl_password,
        digest_username=file.zookeeper_digest_username,
        digest_password=file.zookeeper_digest_password,
    )


def _tls(file: _File) -> TlsSettings | None:
    certificate, key, ca = file.ssl_certificate_location, file.ssl_key_location, file.ssl_ca_location
    files = {"ssl.certificate.location": certificate, "ssl.key.location": key, "ssl.ca.location": ca}
    check_together(files, ("ssl.certificate.location", "ssl.key.location"))
    if file.ssl_client_auth != "none" and (certificate is None or ca is None):
        missing = "ssl.certificate.location" if certificate is None else "ssl.ca.location"
        raise ConfigError(missing, None, f"ssl.client.auth = {file.ssl_client_auth!r} needs it")
    if certificate is None or key is None:
        return None
    raise_all(
        ConfigError(name, path, "there is no such file")
        for name, path in files.items()
        if path is not None and not Path(path).is_file()
    )
    return TlsSettings(certificate, key, file.ssl_key_password, ca, file.ssl_client_auth)


def _authentication(file: _File) -> AuthenticationSettings:
    methods = (
        file.authentication_kafka_mechanism is not None
        or file.authentication_tokens_file is not None
        or file.ssl_client_auth != "none"
    )
    required = file.authentication_required
    if required is None:
        # A configured method is required, on loopback too: a proxy may stand in front (D-157).
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
        check_review(authentication, file.ssl_client_auth)
    return authentication


def _webhook(file: _File) -> WebhookSettings:
    url, token_file = file.webhook_url, file.webhook_token_file
    if url is not None and not is_http_url(url.partition("?")[0]):
        # Its value stays hidden: in many services the URL alone permits to send to it.
        raise ConfigError("webhook.url", HIDDEN, "a URL such as https://host/path is needed")
    if token_file is not None and url is None:
        raise ConfigError("webhook.url", None, "webhook.token.file needs it")
    settings = WebhookSettings(url, token_file, file.webhook_timeout_ms / 1000)
    settings.token()
    return settings


def _url(file: _File, default_host: str) -> str:
    scheme = "http" if file.ssl_certificate_location is None else "https"
    if file.advertised_url is not None:
        url = file.advertised_url.rstrip("/")
        # A proxy may add TLS, but none removes it.
        if not is_http_url(url) or (scheme == "https" and not url.startswith("https://")):
            raise ConfigError(
                "advertised.url", file.advertised_url, f"a URL such as {scheme}://host:8090 is needed"
            )
        return url
    name = default_host if file.host in ("0.0.0.0", "::") else file.host
    return f"{scheme}://[{name}]:{file.port}" if ":" in name else f"{scheme}://{name}:{file.port}"
