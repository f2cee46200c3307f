"""Znodes' JSON as typed values, and the records of the election."""

from __future__ import annotations

import gzip
import re
import zlib
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.json_texts import json_value
from spark_ordered_kafka.listed import listed

# Values that operators read stay plain text; gzip, so that "gunzip" shows the others.
_COMPRESSED_FROM = 4096


_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls gzip's format."""
_LARGEST = 256 * 1024 * 1024
"""Bytes of a record, a multiple of what a controller writes into 1 MB of gzip, which may hold 1 GB."""
# What pydantic may take for a number that is infinite or none, and would write again as null.
_INFINITE = re.compile(rb"NaN|Infinity|[eE]\+?[0-9]{3}|[0-9]{300}")
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,17}")
# Reasons in an error.
_SHOWN = 3


OPEN = ConfigDict(extra="allow", frozen=True)
"""Of what is written again: members of a newer controller are kept as they are."""


class NewerRecordError(RequestError):
    """Only a newer controller understands the record: nothing was changed, and that controller may lead soon."""

    def __init__(self, what: str) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION, f"{what}: a newer controller is needed to continue it"
        )

    @property
    def retriable(self) -> bool:
        return True


class UnreadableRecordError(RequestError):
    """A znode's content is invalid."""


class Record(BaseModel):
    """Base of znode contents.

    Unknown members are kept when the record is written again. ``version`` is raised where that is not enough: a record with
    a higher version than its class is only read, neither acted on nor written (D-221).
    """

    model_config = OPEN

    version: int = 1

    @property
    def is_newer(self) -> bool:
        """Whether only a newer controller understands the record well enough to act on it."""
        known: int = type(self).model_fields["version"].default
        return self.version > known


class LeaderRecord(Record):
    """``/controller``, ephemeral."""

    id: str
    url: str
    epoch: int


class CandidateRecord(Record):
    """``/election/<lock>``, ephemeral: a controller that leads, or a candidate."""

    id: str
    url: str


_RecordT = TypeVar("_RecordT", bound=Record)


def parse(kind: type[_RecordT], data: bytes, path: str) -> _RecordT:
    """The record in a znode's ``data``, compressed or not; raises UnreadableRecordError naming ``path`` when it is not one."""
    try:
        expanded = _expanded(data)
        if _INFINITE.search(expanded) is not None:
            json_value(expanded)
        return kind.model_validate_json(expanded)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        raise _unreadable(kind, path, listed(wrong, _SHOWN, _said, separator="; ")) from error
    except (ValueError, zlib.error) as error:
        raise _unreadable(kind, path, str(error)) from error


def _unreadable(kind: type[Record], path: str, reason: str) -> UnreadableRecordError:
    message = f"znode {path} does not hold a {kind.__name__}: {reason}"
    return UnreadableRecordError(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _said(error: ErrorDetails) -> str:
    field = ".".join(map(str, error["loc"]))
    return f"{field}: {error['msg']}" if field else error["msg"]


def _expanded(data: bytes) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    reader = zlib.decompressobj(_GZIP)
    expanded = reader.decompress(data, _LARGEST)
    if not reader.eof or reader.unused_data:
        raise ValueError(f"it is not gzip, or has more than {_LARGEST} bytes")
    return expanded


def number(data: str | bytes, path: str) -> int:
    """The number that a znode holds, or that is its name; raises UnreadableRecordError naming ``path`` for anything else."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if _NUMBER.fullmatch(raw) is None:
        raise UnreadableRecordError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path}: {data[:100]!r} is not a number: remove it"
        )
    return int(raw)


def owned(record: _RecordT, path: str) -> _RecordT:
    """``record``, which may be acted on and written again; raises NewerRecordError naming ``path`` when it must not."""
    if record.is_newer:
        raise NewerRecordError(f"znode {path} is a newer controller's (version {record.version})")
    return record


def dump(record: Record) -> bytes:
    """A record as znode data: JSON, compressed where it is large, since a ZooKeeper packet is limited to 1 MB."""
    data = record.model_dump_json(by_alias=True).encode()
    return data if len(data) < _COMPRESSED_FROM else gzip.compress(data, mtime=0)
