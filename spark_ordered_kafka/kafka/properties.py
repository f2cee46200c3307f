"""librdkafka's properties of each kind of client: the user's, our defaults, and what must be as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_ordered_kafka.kafka.client_log import LOG
from spark_ordered_kafka.kafka.known_brokers import with_known_brokers

_DEFAULTS = {
    # The first of growing pauses, 100 by default: a new client waits half of it before its second connection (D-066).
    "reconnect.backoff.ms": "20",
    # As Java's clients: librdkafka's 10 s would keep a query waiting after brokers have come back.
    "reconnect.backoff.max.ms": "1000",
    # By default librdkafka starts over with every failed connection while no broker answers, so that its pauses never
    # grow, and queues a line for each, which only poll() takes out (D-228).
    "metadata.recovery.strategy": "none",
}
_MAX_AGE, _REFRESH = "metadata.max.age.ms", "topic.metadata.refresh.interval.ms"
# librdkafka allows a day, and counts the microseconds in 32 bits: with more than this a topic is unknown to it every
# second, and its partitions are not read for as long as half a minute (D-316).
_LONGEST_AGE = (2**31 - 1) // 1000
_LARGEST_AGE = 86_400_000
_FETCH_WAIT, _SHORT_WAIT = "fetch.wait.max.ms", 10
# More librdkafka refuses.
_LONGEST_WAIT = 300_000
_QUEUE_RECORDS = 500_000
_PRODUCER_DEFAULTS = {
    "linger.ms": "5",
    "compression.type": "lz4",
    # The first of growing pauses, 100 by default: brokers turn a transaction away while they end the last one (D-066).
    "retry.backoff.ms": "5",
}
_MESSAGE_TIMEOUT = "message.timeout.ms"
# librdkafka's default.
_TRANSACTION_TIMEOUT_MS = 60_000
_MEMBER_DEFAULTS = {
    # The reasons are in D-102. Members learn of a rebalance, which every expansion brings, by a heartbeat.
    "heartbeat.interval.ms": "1000",
    # The end of a partition is known when a fetch comes back empty; others may wait for that.
    "fetch.wait.max.ms": "100",
    # A full queue would stop fetching for a second.
    "fetch.queue.backoff.ms": "10",
    "isolation.level": "read_committed",
    # confluent-kafka's own: a member may outlive all addresses of its cluster, and poll() empties its queues (D-228).
    "metadata.recovery.strategy": "rebootstrap",
    "reconnect.backoff.ms": "100",
}

# What an admin client warns of, and what it cannot have where a transactional producer can.
_NOT_OF_ADMIN = frozenset(
    {
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "group.id",
        "isolation.level",
        "linger.ms",
        "message.timeout.ms",
        "queue.buffering.max.ms",
    }
)


def client_properties(kafka: Mapping[str, Any], **own: str | int | bool) -> dict[str, Any]:
    """librdkafka properties: the user's, and ours (underscores become dots), which win."""
    return {
        **_DEFAULTS,
        **kafka,
        **_max_age(kafka),
        **_servers(kafka),
        **{name.replace("_", "."): value for name, value in own.items()},
        # librdkafka lets brokers create what a producer or an admin client asks for, also a topic that another tool has just
        # deleted, as far as Kafka's own setting goes (D-460).
        "allow.auto.create.topics": "false",
        "logger": kafka.get("logger", LOG),
    }


def _servers(kafka: Mapping[str, Any]) -> dict[str, str]:
    given = kafka.get("bootstrap.servers")
    return {} if given is None else {"bootstrap.servers": with_known_brokers(given)}


def _whole_number(kafka: Mapping[str, Any], name: str) -> int | None:
    """The value of a property as librdkafka reads it; None where it is missing, or no number, which librdkafka refuses."""
    try:
        return int(str(kafka[name]), 0)
    except (KeyError, ValueError):
        return None


def _cut(kafka: Mapping[str, Any], limits: Mapping[str, int], largest: int | None = None) -> dict[str, str]:
    """The values of ``kafka`` above their limit, cut to it; librdkafka refuses those above ``largest``, so they stay."""
    values = {name: _whole_number(kafka, name) for name in limits}
    return {
        name: str(limits[name])
        for name, value in values.items()
        if value is not None and value > limits[name] and (largest is None or value <= largest)
    }


def _max_age(kafka: Mapping[str, Any]) -> dict[str, str]:
    """``metadata.max.age.ms`` where librdkafka would take one that it cannot count."""
    # By default three times the other; what librdkafka refuses it has to see.
    name, factor = (_MAX_AGE, 1) if _MAX_AGE in kafka else (_REFRESH, 3)
    given = _whole_number(kafka, name)
    is_longer = given is not None and _LONGEST_AGE < given * factor <= _LARGEST_AGE
    return {_MAX_AGE: str(_LONGEST_AGE)} if is_longer else {}


def consumer_properties(kafka: Mapping[str, str], out_of_range: str = "error") -> dict[str, Any]:
    """Properties of a consumer that reads assigned ranges: never commits, sees the end of a partition.

    ``out_of_range``: librdkafka's ``auto.offset.reset``, for a position that the log does not hold.
    A long poll left over from the last range would delay the next one, hence the short ``fetch.wait.max.ms``: what there
    is to read has been written, so that a longer one gains nothing (D-318). The limits of the queue bound memory, and
    ``fetch.queue.backoff.ms`` keeps it filled (D-113).
    """
    defaults = {
        "group.id": "ordered-kafka-reader",
        "isolation.level": "read_committed",
        _FETCH_WAIT: str(_SHORT_WAIT),
        "queued.min.messages": "50000",
        "queued.max.messages.kbytes": "16384",
        "fetch.queue.backoff.ms": "10",
    }
    return client_properties(
        {**defaults, **kafka, **_cut(kafka, {_FETCH_WAIT: _SHORT_WAIT}, _LONGEST_WAIT)},
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset=out_of_range,
    )


def member_properties(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of a member of an ordered consumer group: commits by itself, and keeps its own positions."""
    return client_properties(
        {**_MEMBER_DEFAULTS, **kafka},
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        partition_assignment_strategy="roundrobin",
        auto_offset_reset="error",
    )


def admin_properties(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of an admin client, of those of a reader or a writer: librdkafka judges it as a plain producer."""
    return client_properties({name: value for name, value in kafka.items() if name not in _NOT_OF_ADMIN})


def producer_properties(kafka: Mapping[str, Any], transactional_id: str) -> dict[str, Any]:
    """Properties of a transactional producer."""
    return client_properties(
        {**_PRODUCER_DEFAULTS, **kafka, **_within_transaction(kafka)},
        transactional_id=transactional_id,
        enable_idempotence=True,
        queue_buffering_max_messages=_QUEUE_RECORDS,
    )


def transaction_timeout_ms(kafka: Mapping[str, Any]) -> int:
    """After how many milliseconds brokers abort a transaction."""
    given = _whole_number(kafka, "transaction.timeout.ms")
    return _TRANSACTION_TIMEOUT_MS if given is None else given


def _within_transaction(kafka: Mapping[str, Any]) -> dict[str, str]:
    """The timeouts that outlast a transaction, cut to its own: librdkafka refuses them, Java's producer does not (D-317)."""
    transaction = transaction_timeout_ms(kafka)
    limits = {
        "socket.timeout.ms": transaction - 100,
        "delivery.timeout.ms": transaction,
        _MESSAGE_TIMEOUT: transaction,
    }
    # Said, since librdkafka compares it with linger.ms only then before the first record.
    is_given = kafka.keys() & {"delivery.timeout.ms", _MESSAGE_TIMEOUT}
    return _cut(kafka, limits) | ({} if is_given else {_MESSAGE_TIMEOUT: str(transaction)})


def ledger_properties(kafka: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Properties of a consumer of a writer's ledger. Under ``read_committed`` librdkafka asks for stable offsets, so a commit
    in doubt is waited for.
    """
    return client_properties(
        # No warnings: a writer's properties are a producer's, of which a consumer says that it ignores them.
        {**kafka, "log_level": "3"},
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
