"""librdkafka clients: their configuration, their errors, and the log ranges of partitions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # another class before Python 3.11
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import (
    ConfigError,
    DataLossError,
    ErrorCode,
    FencedError,
    OrderedKafkaError,
    RebalancedError,
    RequestError,
    UnavailableError,
)

_ATTEMPTS = 5
_AnswerT = TypeVar("_AnswerT")
_URL_SAFE = str.maketrans("+/", "-_", "=")
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
        # Of the admin client: no partition of a request has a leader, as while a broker starts.
        KafkaError._NOENT,
        KafkaError._RETRY,
        KafkaError._STATE,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        # A leader that has moved or come back; librdkafka marks only a transaction's errors as retriable itself.
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


_REBALANCED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)

OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
"""What librdkafka says of a position that the log does not hold."""

STALE_METADATA = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""What librdkafka says of partitions newer than its metadata, which it refreshes every five minutes by itself."""


NO_COORDINATOR = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""What librdkafka says when it may not look for the group's coordinator, which it does for every consumer. One that reads
assigned ranges needs none, and goes on."""


def client_properties(kafka: Mapping[str, str], **own: str | int | bool) -> dict[str, Any]:
    """librdkafka properties: the user's, and ours (underscores become dots), which win."""
    return {**kafka, **{name.replace("_", "."): value for name, value in own.items()}, "logger": _LOG}


def consumer_properties(kafka: Mapping[str, str], out_of_range: str = "error") -> dict[str, Any]:
    """Properties of a consumer that reads assigned ranges: never commits, sees the end of a partition.

    ``out_of_range``: librdkafka's ``auto.offset.reset``, for a position that the log does not hold.
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
    if error.code() in _REBALANCED:
        return RebalancedError(message)
    if error.code() in OUT_OF_RANGE:
        return DataLossError(message)
    if error.retriable() or error.code() in _UNAVAILABLE | STALE_METADATA:
        return UnavailableError(message)
    try:
        code = ErrorCode(error.code())
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return RequestError(code, message)


@dataclass(frozen=True)
class TopicLog:
    """What the brokers say of a topic: Kafka's id of it, and per partition the log start and end offsets.

    ``leader_epochs`` has the leader epoch (KIP-101) that an end was read under, where the broker told it.
    """

    topic_id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    leader_epochs: Mapping[int, int]


class LogRanges:
    """Log start and end offsets of partitions, from the brokers. ``timeout`` in seconds bounds each attempt."""

    def __init__(self, connection: Connection, *, timeout: float = 10.0) -> None:
        self._timeout = timeout
        self._servers = connection.bootstrap_servers
        self._kafka = connection.kafka
        alone = {k: v for k, v in connection.kafka.items() if k not in ("group.id", "isolation.level")}
        self._admin = AdminClient(client_properties(alone))
        # The admin client's own list_offsets leaks, and corrupts its memory when brokers do not answer in time.
        self._consumer: Consumer | None = None
        # Two that ask one consumer at the same time may starve each other.
        self._asking = threading.Lock()

    def cluster_id(self) -> str:
        """The cluster's id; raises UnavailableError when no broker answers."""
        doing = f"asking {self._servers} for the cluster id"
        result: str = wait_for(
            self._admin.describe_cluster(request_timeout=self._timeout), self._timeout, doing
        )
        return result.cluster_id  # type: ignore[attr-defined,no-any-return]

    def exists(self, topic: str) -> bool:
        """Whether the brokers know the topic. Other than a metadata request of librdkafka's it never creates one."""
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        try:
            asked[topic].result(self._timeout + 5.0)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise translate(error.args[0], f"asking {self._servers} for topic {topic!r}") from error
        except FutureTimeoutError as error:
            raise UnavailableError(
                f"{self._servers} did not say within {self._timeout:g} s whether topic {topic!r} exists"
            ) from error
        return True

    def log(self, topic: str, partitions: Collection[int]) -> TopicLog:
        """Log start and last stable offset (the high watermark under ``read_uncommitted``) of ``partitions``.

        Raises RequestError UNKNOWN_TOPIC_OR_PARTITION when there is no such topic.
        """
        return self._patiently(topic, lambda: self._ask(topic, partitions))

    def offsets_at(self, topic: str, times: Mapping[int, int]) -> dict[int, int | None]:
        """Per partition the offset of the first record that is not older than its time (milliseconds); None without one.

        As everywhere in Kafka the markers that end transactions count as records.
        """
        doing = f"asking {self._servers} for offsets by time of topic {topic!r}"

        def ask() -> dict[int, int | None]:
            found = self._offsets(topic, times, doing)
            return {p: one.offset if one.offset >= 0 else None for p, one in found.items()}

        return self._patiently(topic, ask)

    def _patiently(self, topic: str, ask: Callable[[], _AnswerT]) -> _AnswerT:
        """Ask again while brokers do not answer, or do not know yet what was created a moment ago."""
        retrying = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(0.05, max=1.0),
            retry=retry_if_exception_type(UnavailableError),
            before_sleep=lambda _: self._refresh(topic),
            reraise=True,
        )
        try:
            return retrying(ask)
        except UnavailableError as error:
            if self.exists(topic):
                raise
            raise unknown_topic(topic) from error

    def _ask(self, topic: str, partitions: Collection[int]) -> TopicLog:
        described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        doing = f"asking {self._servers} for the offsets of topic {topic!r}"
        starts = self._offsets(topic, dict.fromkeys(partitions, OFFSET_BEGINNING), doing)
        ends = self._offsets(topic, dict.fromkeys(partitions, OFFSET_END), doing)
        return TopicLog(
            # librdkafka prints ids in plain base64; org.apache.kafka.common.Uuid.toString is URL-safe.
            str(wait_for(described[topic], self._timeout, doing).topic_id).translate(_URL_SAFE),
            {p: one.offset for p, one in starts.items()},
            {p: one.offset for p, one in ends.items()},
            {p: one.leader_epoch for p, one in ends.items() if one.leader_epoch is not None},
        )

    def _offsets(self, topic: str, times: Mapping[int, int], doing: str) -> dict[int, TopicPartition]:
        """By partition what ListOffsets answers for a time, ``OFFSET_BEGINNING`` or ``OFFSET_END``."""
        if not times:
            return {}
        asked = [TopicPartition(topic, partition, time) for partition, time in times.items()]
        with self._asking:
            try:
                found = self._reader().offsets_for_times(asked, self._timeout)
            except KafkaException as error:
                raise translate(error.args[0], doing) from error
        for one in found:
            if one.error is not None:
                raise translate(one.error, f"{doing}, partition {one.partition}")
        return {one.partition: one for one in found}

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(consumer_properties(self._kafka))
        return self._consumer

    def _refresh(self, topic: str) -> None:
        # Asked for a topic that was deleted, a broker with auto.create.topics.enable would create it again.
        if not self.exists(topic):
            return
        try:
            with self._asking:
                self._reader().list_topics(topic, self._timeout)
        except KafkaException as error:
            raise translate(error.args[0], f"asking {self._servers} for topic {topic!r}") from error


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
