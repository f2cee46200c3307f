"""Names of options that the plain clients refuse, with what to write instead, and the callbacks that they take.

Beside these they take the names of Kafka's Java clients as :mod:`~spark_ordered_kafka.kafka.java_names` has them, and all of
librdkafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_ordered_kafka.kafka import java_names

PASSED = frozenset(
    java_names.names(
        """
        acks auto.commit.interval.ms auto.offset.reset enable.auto.commit
        enable.auto.offset.store enable.idempotence enable.partition.eof group.instance.id group.protocol
        group.remote.assignor heartbeat.interval.ms key.deserializer key.serializer max.poll.interval.ms
        partition.assignment.strategy partitioner request.required.acks sasl.kerberos.kinit.cmd
        sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name session.timeout.ms
        statistics.interval.ms transactional.id value.deserializer value.serializer
        """
    )
)
"""Refused or fixed for Spark only: librdkafka has them, or a client parses them itself."""
_OF_JAVA: Mapping[str, str] = {
    **{
        name: reason.replace(" kafka.", " ")
        for name, reason in java_names.REFUSED.items()
        if name not in PASSED
    },
    "default.api.timeout.ms": "calls that wait take a timeout; leave it out",
    "max.block.ms": "produce() does not wait: it raises BufferError when the queue is full; leave it out",
    "max.poll.records": "give the number to consume(); leave it out",
}
FIXED = {name: fixed for name, fixed in java_names.FIXED.items() if name not in PASSED}
"""Names of Java that may only have the value that holds anyway."""

_SERIALIZE = "serialize {} before they are produced: produce(topic, {}=serializer({}, context)); leave it out"
_OF_BOTH: Mapping[str, str] = {
    **_OF_JAVA,
    "key.deserializer": "deserialize the message's key; leave it out",
    "key.serializer": _SERIALIZE.format("keys", "key", "key"),
    "value.deserializer": "deserialize the message's value; leave it out",
    "value.serializer": _SERIALIZE.format("values", "value", "value"),
}
_METRICS = (
    "its transactions are several librdkafka producers that come and go: take ClientMetrics; leave it out"
)


@dataclass(frozen=True)
class ClientNames:
    """``refused``: by name what to write instead. ``own``: what is not passed to librdkafka. ``callbacks``: called in
    ``poll()``."""

    refused: Mapping[str, str]
    own: tuple[str, ...]
    callbacks: tuple[str, ...]


PRODUCER = ClientNames(
    refused={
        **_OF_BOTH,
        "delivery.report.only.error": "on_delivery is called for every record that has one: look at its err; leave it out",
        "on_delivery": "give on_delivery to produce(); leave it out",
        "partitioner": "the layout decides the partition of a key; leave it out",
        "statistics.interval.ms": _METRICS,
        "stats_cb": _METRICS,
        "transactional.id": "it is derived from the topic, which lets a partition change fence it; leave it out, and set"
        " commit.interval.ms to 0 where commit_transaction() is to end transactions",
    },
    own=("commit.interval.ms", "commit.max.records"),
    callbacks=("error_cb", "throttle_cb"),
)
CONSUMER = ClientNames(
    refused={
        **_OF_BOTH,
        "group.remote.assignor": "partitions are assigned round-robin by the members; leave it out",
    },
    own=(
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
    ),
    callbacks=("error_cb", "on_commit", "stats_cb", "throttle_cb"),
)
KEPT = ("logger", "oauth_cb")
"""Objects that every librdkafka client gets as they are."""
