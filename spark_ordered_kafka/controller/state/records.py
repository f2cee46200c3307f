"""The JSON of the znodes (docs/architecture.md, "What is in ZooKeeper") as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args

from pydantic import Field, PrivateAttr, SerializerFunctionWrapHandler, field_serializer, field_validator

from spark_ordered_kafka.client.schemas import KINDS, HashName, Open
from spark_ordered_kafka.client.schemas.base import Int32, Int64
from spark_ordered_kafka.controller.change.protocol import STEPS, Change
from spark_ordered_kafka.controller.state.change import AnyChange, FinishedChange, NewerChange, own_change
from spark_ordered_kafka.controller.state.paths import topic_path
from spark_ordered_kafka.controller.zk.records import Record, owned

RemovedStatus = Literal["marked", "deleted"]
REMOVED_STATUSES: tuple[RemovedStatus, ...] = get_args(RemovedStatus)


class TopicRecord(Record):
    """``/topics/<t>``. Layouts before ``first_layout_epoch`` were folded: no records of their epochs exist.

    ``ended_changes`` has the ids of the last changes, ``created_by`` the id of the request that created the topic: requests
    that are sent again are recognized by them. ``deleting_since``: the topic is about to leave management, and no other module
    may use it any more; ``releasing``: Kafka keeps it, which a version that does not know this leaves to one that does.
    """

    topic_id: str
    initial_partition_count: Int32
    undeleted_partition_count: Int32
    layout_epoch: Int32
    first_layout_epoch: Int32 = 0
    hash: Open[HashName]
    ordered_delivery: bool
    change: AnyChange | None = None
    last_change: FinishedChange | None = None
    ended_changes: tuple[str, ...] = ()
    created_by: str | None = None
    deleting_since: float | None = None
    releasing: bool = False
    _management: int = PrivateAttr(default=0)

    @property
    def management(self) -> int:
        """Tells apart the times that a topic was under management; 0 of a record that was not read.

        A release keeps Kafka's topic id, and after a new adoption epochs begin at 0 again (D-345).
        """
        return self._management

    def under(self, management: int) -> TopicRecord:
        """This record, as read from the znode that ``management`` stands for."""
        self._management = management
        return self

    def deleted(self, statuses: Mapping[int, Open[RemovedStatus]]) -> set[int]:
        """The removed partitions that are empty; the mark of a live one may be left over (D-020)."""
        count = self.undeleted_partition_count
        return {p for p, status in statuses.items() if status == "deleted" and p >= count}

    @property
    def is_newer(self) -> bool:
        """Also while a newer controller's change of the topic has not ended."""
        return super().is_newer or isinstance(self.change, NewerChange)

    @field_validator("change", mode="before")
    @classmethod
    def _read_change(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        is_known = data.get("kind") in KINDS and data.get("step", STEPS[0]) in STEPS
        return _gathered(Change, data) if is_known else NewerChange.model_validate(data)

    @field_validator("last_change", mode="before")
    @classmethod
    def _read_last_change(cls, data: Any) -> Any:
        return _gathered(FinishedChange, data) if isinstance(data, Mapping) else data

    @field_serializer("change", "last_change", mode="wrap")
    def _write_change(self, change: object, write: SerializerFunctionWrapHandler) -> Any:
        data = write(change)
        if isinstance(change, (Change, FinishedChange)):
            data = {**change.unknown, **{name: value for name, value in data.items() if name != "unknown"}}
        return data


def owned_topic(record: TopicRecord, topic: str) -> TopicRecord:
    """The topic's record; raises NewerRecordError if only a newer controller may change it."""
    own_change(topic, record.change)
    return owned(record, topic_path(topic))


def _gathered(kind: type[Change] | type[FinishedChange], data: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a dataclass; those that it does not know go to ``unknown``."""
    names = {field.name for field in fields(kind)} - {"unknown"}
    known = {name: value for name, value in data.items() if name in names}
    return {**known, "unknown": {name: value for name, value in data.items() if name not in names}}


class LayoutRecord(Record):
    """``/topics/<t>/layouts/<epoch>``; immutable. ``starts[p]`` and ``leader_epochs[p]`` of every Kafka partition.

    ``ordered_delivery``: whether writers had to use this layout until the next one. ``stray_from``: the first partition that
    was not created by a change and is covered by this layout (see ``foreign_partitions``).
    """

    undeleted_partition_count: Int32
    starts: list[Int64]
    leader_epochs: list[Int32]
    committed_at: float
    ordered_delivery: bool = True
    stray_from: int | None = None


class PartitionRecord(Record):
    """``/topics/<t>/partitions/<p>``, of a partition removed by a shrink."""

    status: Open[RemovedStatus]
    since: float


class CreationRecord(Record):
    """``/admin/create_topics/<t>``: a topic whose creation in Kafka has begun and that is not yet under management.

    ``assignments``: replicas of every partition, if the topic is too large for one request to Kafka. ``request``: id of the
    request, if it has one.
    """

    partitions: int
    replication_factor: int
    hash: Open[HashName]
    ordered_delivery: bool
    configs: dict[str, str] = Field(default_factory=dict)
    assignments: list[list[int]] = Field(default_factory=list)
    request: str | None = None

    @property
    def is_newer(self) -> bool:
        """Also of a topic whose hash is not known."""
        return super().is_newer or self.hash not in get_args(HashName)


class DeletionRecord(Record):
    """``/admin/delete_topics/<t>``: a deletion that has begun and not ended; the topic's record has ``deleting_since``."""

    topic_id: str


class ReleaseRecord(Record):
    """``/admin/release_topics/<t>``: a release that has begun and not ended; the topic's record is ``releasing``."""

    topic_id: str
