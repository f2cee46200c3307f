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


def _kilobytes(option: str, value: str) -> str:
    return str(max(1, _bytes(option, value) // 1024))


def _buffer(option: str, value: str) -> str:
    return "0" if value.strip() == "-1" else str(_bytes(option, value))


def _bytes(option: str, value: str) -> int:
    return natural(option, value, "a whole number of bytes")


_LAYOUT = "the layout decides the partition of a key; leave it out"
_JAVA_CLASS = "it names a class of Java's clients, and none of them is used here; leave it out"
_BINARY_READ = "keys and values are read as binary; cast them in the DataFrame"
_BINARY_WRITE = "keys and values are written as binary or string; cast them in the DataFrame"
_CHECKPOINT = "positions are kept in the checkpoint; leave it out"
_NO_GROUP = "reading takes part in no consumer group; leave it out"
_OPENSSL = "librdkafka's OpenSSL chooses it; leave it out"
_METRICS = "it is for the metrics of Java's clients; leave it out"
_TOKEN = "librdkafka renews tokens on its own; leave it out"
_BROKERS = "it is for brokers, which check tokens; leave it out"
_KERBEROS = (
    "Kerberos is not built into the librdkafka of confluent-kafka's wheels: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,"
    " OAUTHBEARER or client certificates, or install a confluent-kafka that was built with libsasl2"
)

SAME: tuple[str, ...] = (
    "batch.size",
    "bootstrap.servers",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.type",
    "connections.max.idle.ms",
    "delivery.timeout.ms",
    "enable.metrics.push",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "group.id",
    "isolation.level",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.cipher.suites",
    "ssl.key.password",
    "ssl.keystore.password",
    "transaction.timeout.ms",
)
"""Of these librdkafka has the name and the meaning."""

NOTES: Mapping[str, str] = {
    "group.id": "a stream commits to it what it has processed, so that lag tools see the query; reading never joins it",
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

REFUSED: Mapping[str, str] = {
    "auto.commit.interval.ms": _CHECKPOINT,
    "auto.offset.reset": "startingOffsets of a read says where it begins; leave it out",
    "compression.gzip.level": "librdkafka has one name for all codecs: write kafka.compression.level",
    "compression.lz4.level": "librdkafka has one name for all codecs: write kafka.compression.level",
    "compression.zstd.level": "librdkafka has one name for all codecs: write kafka.compression.level",
    "config.providers": _JAVA_CLASS,
    "default.api.timeout.ms": "leaders are waited for a minute, whatever it says; leave it out",
    "enable.auto.commit": _CHECKPOINT,
    "enable.auto.offset.store": _CHECKPOINT,
    "enable.partition.eof": "it is needed to see the end of a range; leave it out",
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "interceptor.classes": _JAVA_CLASS,
    "key.deserializer": _BINARY_READ,
    "key.serializer": _BINARY_WRITE,
    "max.block.ms": "a task waits for the layout as long as option controllerTimeout says; set that, or leave it out",
    "max.poll.interval.ms": _NO_GROUP,
    "max.poll.records": "batches are of Arrow and bound by fetch.max.bytes; set that, or leave it out",
    "metadata.max.idle.ms": "librdkafka keeps what it knows of a topic for metadata.max.age.ms; set that, or leave it out",
    "metric.reporters": _JAVA_CLASS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "partition.assignment.strategy": _NO_GROUP,
    "partitioner": _LAYOUT,
    "partitioner.availability.timeout.ms": _LAYOUT,
    "partitioner.class": _LAYOUT,
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.kerberos.service.name": _KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
    "sasl.login.class": _JAVA_CLASS,
    "sasl.login.connect.timeout.ms": _TOKEN,
    "sasl.login.read.timeout.ms": _TOKEN,
    "sasl.login.refresh.buffer.seconds": _TOKEN,
    "sasl.login.refresh.min.period.seconds": _TOKEN,
    "sasl.login.refresh.window.factor": _TOKEN,
    "sasl.login.refresh.window.jitter": _TOKEN,
    "sasl.login.retry.backoff.max.ms": _TOKEN,
    "sasl.login.retry.backoff.ms": _TOKEN,
    "sasl.oauthbearer.assertion.template.file": "write kafka.sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.clock.skew.seconds": _BROKERS,
    "sasl.oauthbearer.expected.audience": _BROKERS,
    "sasl.oauthbearer.expected.issuer": _BROKERS,
    "sasl.oauthbearer.header.urlencode": "librdkafka always encodes the header; leave it out",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKERS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKERS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKERS,
    "sasl.oauthbearer.jwks.endpoint.url": _BROKERS,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CLASS,
    "sasl.oauthbearer.jwt.validator.class": _JAVA_CLASS,
    "sasl.oauthbearer.scope.claim.name": _BROKERS,
    "security.providers": _JAVA_CLASS,
    "session.timeout.ms": _NO_GROUP,
    "share.acknowledgement.mode": "share groups keep no order; leave it out",
    "share.acquire.mode": "share groups keep no order; leave it out",
    "socket.connection.setup.timeout.max.ms": "librdkafka's limit does not grow: set"
    " kafka.socket.connection.setup.timeout.ms, or leave it out",
    "ssl.enabled.protocols": _OPENSSL,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.protocol": _OPENSSL,
    "ssl.provider": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "statistics.interval.ms": "statistics are not delivered; leave it out",
    "transactional.id": "it is derived from topic, query and task; leave it out",
    "value.deserializer": _BINARY_READ,
    "value.serializer": _BINARY_WRITE,
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
