"""The controller's HTTP API as typed Python calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.layouts import LayoutCalls
from spark_ordered_kafka.client.log_dir_calls import LogDirCalls
from spark_ordered_kafka.client.paths import segment, topic_path
from spark_ordered_kafka.client.reassignments import ReassignmentCalls
from spark_ordered_kafka.client.takeover import settled
from spark_ordered_kafka.client.transport import new_key
from spark_ordered_kafka.client.typed import Options, TypedTransport, query
from spark_ordered_kafka.client.waits import DRAIN_TIMEOUT, patience_of
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.credentials import NO_CREDENTIALS, ControllerCredentials
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.updates import updated


class ControllerClient(LayoutCalls, ReassignmentCalls, LogDirCalls):
    """Typed, synchronous client of the controller. Safe to share between threads.

    Any of several controllers will do, and another one is asked when it does not answer. While none answers, they are asked
    again for ``retry_for`` seconds, so that a take-over shows as a delay. What may have been done and must not be done twice
    is never sent again: creations and alterations have a key by which controllers know them again, so they are.

    Args:
        urls: of the controllers, separated by commas, or one by one.
        timeout: seconds for a controller to accept a connection, and then to answer.
        retry_for: seconds in which the URLs are asked again and again; 0: each once. None: 15 with several URLs, 0 with
            one.
        reason: why this client changes things, for the controller's audit log; it may demand one.
        credentials: what the controllers are shown.

    Every method raises UnavailableError when no active controller answers (or, where its message says so, when it is not
    known whether it did what was asked), ReviewPendingError when the request waits for a second principal,
    LayoutChangingError while a change is closing, RequestError with the answer's code for every other refusal, ConfigError
    for an argument that cannot be sent, ClosedError after :meth:`close`.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        timeout: float = 10.0,
        retry_for: float | None = None,
        reason: str | None = None,
        credentials: ControllerCredentials = NO_CREDENTIALS,
    ) -> None:
        self._transport: TypedTransport = TypedTransport(
            urls, timeout=timeout, retry_for=retry_for, reason=reason, credentials=credentials
        )
        self._call = self._transport.ask

    @classmethod
    def of(
        cls, connection: Connection, *, timeout: float = 10.0, retry_for: float | None = None
    ) -> ControllerClient:
        """A client of the controllers that belong to a cluster, with the credentials that were given for them."""
        return cls(
            connection.controller_url,
            timeout=timeout,
            retry_for=retry_for,
            credentials=connection.credentials,
        )

    @property
    def urls(self) -> tuple[str, ...]:
        """The controllers' URLs."""
        return self._transport.urls

    # -- topics -------------------------------------------------------------------------------------------------

    def topics(self) -> schemas.TopicList:
        """All topics under management."""
        return self._get(schemas.TopicList, "/v1/topics")

    def topic(self, topic: str, *, details: bool = False) -> schemas.TopicView:
        """Counts, epoch, hash, change in progress and the partitions with their status.

        ``details`` adds each partition's log and what waits for it, which asks brokers and coordinators.
        """
        patience = DRAIN_TIMEOUT if details else None
        return self._get(schemas.TopicView, topic_path(topic), details=details, extra_timeout=patience)

    def kafka_topics(self, topics: Sequence[str] = (), *, configs: bool = False) -> schemas.KafkaTopicList:
        """Topics of the cluster, under management or not; empty: all. Those that do not exist are left out.

        ``configs`` adds their configuration.
        """
        patience = DRAIN_TIMEOUT if configs else None
        path = "/v1/kafka-topics"
        return self._get(schemas.KafkaTopicList, path, topic=topics, configs=configs, extra_timeout=patience)

    def create_topic(self, request: schemas.CreateTopicRequest) -> schemas.TopicResult:
        """Create a topic under management."""
        return self._post(schemas.TopicResult, "/v1/topics", request, key=new_key())

    def create_topics(self, request: schemas.CreateTopicsRequest) -> schemas.TopicResults:
        """Create several topics under management; a result per topic."""
        key = new_key()

        def ask(items: Sequence[int], _: float | None) -> list[schemas.TopicResult]:
            some = updated(request, topics=[request.topics[index] for index in items])
            return self._post(schemas.TopicResults, "/v1/topics", some, key=key).topics

        return schemas.TopicResults(topics=settled(ask, len(request.topics), None))

    def delete_topic(
        self, topic: str, *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> schemas.TopicResult:
        """Delete a topic under management, with all it holds; returns when it is gone."""
        params = query(validate_only=validate_only, timeout_ms=timeout_ms)
        patience = patience_of(timeout_ms)
        return self._call(
            schemas.TopicResult, "DELETE", topic_path(topic), params=params, extra_timeout=patience
        )

    def delete_topics(self, request: schemas.DeleteTopicsRequest) -> schemas.TopicResults:
        """Delete several topics under management; a result per topic."""
        return self._post(schemas.TopicResults, "/v1/topic-deletions", request)

    def leader_epochs(self, topic: str, partitions: Sequence[int] | None = None) -> schemas.LeaderEpochsView:
        """KIP-253's PartitionLeaderEpochsForPartitions; ``None`` asks for every partition."""
        wanted = None if partitions is None else ",".join(map(str, partitions))
        return self._get(schemas.LeaderEpochsView, topic_path(topic, "leader-epochs"), partitions=wanted)

    def adopt_topic(self, topic: str, request: schemas.AdoptTopicRequest) -> schemas.TopicResult:
        """Take a topic that exists in Kafka under management."""
        return self._post(schemas.TopicResult, topic_path(topic, "adopt"), request)

    def release_topic(self, topic: str, request: schemas.ReleaseTopicRequest) -> schemas.TopicResult:
        """Release a topic from management: Kafka keeps it with its records, ordered writers and readers end with an error."""
        return self._post(schemas.TopicResult, topic_path(topic, "release"), request)

    def alter_topic(
        self, topic: str, request: schemas.AlterTopicRequest, *, wait: float | None = None
    ) -> schemas.TopicResult:
        """Alter ordered delivery, which is a change of layout, or Kafka's configuration of the topic."""
        key = new_key()

        def ask(_: Sequence[int], seconds: float | None) -> list[schemas.TopicResult]:
            options = _waits(seconds, key=key)
            return [self._call(schemas.TopicResult, "PATCH", topic_path(topic), request, **options)]

        return settled(ask, 1, wait)[0]

    def delete_records(self, topic: str, request: schemas.DeleteRecordsRequest) -> schemas.DeletedRecords:
        """Delete the records of partitions marked for deletion; the result of each says whether it was done."""
        path = topic_path(topic, "delete-records")
        return self._post(schemas.DeletedRecords, path, request, extra_timeout=DRAIN_TIMEOUT)

    def report_misrouted(self, topic: str, records: int) -> None:
        """Let the controller count records that lie where their keys do not belong."""
        body = schemas.MisroutedReport(records=records)
        self._post(schemas.Result, topic_path(topic, "misrouted"), body)

    # -- writers ------------------------------------------------------------------------------------------------

    def take_writer_name(self, topic: str | None) -> schemas.WriterName:
        """A name for a one-off writer to ``topic`` (None: to several). Asked for once: a writer can do without (D-075)."""
        body = schemas.WriterNameRequest(topic=topic)
        return self._post(schemas.WriterName, "/v1/writer-names", body, retry_for=0.0)

    def release_writer_name(self, topic: str | None, writer: str, nonce: str) -> None:
        """Give the name back, after the last write under it."""
        body = schemas.WriterNameRelease(topic=topic, writer=writer, nonce=nonce)
        self._post(schemas.Result, "/v1/writer-names/release", body, retry_for=0.0)

    # -- changes ------------------------------------------------------------------------------------------------

    def alter_partition_counts(
        self, request: schemas.PartitionCountsRequest, *, wait: float | None = None
    ) -> schemas.TopicResults:
        """Start partition changes; a result per topic. ``wait`` (seconds) waits for their end, also when another
        controller takes them over."""
        key = new_key()

        def ask(items: Sequence[int], seconds: float | None) -> list[schemas.TopicResult]:
            some = updated(request, topics=[request.topics[index] for index in items])
            path = "/v1/partition-counts"
            return self._post(schemas.TopicResults, path, some, **_waits(seconds, key=key)).topics

        return schemas.TopicResults(topics=settled(ask, len(request.topics), wait))

    def alter_replication_factors(
        self, request: schemas.ReplicationFactorsRequest, *, wait: float | None = None
    ) -> schemas.TopicResults:
        """Let Kafka give partitions more or fewer replicas; a result per topic. ``wait`` (seconds) waits for the end."""
        path = "/v1/replication-factors"
        return self._post(schemas.TopicResults, path, request, **_waits(wait, repeatable=True))

    def change(self, topic: str) -> schemas.TopicChange:
        """The change in progress on the topic, and the one that ended last."""
        return self._get(schemas.TopicChange, topic_path(topic, "change"))

    def cancel_change(self, topic: str) -> schemas.TopicResult:
        """Ask for the change in progress to be taken back; possible until its boundaries are read."""
        return self._call(schemas.TopicResult, "DELETE", topic_path(topic, "change"))

    def autoscale(self) -> schemas.AutoscaleList:
        """Load, decisions and changes of automatic partition counts; observations are those of the leader alone."""
        return self._get(schemas.AutoscaleList, "/v1/autoscale")

    def healing(self) -> schemas.HealingView:
        """Brokers, findings, proposals and decisions of self-healing; observations are those of the leader alone."""
        return self._get(schemas.HealingView, "/v1/healing")

    def brokers(self) -> schemas.BrokerList:
        """Brokers with racks, hosted replicas, limit and capacity."""
        return self._get(schemas.BrokerList, "/v1/brokers")

    def set_guard_rails(self, broker: int, request: schemas.GuardRailsRequest) -> schemas.BrokerView:
        """Limit how many replicas a broker may host (KIP-578); the broker as it is then."""
        path = f"/v1/brokers/{broker}/guard-rails"
        return self._call(schemas.BrokerView, "PUT", path, request)

    # -- groups -------------------------------------------------------------------------------------------------

    def groups(self) -> schemas.GroupList:
        """The consumer groups that the caller may describe, without the ledgers of writers."""
        return self._get(schemas.GroupList, "/v1/groups", extra_timeout=DRAIN_TIMEOUT)

    def group_positions(self, group: str, topic: str | None = None) -> schemas.GroupPositions:
        """How far a consumer group has read, and what its blocked partitions wait for (KIP-253 ConsumerGroupPosition).

        ``topic`` None: in all topics under management that it has committed for, or is assigned.
        """
        path = f"/v1/groups/{segment(group)}/positions"
        return self._get(schemas.GroupPositions, path, topic=topic, extra_timeout=DRAIN_TIMEOUT)

    # -- reviews ------------------------------------------------------------------------------------------------

    def reviews(self) -> schemas.ReviewList:
        """Requests that wait for a second principal, and those decided about lately."""
        return self._get(schemas.ReviewList, "/v1/reviews")

    def review(self, review_id: int) -> schemas.ReviewView:
        """A request that waits, or what became of it."""
        return self._get(schemas.ReviewView, f"/v1/reviews/{review_id}")

    def approve_review(self, review_id: int) -> schemas.ReviewView:
        """Approve another principal's request, which is then carried out; its ``answer`` has the result."""
        path = f"/v1/reviews/{review_id}/approve"
        return self._post(schemas.ReviewView, path, extra_timeout=DRAIN_TIMEOUT)

    def discard_review(self, review_id: int) -> schemas.ReviewView:
        """Discard a request that waits: it is not carried out."""
        return self._post(schemas.ReviewView, f"/v1/reviews/{review_id}/discard")

    # -- health -------------------------------------------------------------------------------------------------

    def healthz(self) -> schemas.Result:
        """Whether a controller's process answers, active or not; raises if none does."""
        return self._get(schemas.Result, "/healthz")

    def readyz(self) -> schemas.Readiness:
        """The role of a controller that reaches Kafka and ZooKeeper; raises the reason if none does."""
        return self._get(schemas.Readiness, "/readyz")

    def controllers(self) -> schemas.ControllerList:
        """The live controllers, and which of them leads."""
        return self._get(schemas.ControllerList, "/v1/controllers")

    def diagnostics(self) -> schemas.Diagnostics:
        """What the controller that answers says of itself, of ZooKeeper and of its rights in Kafka."""
        return self._get(schemas.Diagnostics, "/v1/diagnostics", extra_timeout=DRAIN_TIMEOUT)

    def foreign_producers(self, topic: str) -> schemas.ForeignProducers:
        """Producers that are no ordered writers, and that Kafka has not forgotten."""
        path = topic_path(topic, "foreign-producers")
        return self._get(schemas.ForeignProducers, path, extra_timeout=DRAIN_TIMEOUT)

    def hanging_transactions(self, topic: str) -> schemas.HangingTransactionList:
        """Transactions in the topic's logs that no coordinator will end."""
        path = topic_path(topic, "hanging-transactions")
        return self._get(schemas.HangingTransactionList, path, extra_timeout=DRAIN_TIMEOUT)

    def caller(self) -> schemas.CallerView:
        """Who this client is for the controller that answers, and what that one demands of callers."""
        return self._get(schemas.CallerView, "/v1/caller")

    def audit_log(self, limit: int = 200) -> schemas.AuditLines:
        """The newest lines, at most ``limit``, that the controller which answers has written to the audit log since its start."""
        return self._get(schemas.AuditLines, "/v1/audit-log", limit=limit)

    def metrics(self) -> str:
        """Counters of the controller that answered last, in Prometheus' text format."""
        return self._transport.text("/metrics")


def _waits(seconds: float | None, **options: Unpack[Options]) -> Options:
    """The options of a call that waits so long for what it begins; None: not at all."""
    if seconds is None:
        return {**options, "extra_timeout": None}
    if not 0.0 < seconds < math.inf:
        raise ConfigError("wait", seconds, "a number of seconds above 0 is needed")
    return {**options, "extra_timeout": seconds, "params": {"wait": f"{seconds:g}"}}
