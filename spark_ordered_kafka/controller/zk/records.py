"""The JSON of znodes as typed values, and those of the election."""

from __future__ import annotations

import gzip
import zlib
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_ordered_kafka.errors import ErrorCode, RequestError

# What one looks at by hand stays plain; gzip, so that "gunzip" shows the rest.
_COMPRESSED_FROM = 4096


_GZIP_MAGIC = b"\x1f\x8b"


class Record(BaseModel):
    """Base of znode contents; fields of a newer version are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = 1


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
