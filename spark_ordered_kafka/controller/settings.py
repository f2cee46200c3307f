"""Settings of a controller process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from spark_ordered_kafka.controller.autoscale.configuration import AutoscaleSettings
from spark_ordered_kafka.controller.healing.rules import Rules as HealingRules
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.extras import command, missing
from spark_ordered_kafka.parsing import check_together

ALLOWED_HOSTS = "allowed.hosts"
"""The key of :attr:`ControllerSettings.allowed_hosts`."""


@dataclass(frozen=True)
class Timing:
    """Limits in seconds. ``creating``: partitions made and led, or ``creating_each`` for every new one if that is more (a
    broker makes up to 200 logs a second); ``closing``: how long writers may be blocked;
    ``drain``: how long open transactions may take to finish; ``backoff``: pause between polls;
    ``retry``: pause before what failed is tried again, while no writer waits; ``leader_wait``: how long a request for the
    leader waits for one, less than the clients' timeout of 10 s."""

    creating: float = 60.0
    creating_each: float = 0.06
    closing: float = 30.0
    drain: float = 2.0
    backoff: float = 0.05
    retry: float = 1.0
    leader_wait: float = 7.0


@dataclass(frozen=True)
class ZooKeeperSettings:
    """How a controller connects to ZooKeeper, and the access to its znodes.

    ``connect`` is a connect string, with an optional chroot; ``session_timeout`` in seconds: how long after a controller's
    death its successor takes over. ``ssl_*`` are PEM files; the default of ``ssl_ca_location`` is the system's authorities.
    With ``sasl_*`` (DIGEST-MD5) or ``digest_*`` (ZooKeeper's ACL scheme ``digest``) every znode below ``/ordered-kafka``
    gets an ACL for that user alone; without, every client of ZooKeeper may read and write them.
    """

    connect: str
    session_timeout: float = 6.0
    ssl_enabled: bool = False
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    digest_username: str | None = None
    digest_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises ConfigError when a setting lacks another one, or two contradict each other."""
        given = {f"zookeeper.{name.replace('_', '.')}": value for name, value in vars(self).items()}
        check_together(
            given,
            ("zookeeper.sasl.username", "zookeeper.sasl.password"),
            ("zookeeper.digest.username", "zookeeper.digest.password"),
            ("zookeeper.ssl.certificate.location", "zookeeper.ssl.key.location"),
        )
        if self.sasl_username is not None and missing("zookeeper-sasl"):
            hint = f"it needs a further library: {command('zookeeper-sasl')}; or set zookeeper.digest.username instead"
            raise ConfigError("zookeeper.sasl.username", self.sasl_username, hint)
        if self.sasl_username is not None and self.digest_username is not None:
            hint = "zookeeper.sasl.username is set too: one of them owns the znodes"
            raise ConfigError("zookeeper.digest.username", self.digest_username, hint)
        of_tls = [
            name for name in given if name.startswith("zookeeper.ssl.") and isinstance(given[name], str)
        ]
        if of_tls and not self.ssl_enabled:
            raise ConfigError("zookeeper.ssl.enabled", False, f"with {of_tls[0]} it must be true")


@dataclass(frozen=True)
class TlsSettings:
    """TLS of the HTTP server; PEM files. ``ca_location`` is what certificates of clients are checked against;
    ``client_auth`` as Kafka's ``ssl.client.auth``."""

    certificate_location: str
    key_location: str
    key_password: str | None = field(default=None, repr=False)
    ca_location: str | None = None
    client_auth: Literal["none", "requested", "required"] = "none"


@dataclass(frozen=True)
class AuthenticationSettings:
    """How callers authenticate. ``kafka_mechanism``: the SASL mechanism by which Kafka checks a user's password, None: no
    HTTP Basic; ``tokens_file`` holds hashes of bearer tokens."""

    required: bool = False
    kafka_mechanism: str | None = None
    tokens_file: str | None = None


def check_review(authentication: AuthenticationSettings, client_auth: str) -> None:
    """Raises ConfigError unless ``review.required`` is effective: callers must be authenticated, and one person must not
    have two principals (D-170). ``client_auth`` is ``ssl.client.auth``."""
    name = "review.required"
    if not authentication.required:
        raise ConfigError(name, True, "without authentication there are no two principals: require it")
    ways = {
        "authentication.kafka.mechanism": authentication.kafka_mechanism is not None,
        "authentication.tokens.file": authentication.tokens_file is not None,
        "ssl.client.auth": client_auth != "none",
    }
    there = [way for way, offered in ways.items() if offered]
    if len(there) > 1:
        hint = (
            f"{' and '.join(there)} are set: who can prove in two ways who she is, is two principals, and could approve "
            "what she has asked for herself; leave one of them"
        )
        raise ConfigError(name, True, hint)


@dataclass(frozen=True)
class AuthorizationSettings:
    """Authorization in addition to Kafka's ACLs. ``super_users`` are principals (``User:admin``) that may do everything;
    ``roles_file`` gives roles on a cluster without authorizer."""

    super_users: frozenset[str] = frozenset()
    roles_file: str | None = None
    allow_everyone_if_no_acl_found: bool = False


@dataclass(frozen=True)
class ReassignSettings:
    """Limits of reassignments. ``max_moves_per_broker``: partitions that one broker sends or receives at a time,
    ``max_moves``: partitions moved at a time in the cluster. ``broker_timeout``: seconds after which moves to a broker that
    is down are cancelled; ``status_retention``: seconds that a request is kept after its end."""

    max_moves_per_broker: int = 50
    max_moves: int = 500
    broker_timeout: float = 30.0
    status_retention: float = 24 * 3600.0


@dataclass(frozen=True)
class WebhookSettings:
    """Where documents about findings, proposals and outcomes go; None: nowhere. ``url`` may hold a secret.

    ``token_file`` holds a bearer token, and ``timeout`` (seconds) is for each attempt.
    """

    url: str | None = field(default=None, repr=False)
    token_file: str | None = None
    timeout: float = 10.0

    def token(self) -> str | None:
        """What the file holds now; None without one. Raises ConfigError, without the token, for what no header can hold."""
        if self.token_file is None:
            return None
        try:
            token = Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("webhook.token.file", self.token_file, f"cannot be read: {error}") from error
        if not token or not token.isascii() or not token.isprintable():
            expected = "its content must be one line with the token, of ASCII characters"
            raise ConfigError("webhook.token.file", self.token_file, expected)
        return token


@dataclass(frozen=True)
class ControllerSettings:
    """``url`` is the address for clients; ``allowed_hosts``: other host names of the controller, besides those of loopback.
    Times in seconds.

    ``kafka`` has librdkafka's properties (:mod:`spark_ordered_kafka.kafka.security` says which).
    ``startup_timeout`` bounds the wait for Kafka and ZooKeeper. ``retire_interval``: pause between checks of removed
    partitions; ``retire_replication_factor``: replicas that an empty one keeps, None: all. ``max_broker_partitions``:
    replicas that a broker without a limit of its own may host (KIP-578). ``topic_policy_class``: ``module.Class`` whose
    ``validate(request)`` may refuse requests. ``reason_required`` and ``review_required``: whether a change needs a reason,
    and a second principal's approval. ``audit_log_file``: None writes to the logger ``spark_ordered_kafka.audit``.
    """

    kafka: Mapping[str, str] = field(repr=False)
    zookeeper: ZooKeeperSettings
    url: str
    allowed_hosts: frozenset[str] = frozenset()
    timing: Timing = field(default_factory=Timing)
    startup_timeout: float = 30.0
    request_timeout: float = 10.0
    retire_interval: float = 5.0
    retire_replication_factor: int | None = None
    tls: TlsSettings | None = None
    authentication: AuthenticationSettings = AuthenticationSettings()
    authorization: AuthorizationSettings = AuthorizationSettings()
    max_broker_partitions: int = 2**31 - 1
    topic_policy_class: str | None = None
    reason_required: bool = False
    review_required: bool = False
    audit_log_file: str | None = None
    reassign: ReassignSettings = ReassignSettings()
    autoscale: AutoscaleSettings = field(default_factory=AutoscaleSettings)
    healing: HealingRules = field(default_factory=HealingRules)
    webhook: WebhookSettings = WebhookSettings()

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's ``bootstrap.servers``."""
        return self.kafka["bootstrap.servers"]
