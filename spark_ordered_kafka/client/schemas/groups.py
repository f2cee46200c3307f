"""Positions of consumer groups (KIP-253 ConsumerGroupPosition)."""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import Answer, Open, PartitionStatus


class GroupSummary(Answer):
    """A row of ``GET /v1/groups``. ``state`` is Kafka's name of the group's state."""

    group: str
    state: str


class GroupList(Answer):
    """``GET /v1/groups``, by name."""

    groups: list[GroupSummary]


class GroupMember(Answer):
    """The member of a consumer group that a partition is assigned to, as ``kafka-consumer-groups`` shows it."""

    consumer_id: str
    client_id: str
    host: str


class RequiredPosition(Answer):
    """``partition`` must be read to ``offset`` before a partition that waits for it may be read on."""

    partition: int
    offset: int


class PartitionPosition(Answer):
    """A group's position in a partition. ``position`` is the committed offset, None where there is none.

    ``log_end`` is the last stable offset; ``lag`` counts offsets from the position, or from the log start if that is
    behind it or there is no position, to the log end; both are None while the partition has no leader. ``waits_for`` is
    what the gate asks before the position's segment may be read, by committed offsets; empty for a partition that is not
    blocked.
    """

    partition: int
    status: Open[PartitionStatus]
    position: int | None
    log_end: int | None
    lag: int | None
    member: GroupMember | None
    waits_for: list[RequiredPosition]


class TopicPositions(Answer):
    """A group's positions in a topic. Without ``ordered_delivery`` no partition waits for another."""

    topic: str
    topic_id: str
    layout_epoch: int
    ordered_delivery: bool
    partitions: list[PartitionPosition]


class GroupPositions(Answer):
    """``GET /v1/groups/{g}/positions`` (KIP-253 ConsumerGroupPosition). ``state`` is Kafka's name of the group's state."""

    group: str
    state: str
    topics: list[TopicPositions]
