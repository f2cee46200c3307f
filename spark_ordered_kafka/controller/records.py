"""The JSON of the znodes (section "ZooKeeper" of the design) as typed values."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_ordered_kafka.client.schemas import HashName
from spark_ordered_kafka.controller.change import Change, FinishedChange
from spark_ordered_kafka.errors import ErrorCode, RequestError

PartitionStatus = Literal["live", "marked", "deleted"]


class Record(BaseModel):
    """Base of znode contents; fields of a newer version are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = 1


class TopicRecord(Record):
    """``/topics/<t>``."""

    topic_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    hash: HashName
    ordered_delivery: bool
    change: Change | None = None
    last_change: FinishedChange | None = None


class LayoutRecord(Record):
    """``/topics/<t>/layouts/<epoch>``; immutable. ``starts[p]`` and ``leader_epochs[p]`` of every Kafka partition.

    ``ordered_delivery``: whether writers were held to this layout until the next one.
    """

    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float
    ordered_delivery: bool = True


class PartitionRecord(Record):
    """``/topics/<t>/partitions/<p>``, of partitions removed by a shrink."""

    status: Literal["marked", "deleted"]
    since: float


class LeaderRecord(Record):
    """``/controller``, ephemeral."""

    id: str
    url: str
    epoch: int


class CreationRecord(Record):
    """``/admin/create_topics/<t>``: a creation begun in Kafka and not yet under management."""

    partitions: int
    replication_factor: int
    hash: HashName
    ordered_delivery: bool
    configs: dict[str, str] = Field(default_factory=dict)


_RecordT = TypeVar("_RecordT", bound=Record)


def parse(kind: type[_RecordT], data: bytes, path: str) -> _RecordT:
    """The record in a znode's ``data``; raises RequestError naming ``path`` when it is not one."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path} does not hold a {kind.__name__}: {error}"
        ) from error


def dump(record: Record) -> bytes:
    """A record as znode data."""
    return record.model_dump_json().encode()
