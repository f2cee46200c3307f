"""Properties of Kafka's Java clients (``kafka.*`` of Spark's own format) as librdkafka's: which keep their name, which get
another one, which may only have the value that holds anyway, and which are refused, with what to write instead.

The names are those of ``ConsumerConfig`` and ``ProducerConfig`` of Kafka 4.3. What is not listed goes to librdkafka as it is,
which judges it. Login and certificates are in :mod:`~spark_ordered_kafka.kafka.java_security`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka import java_security
from spark_ordered_kafka.parsing import checked_text, natural, shown, together


@dataclass(frozen=True)
class Renamed:
    """librdkafka's name, and its value for one of Java's; ``note`` says how they differ."""

    name: str
    convert: Callable[[str, str], str] = lambda _, value: value
    note: str = ""


@dataclass(frozen=True)
class Fixed:
    """The values that say what holds anyway; any other is refused, because of ``reason``."""

    values: tuple[str, ...]
    reason: str


def names(text: str) -> tuple[str, ...]:
    """What stands in a text, with blanks and line breaks between."""
    return tuple(text.split())


def _kilobytes(option: str, value: str) -> str:
    return str(max(1, _bytes(option, value) // 1024))


def _buffer(option: str, value: str) -> str:
    return "0" if value.strip() == "-1" else str(_bytes(option, value))


def _bytes(option: str, value: str) -> int:
    return natural(option, value, "a whole number of bytes")


_KERBEROS = (
    "Kerberos is not built into the librdkafka of confluent-kafka's wheels: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,"
    " OAUTHBEARER or client certificates, or install a confluent-kafka that was built with libsasl2"
)

SAME = names(
    """
    batch.size bootstrap.servers check.crcs client.dns.lookup client.id client.rack compression.type
    connections.max.idle.ms delivery.timeout.ms enable.metrics.push fetch.max.bytes fetch.min.bytes
    group.id isolation.level linger.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    security.protocol socket.connection.setup.timeout.ms ssl.cipher.suites ssl.key.password
    ssl.keystore.password transaction.timeout.ms
    """
)
"""Of these librdkafka has the name and the meaning."""

NOTES: Mapping[str, str] = {
    "group.id": "a stream commits to it what it has processed, so that lag tools see the query; reading never joins it",
    "client.rack": "brokers of the rack serve reads (KIP-392); one that stands still is waited for as long as"
    " `request.timeout.ms` says",
    "delivery.timeout.ms": "at most `transaction.timeout.ms`",
    "isolation.level": "`read_committed` by default, where Spark and Java read uncommitted records, too",
    "sasl.mechanism": "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`; Kerberos (`GSSAPI`) is not in"
    " confluent-kafka's wheels",
    "ssl.cipher.suites": "OpenSSL's names",
    "metadata.recovery.strategy": "`none` by default; clients that were in vain are replaced and bootstrap anew",
    "reconnect.backoff.ms": "20 by default",
}
"""What is to be said of properties that keep their names."""

RENAMED: Mapping[str, Renamed] = {
    "buffer.memory": Renamed("queue.buffering.max.kbytes", _kilobytes, "bytes as there"),
    "fetch.max.wait.ms": Renamed("fetch.wait.max.ms", note="at most 10: what a task reads has been written"),
    "max.request.size": Renamed("message.max.bytes"),
    "receive.buffer.bytes": Renamed("socket.receive.buffer.bytes", _buffer),
    "request.timeout.ms": Renamed(
        "socket.timeout.ms",
        note="60,000 by default; for the sink 100 less than `transaction.timeout.ms` at most",
    ),
    "send.buffer.bytes": Renamed("socket.send.buffer.bytes", _buffer),
}

FIXED: Mapping[str, Fixed] = {
    "acks": Fixed(("all", "-1"), "transactions need acks=all"),
    "request.required.acks": Fixed(("all", "-1"), "transactions need acks=all"),
    "allow.auto.create.topics": Fixed(("false",), "topics are created with `ordered-kafka topics create`"),
    "enable.idempotence": Fixed(("true",), "writers are transactional, hence idempotent"),
    "exclude.internal.topics": Fixed(("true",), "only topics under management are read"),
    "partitioner.adaptive.partitioning.enable": Fixed(
        ("false",), "the layout decides the partition of a key"
    ),
    "partitioner.ignore.keys": Fixed(("false",), "the layout decides the partition of a key"),
    "transaction.two.phase.commit.enable": Fixed(("false",), "a task ends its transaction itself"),
}

_OF_ONE_REASON: Mapping[str, str] = {
    "positions are kept in the checkpoint; leave it out": "auto.commit.interval.ms enable.auto.commit enable.auto.offset.store",
    "librdkafka has one name for all codecs: write kafka.compression.level": "compression.gzip.level compression.lz4.level compression.zstd.level",
    "it names a class of Java's clients, and none of them is used here; leave it out": """
        config.providers interceptor.classes metric.reporters sasl.client.callback.handler.class
        sasl.login.class sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.jwt.validator.class security.providers ssl.engine.factory.class
    """,
    "reading takes part in no consumer group; leave it out": """
        group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
        max.poll.interval.ms partition.assignment.strategy session.timeout.ms
    """,
    "keys and values are read as binary; cast them in the DataFrame": "key.deserializer value.deserializer",
    "keys and values are written as binary or string; cast them in the DataFrame": "key.serializer value.serializer",
    "it is for the metrics of Java's clients; leave it out": "metrics.num.samples metrics.recording.level metrics.sample.window.ms",
    "the layout decides the partition of a key; leave it out": "partitioner partitioner.availability.timeout.ms partitioner.class",
    _KERBEROS: """
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
        sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    """,
    "librdkafka renews tokens on its own; leave it out": """
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    """,
    "it is for brokers, which check tokens; leave it out": """
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
        sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name
    """,
    "share groups keep no order; leave it out": "share.acknowledgement.mode share.acquire.mode",
    "librdkafka's OpenSSL chooses it; leave it out": """
        ssl.enabled.protocols ssl.keymanager.algorithm ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm
    """,
}
"""By the reason why they are refused."""

REFUSED: Mapping[str, str] = {
    "auto.offset.reset": "startingOffsets of a read says where it begins; leave it out",
    "default.api.timeout.ms": "leaders are waited for a minute, whatever it says; leave it out",
    "enable.partition.eof": "it is needed to see the end of a range; leave it out",
    "max.block.ms": "a task waits for the layout as long as option controllerTimeout says; set that, or leave it out",
    "max.poll.records": "batches are of Arrow and bound by fetch.max.bytes; set that, or leave it out",
    "metadata.max.idle.ms": "librdkafka keeps what it knows of a topic for metadata.max.age.ms; set that, or leave it out",
    "sasl.oauthbearer.assertion.template.file": "write kafka.sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.header.urlencode": "librdkafka always encodes the header; leave it out",
    "socket.connection.setup.timeout.max.ms": "librdkafka's limit does not grow: set kafka.socket.connection.setup.timeout.ms, or leave it out",
    "statistics.interval.ms": "statistics are not delivered; leave it out",
    "transactional.id": "it is derived from topic, query and task; leave it out",
    **{name: reason for reason, some in _OF_ONE_REASON.items() for name in names(some)},
}


def translated(
    properties: Mapping[str, str],
    label: str,
    refused: Mapping[str, str] = REFUSED,
    fixed: Mapping[str, Fixed] = FIXED,
) -> dict[str, str]:
    """librdkafka's properties for Java's; a name of librdkafka's beside Java's wins. ``label`` stands before names in messages.

    ``refused`` and ``fixed`` are those of source and sink; plain clients have their own.

    Raises ConfigError for all that are refused at once, logins and stores included.
    """
    texts = ((name, one) for name, value in properties.items() for one in (name, value))
    together({}, *(partial(checked_text, f"{label}{name}", one) for name, one in texts))
    plain = {name: value for name, value in properties.items() if name not in java_security.MEANING}
    calls = {name: partial(_translated, name, value, label, refused, fixed) for name, value in plain.items()}
    parts = together({**calls, "security": partial(java_security.translated, properties, label)})
    made: dict[str, str] = {name: value for part in parts.values() for name, value in part.items()}
    return made | {name: value for name, value in plain.items() if name in made}


def _translated(
    name: str, value: str, label: str, refused: Mapping[str, str], fixed: Mapping[str, Fixed]
) -> dict[str, str]:
    option = f"{label}{name}"
    if (reason := refused.get(name)) is not None:
        raise ConfigError(option, shown(name, value), reason)
    if (only := fixed.get(name)) is not None:
        if value.strip().lower() not in only.values:
            hint = f"{only.reason}; set {' or '.join(only.values)}, or leave it out"
            raise ConfigError(option, value, hint)
        return {}
    to = RENAMED.get(name)
    return {name: value} if to is None else {to.name: to.convert(option, value)}
