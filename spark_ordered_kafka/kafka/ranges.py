"""Where the logs of partitions begin and end, from their leaders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # another class before Python 3.11
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import DescribeClusterResult
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.attempts import retriable_failure
from spark_ordered_kafka.kafka.clients import new_client, translate, translating, unknown_topic
from spark_ordered_kafka.kafka.descriptions import Descriptions
from spark_ordered_kafka.kafka.logins import BrokerErrors
from spark_ordered_kafka.kafka.properties import consumer_properties
from spark_ordered_kafka.listed import listed

# Seconds that leaders may be away, as by Kafka's default.api.timeout.ms: brokers that are busy elect late.
_PATIENCE = 60.0
# Look-ups without a result after which a topic counts as gone: brokers hear late of one that was just made.
_LOOKS = 5
# Topics in an error.
_SHOWN = 3
_AnswerT = TypeVar("_AnswerT")
_URL_SAFE = str.maketrans("+/", "-_", "=")


@dataclass(frozen=True)
class Reached:
    """An offset that a log is known to have reached, and the epoch of the leader that answered, -1 if not known."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True)
class LogQuestion:
    """Which partitions of a topic are asked about.

    Args:
        spare: those of them that are left out while they have no leader; for any other one that is an error.
        reached: what is known of the logs. A broker that no longer leads a partition may still answer for it, with an
            earlier leader epoch and an end that lies before that: then it is asked again. An end of the same or a later
            epoch is believed: there the log has been truncated.
    """

    partitions: Collection[int]
    spare: Collection[int] = ()
    reached: Mapping[int, Reached] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicLog:
    """What the brokers say of a topic: Kafka's id of it, and per partition the log start and end offsets.

    ``leader_epochs`` has the leader epoch (KIP-101) that an end was read under, if known.
    """

    topic_id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    leader_epochs: Mapping[int, int]


class LogRanges:
    """Log start and end offsets of partitions, from the brokers. ``timeout`` in seconds bounds each attempt.

    Where the brokers refuse the login or a certificate, every method raises what :meth:`BrokerErrors.check` raises, at once.
    """

    def __init__(self, connection: Connection, *, timeout: float = 10.0) -> None:
        self._timeout = timeout
        # A new client may be needed for another attempt (D-230).
        self._describing = timeout / 3
        self._servers = connection.bootstrap_servers
        self._kafka = connection.kafka
        self._errors = BrokerErrors(self._kafka)
        self._descriptions = self._new_descriptions()
        # An admin client's list_offsets leaks, and corrupts its memory when brokers do not answer (D-121).
        self._consumer: Consumer | None = None
        # Two that ask one consumer at the same time may starve each other.
        self._asking = threading.Lock()

    def __enter__(self) -> LogRanges:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the clients of librdkafka. May be called twice; nothing can be asked after it."""
        self._end_consumer()
        # Retries leave cycles with this object: until Python looks for such, the client's threads and sockets would stay (D-386).
        vars(self).pop("_descriptions", None)

    def cluster(self) -> DescribeClusterResult:
        """The cluster's id and brokers; raises UnavailableError when none of them answers."""
        doing = f"asking {self._servers} for the cluster id"

        def ask() -> DescribeClusterResult:
            described = self._descriptions.cluster(self._describing)
            result: DescribeClusterResult = self._answer(described, doing)
            return result

        return self._retrying(self._timeout)(ask)

    def cluster_id(self) -> str:
        """The cluster's id, as :meth:`cluster`."""
        return str(self.cluster().cluster_id)

    def exists(self, topic: str) -> bool:
        """Whether the brokers know the topic. Other than a metadata request of librdkafka's it never creates one."""
        return self._retrying(self._timeout)(self._is_known, topic)

    def log(self, topic: str, asked: LogQuestion) -> TopicLog:
        """Log start and last stable offset (the high watermark under ``read_uncommitted``) of partitions.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, there is no such topic.
            UnavailableError: a leader does not answer, or only a former one does.
        """

        def ask() -> TopicLog:
            return self._checked({topic: asked}, self._descriptions.topics([topic], self._describing))[topic]

        return self._patiently(topic, ask)

    def ready_logs(self, asked: Mapping[str, LogQuestion]) -> dict[str, TopicLog]:
        """As :meth:`log` of the topics whose leaders answer at once, with as few requests as for one.

        The others are missing; if any leader is not the one that it seems to be, all are. :meth:`log` waits for those, or says
        what is wrong.
        """
        if not asked:
            return {}
        described = self._descriptions.topics(list(asked), self._describing)
        deadline = time.monotonic() + self._timeout
        ready = {}
        for topic, question in asked.items():
            left = max(0.0, deadline - time.monotonic())
            self._errors.await_done(described[topic], left, self._descriptions.poll)
            if _is_led(described[topic], question):
                ready[topic] = question
        found: dict[str, TopicLog] = {}
        retriable_failure(lambda: found.update(self._checked(ready, described)))
        return found

    def offsets_at(self, topic: str, times: Mapping[int, int]) -> dict[int, int | None]:
        """Per partition the offset of the first record that is not older than its time (milliseconds); None without one.

        As everywhere in Kafka the markers that end transactions count as records.
        """
        doing = f"asking {self._servers} for offsets by time of topic {topic!r}"

        def ask() -> dict[int, int | None]:
            found = self._offsets({(topic, p): at for p, at in times.items()}, doing)
            return {p: one.offset if one.offset >= 0 else None for (_, p), one in found.items()}

        return self._patiently(topic, ask)

    def _patiently(self, topic: str, ask: Callable[[], _AnswerT]) -> _AnswerT:
        """Ask again while brokers do not answer, or do not know yet what was created a moment ago."""
        missed = 0

        def prepare() -> None:
            nonlocal missed
            missed = 0 if self._refresh(topic) else missed + 1
            if missed == _LOOKS:
                raise unknown_topic(topic)

        return self._retrying(_PATIENCE, prepare)(ask)

    def _retrying(self, patience: float, prepare: Callable[[], None] = lambda: None) -> Retrying:
        """Asks again while brokers do not answer, until ``patience`` seconds have passed; ``prepare`` goes before."""
        return Retrying(
            stop=stop_after_delay(patience),
            wait=wait_exponential(0.05, max=1.0),
            retry=retry_if_exception_type(UnavailableError),
            after=lambda _: self._begin_anew(),
            before_sleep=lambda _: prepare(),
            retry_error_callback=self._give_up,
        )

    def _begin_anew(self) -> None:
        # librdkafka asks one broker for descriptions, and waits for it for minutes when it is down (D-230).
        # Not closed: another thread may be waiting for an answer.
        self._descriptions = self._new_descriptions()

    def _give_up(self, state: RetryCallState) -> Any:
        """Let the next question go to the bootstrap servers: all brokers that the consumer knows may have moved."""
        self._end_consumer()
        return cast("Future[Any]", state.outcome).result()

    def _end_consumer(self) -> None:
        with self._asking:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in with these from the next connection on."""
        self._kafka = {**self._kafka, "sasl.username": username, "sasl.password": password}
        # The client so far would still report what was refused before.
        self._begin_anew()
        with self._asking:
            if self._consumer is not None:
                self._consumer.set_sasl_credentials(username, password)

    def _new_descriptions(self) -> Descriptions:
        self._errors = BrokerErrors(self._kafka)
        return Descriptions({**self._kafka, "error_cb": self._errors})

    def _checked(
        self, asked: Mapping[str, LogQuestion], described: Mapping[str, Future[Any]]
    ) -> dict[str, TopicLog]:
        logs = self._ask(asked, described)
        for topic, log in logs.items():
            _check_reached(topic, log, asked[topic].reached)
        return logs

    def _ask(
        self, asked: Mapping[str, LogQuestion], described: Mapping[str, Future[Any]]
    ) -> dict[str, TopicLog]:
        doing = f"asking {self._servers} for the offsets of topic {listed(list(asked), _SHOWN, repr)}"
        partitions = {topic: question.partitions for topic, question in asked.items()}
        for topic, question in asked.items():
            if question.spare:
                # One partition without a leader would keep all others waiting.
                found = self._answer(described[topic], doing).partitions
                led = {partition.id for partition in found if partition.leader is not None}
                partitions[topic] = [p for p in question.partitions if p not in question.spare or p in led]
        wanted = [(topic, p) for topic, own in partitions.items() for p in own]
        starts = self._offsets(dict.fromkeys(wanted, OFFSET_BEGINNING), doing)
        ends = self._offsets(dict.fromkeys(wanted, OFFSET_END), doing)
        logs = {}
        for topic, own in partitions.items():
            epochs = {p: ends[topic, p].leader_epoch for p in own}
            logs[topic] = TopicLog(
                # librdkafka prints ids in plain base64; org.apache.kafka.common.Uuid.toString is URL-safe.
                str(self._answer(described[topic], doing).topic_id).translate(_URL_SAFE),
                {p: starts[topic, p].offset for p in own},
                {p: ends[topic, p].offset for p in own},
                {p: epoch for p, epoch in epochs.items() if epoch is not None},
            )
        return logs

    def _answer(self, future: Future[Any], doing: str) -> Any:
        return self._errors.wait_for(future, self._timeout, doing, self._descriptions.poll)

    def _is_known(self, topic: str) -> bool:
        try:
            described = self._descriptions.topic(topic, self._describing)
            self._errors.await_done(described, self._describing + 5.0, self._descriptions.poll)
            described.result(0.0)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise translate(error.args[0], f"asking {self._servers} for topic {topic!r}") from error
        except FutureTimeoutError as error:
            raise UnavailableError(
                f"{self._servers} did not say within {self._describing:g} s whether topic {topic!r} exists"
            ) from error
        return True

    def _offsets(
        self, times: Mapping[tuple[str, int], int], doing: str
    ) -> dict[tuple[str, int], TopicPartition]:
        """By topic and partition what ListOffsets answers for a time, ``OFFSET_BEGINNING`` or ``OFFSET_END``."""
        if not times:
            return {}
        asked = [TopicPartition(topic, partition, at) for (topic, partition), at in times.items()]
        with self._asking, translating(doing):
            found = self._reader().offsets_for_times(asked, self._timeout)
        for one in found:
            if one.error is not None:
                raise translate(one.error, f"{doing}, partition {one.partition}")
        return {(one.topic, one.partition): one for one in found}

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = new_client(Consumer, consumer_properties(self._kafka))
        return self._consumer

    def _refresh(self, topic: str) -> bool:
        """Let the consumer look again who leads the partitions; whether the topic is there."""
        try:
            # Asked for a topic that was deleted, a broker with auto.create.topics.enable would create it again.
            if not self._is_known(topic):
                return False
        except OrderedKafkaError as error:
            # The caller is about to ask again, and sees the failure then.
            if not error.retriable:
                raise
            return True
        if retriable_failure(partial(self._find_leaders, topic)) is not None:
            # The consumer may know only brokers that are gone.
            self._end_consumer()
        return True

    def _find_leaders(self, topic: str) -> None:
        with self._asking, translating(f"asking {self._servers} for topic {topic!r}"):
            self._reader().list_topics(topic, self._timeout)


def _check_reached(topic: str, log: TopicLog, reached: Mapping[int, Reached]) -> None:
    for partition, known in reached.items():
        end, epoch = log.ends.get(partition), log.leader_epochs.get(partition, -1)
        if end is not None and end < known.offset and epoch < known.leader_epoch:
            raise UnavailableError(
                f"the log of {topic}-{partition} has reached offset {known.offset} under leader epoch"
                f" {known.leader_epoch}, and a broker that led it before, under epoch {epoch}, says that it ends at {end}"
            )


def _is_led(described: Future[Any], asked: LogQuestion) -> bool:
    """Whether a description has come in which all partitions have leaders that need them."""
    if not described.done() or described.exception() is not None:
        return False
    led = {one.id for one in described.result().partitions if one.leader is not None}
    return all(p in led or p in asked.spare for p in asked.partitions)
