"""The JSON of the znodes (section "ZooKeeper" of the design) as typed values."""

from __future__ import annotations

import gzip
import zlib
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_ordered_kafka.client.schemas import HashName
from spark_ordered_kafka.controller.change import Change, FinishedChange
from spark_ordered_kafka.errors import ErrorCode, RequestError

PartitionStatus = Literal["live", "marked", "deleted"]

# What one looks at by hand stays plain; gzip, so that "gunzip" shows the rest.
_COMPRESSED_FROM = 4096
_GZIP_MAGIC = b"\x1f\x8b"


class Record(BaseModel):
    """Base of znode contents; fields of a newer version are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = 1


class TopicRecord(Record):
    """``/topics/<t>``. Layouts before ``first_layout_epoch`` were folded: nothing is left of their epochs.

    ``ended_changes`` are the ids of the last few, ``created_by`` is the id of the request that made the topic: they tell
    requests that come again.
    """

    topic_id: str
    initial_partition_count: int
    undeleted_partition_count: int
    layout_epoch: int
    first_layout_epoch: int = 0
    hash: HashName
    ordered_delivery: bool
    change: Change | None = None
    last_change: FinishedChange | None = None
    ended_changes: tuple[str, ...] = ()
    created_by: str | None = None
    deleting_since: float | None = None


class LayoutRecord(Record):
    """``/topics/<t>/layouts/<epoch>``; immutable. ``starts[p]`` and ``leader_epochs[p]`` of every Kafka partition.

    ``ordered_delivery``: whether writers were held to this layout until the next one. ``stray_from``: the first of the
    partitions that it covers though no change has made them (see ``covering``).
    """

    undeleted_partition_count: int
    starts: list[int]
    leader_epochs: list[int]
    committed_at: float
    ordered_delivery: bool = True
    stray_from: int | None = None


class PartitionRecord(Record):
    """``/topics/<t>/partitions/<p>``, of partitions removed by a shrink."""

    status: Literal["marked", "deleted"]
    since: float


class LeaderRecord(Record):
    """``/controller``, ephemeral. ``token`` is the key under which other controllers, which alone can read this, sign what they
    hand on to the leader."""

    id: str
    url: str
    epoch: int
    token: str = Field(default="", repr=False)


class CandidateRecord(Record):
    """``/election/<lock>``, ephemeral: a controller that leads, or would."""

    id: str
    url: str


class CreationRecord(Record):
    """``/admin/create_topics/<t>``: a creation begun in Kafka and not yet under management.

    ``assignments``: the replicas of every partition, of a topic that one request cannot make. ``request``: its id, if it
    has one.
    """

    partitions: int
    replication_factor: int
    hash: HashName
    ordered_delivery: bool
    configs: dict[str, str] = Field(default_factory=dict)
    assignments: list[list[int]] = Field(default_factory=list)
    request: str | None = None


class DeletionRecord(Record):
    """``/admin/delete_topics/<t>``: a deletion begun and not ended; the topic's record has ``deleting_since``."""

    topic_id: str


_RecordT = TypeVar("_RecordT", bound=Record)


def parse(kind: type[_RecordT], data: bytes, path: str) -> _RecordT:
    """The record in a znode's ``data``, compressed or not; raises RequestError naming ``path`` when it is not one."""
    try:
        return kind.model_validate_json(gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data)
    except (ValidationError, OSError, EOFError, zlib.error) as error:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path} does not hold a {kind.__name__}: {error}"
        ) from error


def dump(record: Record) -> bytes:
    """A record as znode data: JSON, compressed where it is large, since a ZooKeeper packet may have 1 MB in all."""
    data = record.model_dump_json().encode()
    return data if len(data) < _COMPRESSED_FROM else gzip.compress(data, mtime=0)
