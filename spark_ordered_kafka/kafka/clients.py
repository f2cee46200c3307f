"""librdkafka's errors as ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # another class before Python 3.11
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConsumerGroupDescription

from spark_ordered_kafka.errors import (
    DataLossError,
    ErrorCode,
    FencedError,
    OrderedKafkaError,
    RebalancedError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.codes import KINDS, Kind, kind_of
from spark_ordered_kafka.kafka.values import PartitionId

OUT_OF_RANGE = frozenset(code for code, kind in KINDS.items() if kind is Kind.LOSS)
"""What librdkafka says of a position that the log does not hold."""

STALE_METADATA = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What librdkafka says of partitions that are newer than its metadata, or have another leader. It refreshes that every five
minutes by itself, and where it fetches."""


NO_COORDINATOR = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""What librdkafka says when it may not look for the group's coordinator. A consumer of assigned ranges needs none
(D-122)."""


# Of codes that ErrorCode does not have: librdkafka's own, and rare ones of brokers.
_CODES_OF_KINDS = {
    Kind.DATA: ErrorCode.CORRUPT_MESSAGE,
    Kind.CONFIGURATION: ErrorCode.INVALID_CONFIG,
    Kind.OURS: ErrorCode.INVALID_REQUEST,
}


_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "; the topic takes less (max.message.bytes): set batch.size to that, 1000000 by default,"
    " unless a single record is too large",
    KafkaError.INVALID_RECORD: "; a topic with cleanup.policy=compact takes no record without a key",
    KafkaError.INVALID_TIMESTAMP: "; the topic takes timestamps that are within message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms of now",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "; set transaction.timeout.ms, 60000 by default",
    KafkaError.INVALID_SESSION_TIMEOUT: "; set session.timeout.ms, 45000 by default, as the brokers allow it"
    " (group.min.session.timeout.ms, group.max.session.timeout.ms)",
}

_ClientT = TypeVar("_ClientT")


def new_client(kind: Callable[[dict[str, Any]], _ClientT], properties: Mapping[str, Any]) -> _ClientT:
    """A client of confluent-kafka, a Consumer for example.

    Raises UnavailableError while the process has no place for one more: each takes one of its thread-local keys (D-488).
    """
    try:
        return kind(dict(properties))
    except RuntimeError as error:
        raise UnavailableError(
            f"this process can have no further Kafka client now ({error}): the system gives it a limited number of thread-local"
            " keys, 1024 on Linux, of which each client takes one. Close some, or use several processes"
        ) from error


def translate(error: KafkaError, doing: str) -> OrderedKafkaError:
    """librdkafka's error as one of ours; ``doing`` completes "while ...".

    Fenced, retriable and abortable errors become retriable ones; what no retry can mend becomes a RequestError.
    """
    message = f"while {doing}: {error.name()}: {error.str()}{_HINTS.get(error.code(), '')}"
    kind = kind_of(error)
    if kind is Kind.FENCED:
        return FencedError(message)
    if kind is Kind.REBALANCED:
        return RebalancedError(message)
    if kind is Kind.LOSS:
        return DataLossError(message)
    if kind is Kind.RETRIABLE:
        return UnavailableError(message)
    return RequestError(_code(error, kind), message)


@contextmanager
def translating(doing: str) -> Iterator[None]:
    """Raises what :func:`translate` makes of librdkafka's errors in the block."""
    try:
        yield
    except KafkaException as error:
        raise translate(error.args[0], doing) from error


def is_end_of_client(error: KafkaError) -> bool:
    """Whether librdkafka's client does nothing any more."""
    return error.code() == KafkaError._FATAL or bool(error.fatal())


def _code(error: KafkaError, kind: Kind) -> ErrorCode:
    if error.code() == KafkaError._AUTHENTICATION:
        return ErrorCode.SASL_AUTHENTICATION_FAILED
    if error.code() < ErrorCode.UNKNOWN_SERVER_ERROR:
        return _CODES_OF_KINDS.get(kind, ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        return ErrorCode(error.code())
    except ValueError:
        return _CODES_OF_KINDS.get(kind, ErrorCode.UNKNOWN_SERVER_ERROR)


def refresh_metadata(consumer: Consumer, topic: str, timeout: float) -> ClusterMetadata:
    """Let a consumer learn who leads the topic's partitions, and of new ones. Raises what :func:`translate` makes of errors."""
    with translating(f"asking for topic {topic!r}"):
        found: ClusterMetadata = consumer.list_topics(topic, timeout)
        return found


def log_range(consumer: Consumer, topic: str, partition: int, timeout: float) -> tuple[int, int]:
    """Where a partition's log begins and ends, from its leader. Raises as :func:`refresh_metadata`."""
    tp, doing = TopicPartition(topic, partition), f"asking for the log range of {topic}-{partition}"
    try:
        return consumer.get_watermark_offsets(tp, timeout)
    except KafkaException as error:
        if error.args[0].code() not in STALE_METADATA:
            raise translate(error.args[0], doing) from error
    refresh_metadata(consumer, topic, timeout)
    with translating(doing):
        return consumer.get_watermark_offsets(tp, timeout)


def leader_epochs(
    consumer: Consumer, tps: Collection[PartitionId], timeout: float
) -> dict[PartitionId, int | None]:
    """The current leader epochs of partitions, as their leaders say; without those that have none to say it.

    Raises as :func:`refresh_metadata`.
    """
    asked = [TopicPartition(topic, partition, OFFSET_END) for topic, partition in tps]
    with translating("asking for leader epochs"):
        found = consumer.offsets_for_times(asked, timeout)
    return {(one.topic, one.partition): one.leader_epoch for one in found if one.error is None}


def unknown_topic(topic: str) -> RequestError:
    """What is raised for a topic that the brokers do not have."""
    return RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")


def wait_for(future: Future[Any], timeout: float, doing: str) -> Any:
    """The future's result; its failure or its absence after ``timeout`` (seconds) as one of our errors."""
    try:
        return future.result(timeout + 5.0)
    except KafkaException as error:
        raise translate(error.args[0], doing) from error
    except FutureTimeoutError as error:
        raise UnavailableError(f"while {doing}: no answer within {timeout:g} s") from error


def described_group(admin: AdminClient, group: str, timeout: float) -> ConsumerGroupDescription | None:
    """What the group's coordinator says of it; None where there is no such group. Raises what :func:`translate` makes of errors."""
    future = admin.describe_consumer_groups([group], request_timeout=timeout)[group]
    try:
        found: ConsumerGroupDescription = wait_for(future, timeout, f"describing group {group!r}")
    except RequestError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise
    return found
