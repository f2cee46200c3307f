"""librdkafka clients: their configuration, their errors, and the log ranges of partitions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ConfigError,
    DataLossError,
    ErrorCode,
    FencedError,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)

_ATTEMPTS = 5
_LOG = logging.getLogger("spark_ordered_kafka.librdkafka")
_FENCE_FACILITIES = frozenset({"TXNERR", "FATAL", "ADDPARTS", "ADDOFFSETS", "GETPID", "PRODUCE", "TERMINATE"})


def _is_news(record: logging.LogRecord) -> bool:
    """False for what librdkafka logs of a fenced producer: every change fences some, and it is raised as well."""
    facility = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return _LOG.isEnabledFor(logging.DEBUG) or facility not in _FENCE_FACILITIES


_LOG.addFilter(_is_news)

_FENCED = frozenset(
    {
        # Of an instance that has been fenced before: its first error said so, a fresh instance says it again if it
        # was another one.
        KafkaError._FATAL,
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
_UNAVAILABLE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._NODE_UPDATE,
        KafkaError._RETRY,
        KafkaError._STATE,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)


STALE_METADATA = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""What librdkafka says of partitions newer than its metadata, which it refreshes every five minutes by itself."""


def client_properties(kafka: Mapping[str, str], **own: str | int | bool) -> dict[str, Any]:
    """librdkafka properties: the user's, and ours (underscores become dots), which win."""
    return {**kafka, **{name.replace("_", "."): value for name, value in own.items()}, "logger": _LOG}


def consumer_properties(kafka: Mapping[str, str], out_of_range: str = "error") -> dict[str, Any]:
    """Properties of a consumer that reads assigned ranges: never commits, sees the end of a partition.

    ``out_of_range``: librdkafka's ``auto.offset.reset``, for a position that the log no longer holds.
    A long poll left over from the last range would delay the next one, hence the short ``fetch.wait.max.ms``.
    """
    defaults = {
        "group.id": "ordered-kafka-reader",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": "10",
        "queued.min.messages": "200000",
    }
    return client_properties(
        {**defaults, **kafka},
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset=out_of_range,
    )


def check_properties(connection: Connection) -> None:
    """Let librdkafka itself judge the ``kafka.*`` options. Raises ConfigError with its words for a wrong one."""
    try:
        Consumer(consumer_properties(connection.kafka)).close()
    except KafkaException as error:
        raise ConfigError(
            "options kafka.*", ", ".join(sorted(connection.kafka)), f"librdkafka says: {error.args[0].str()}"
        ) from error


def translate(error: KafkaError, doing: str) -> OrderedKafkaError:
    """librdkafka's error as one of ours; ``doing`` completes "while ...".

    Fenced, retriable and abortable errors become retriable ones; what no retry can mend becomes a RequestError.
    """
    message = f"while {doing}: {error.name()}: {error.str()}"
    if error.code() in _FENCED:
        return FencedError(message)
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return DataLossError(message)
    if error.retriable() or error.code() in _UNAVAILABLE | STALE_METADATA:
        return UnavailableError(message)
    try:
        code = ErrorCode(error.code())
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return RequestError(code, message)


class LogRanges:
    """Log start and end offsets of partitions, from the brokers. ``timeout`` in seconds bounds each call."""

    def __init__(self, connection: Connection, *, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self._servers = connection.bootstrap_servers
        committed = connection.kafka.get("isolation.level", "read_committed") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        kafka = {k: v for k, v in connection.kafka.items() if k not in ("group.id", "isolation.level")}
        self._admin = AdminClient(client_properties(kafka))

    def cluster_id(self) -> str:
        """The cluster's id; raises UnavailableError when no broker answers."""
        doing = f"asking {self._servers} for the cluster id"
        result: str = wait_for(
            self._admin.describe_cluster(request_timeout=self._timeout), self._timeout, doing
        )
        return result.cluster_id  # type: ignore[attr-defined,no-any-return]

    def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Per partition the last stable offset (the high watermark under ``read_uncommitted``)."""
        return self._offsets(topic, partitions, OffsetSpec.latest())

    def starts(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Per partition the log start offset."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())

    def _offsets(self, topic: str, partitions: Collection[int], spec: OffsetSpec) -> dict[int, int]:
        if not partitions:
            return {}
        retrying = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(0.05, max=1.0),
            retry=retry_if_exception_type(UnavailableError),
            before_sleep=lambda _: self._refresh(topic),
            reraise=True,
        )
        return retrying(self._ask, topic, partitions, spec)

    def _ask(self, topic: str, partitions: Collection[int], spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        futures = self._admin.list_offsets(
            wanted, isolation_level=self._isolation, request_timeout=self._timeout
        )
        doing = f"asking {self._servers} for the offsets of topic {topic!r}"
        return {tp.partition: wait_for(future, self._timeout, doing).offset for tp, future in futures.items()}

    def _refresh(self, topic: str) -> None:
        try:
            self._admin.list_topics(topic, self._timeout)
        except KafkaException as error:
            raise translate(error.args[0], f"asking {self._servers} for topic {topic!r}") from error


def wait_for(future: Future[Any], timeout: float, doing: str) -> Any:
    """The future's result; its failure or its absence after ``timeout`` (seconds) as one of our errors."""
    try:
        return future.result(timeout + 5.0)
    except KafkaException as error:
        raise translate(error.args[0], doing) from error
    except TimeoutError as error:
        raise UnavailableError(f"while {doing}: no answer within {timeout:g} s") from error
