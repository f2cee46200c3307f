"""Topics and their partitions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from spark_ordered_kafka.client.schemas.base import (
    MAX_CONFIGS,
    Answer,
    Assignments,
    HashName,
    Int64,
    Many,
    Open,
    PartitionStatus,
    Request,
    Result,
    TimeoutMs,
)
from spark_ordered_kafka.client.schemas.changes import ChangeView, FinishedChangeView


class NewTopic(Request):
    """One topic of ``POST /v1/topics``. ``assignments`` stands for ``partitions`` and ``replication_factor``, whose
    defaults are 1, and 3 or the number of brokers."""

    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Assignments | None = None
    hash: str = "murmur3"
    ordered_delivery: bool = True
    configs: Annotated[dict[str, str], Field(max_length=MAX_CONFIGS)] = Field(default_factory=dict)


class CreateTopicRequest(NewTopic):
    """``POST /v1/topics`` of one topic, which is answered with a TopicResult."""

    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class CreateTopicsRequest(Request):
    """``POST /v1/topics`` of several topics, which is answered with TopicResults."""

    topics: Many[NewTopic]
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class DeleteTopicsRequest(Request):
    """``POST /v1/topic-deletions``."""

    topics: Many[str]
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class AdoptTopicRequest(Request):
    """``POST /v1/topics/{t}/adopt``. ``force`` takes the topic though its records lie elsewhere than ``hash`` says."""

    hash: str = "murmur2"
    force: bool = False
    validate_only: bool = False


class ReleaseTopicRequest(Request):
    """``POST /v1/topics/{t}/release``. ``force`` releases the topic though consumer groups have not read all that was written
    before its last partition change."""

    force: bool = False
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class AlterTopicRequest(Request):
    """``PATCH /v1/topics/{t}``. What is None stays as it is; a config of None goes back to Kafka's default."""

    ordered_delivery: bool | None = None
    configs: Annotated[dict[str, str | None], Field(max_length=MAX_CONFIGS)] = Field(default_factory=dict)
    force: bool = False
    validate_only: bool = False


class GroupPosition(Answer):
    """How far a consumer group has read a partition; ``offset`` None: it has committed nothing there."""

    group: str
    offset: int | None


class PartitionView(Answer):
    """A Kafka partition; ``marked``: removed by a shrink, still read; ``deleted``: removed and empty.

    Of a request with ``details``: ``log_start`` and ``log_end`` are offsets, ``size`` is bytes of the leader's log, and
    ``waiting_groups`` are the consumer groups that have not read a marked partition to its end. None is what is not known,
    such as of a partition whose leader does not answer.
    """

    partition: int
    status: Open[PartitionStatus]
    leader: int
    replicas: list[int]
    isr: list[int]
    log_start: int | None = None
    log_end: int | None = None
    size: int | None = None
    waiting_groups: list[GroupPosition] | None = None


class TransactionalIds(Answer):
    """Of a topic's writers: all that Kafka knows, those without a transaction, and of these those that a change has fenced
    and that were not used since. The last expire by themselves (``transactional.id.expiration.ms``)."""

    known: int
    idle: int
    fenced: int


class TopicView(Answer):
    """``GET /v1/topics/{t}``. ``transactional_ids``: of a request with ``details``, unless a broker does not answer.

    ``configs``: of a request with ``details``, what is set for the topic itself, if the caller may see it.

    ``stray_partitions`` were made by something else, or by a change that was taken back: what lies in them is delivered as
    misrouted, until an expansion takes them up.
    """

    topic: str
    topic_id: str
    cluster_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    hash: Open[HashName]
    ordered_delivery: bool
    change: ChangeView | None
    last_change: FinishedChangeView | None = None
    stray_partitions: list[int] = Field(default_factory=list)
    partitions: list[PartitionView]
    transactional_ids: TransactionalIds | None = None
    configs: dict[str, str] | None = None


class TopicSummary(Answer):
    """A row of ``GET /v1/topics``."""

    topic: str
    topic_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    hash: Open[HashName]
    ordered_delivery: bool
    change: ChangeView | None


class TopicList(Answer):
    """``GET /v1/topics``."""

    topics: list[TopicSummary]


class KafkaPartitionView(Answer):
    """A partition of any topic; ``leader`` is -1 without one."""

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]


class KafkaTopicView(Answer):
    """A topic of the cluster, under management (``managed``) or not. ``internal``: one of Kafka's own.

    Of a request with ``configs``, and of topics whose configuration the caller may see: ``configs`` is what is set for the
    topic itself, ``min_insync_replicas`` what holds for it, set or by default. Else both are None.
    """

    topic: str
    topic_id: str
    internal: bool
    managed: bool
    partitions: list[KafkaPartitionView]
    configs: dict[str, str] | None = None
    min_insync_replicas: int | None = None


class KafkaTopicList(Answer):
    """``GET /v1/kafka-topics``."""

    topics: list[KafkaTopicView]


class MisroutedReport(Request):
    """``POST /v1/topics/{t}/misrouted``: how many records a reading task found where their keys do not belong."""

    records: Int64


class DeleteRecordsRequest(Request):
    """``POST /v1/topics/{t}/delete-records``. ``partitions`` None: all that are marked for deletion."""

    partitions: Many[int] | None = None
    force: bool = False
    validate_only: bool = False


class PartitionRecords(Result):
    """A partition of ``POST /v1/topics/{t}/delete-records``: its log start after it."""

    partition: int
    log_start: int
    waiting_groups: list[GroupPosition] = Field(default_factory=list)


class DeletedRecords(Answer):
    """``POST /v1/topics/{t}/delete-records``."""

    topic: str
    partitions: list[PartitionRecords]
