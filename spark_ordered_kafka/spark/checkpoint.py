"""Checkpoints of streaming queries: directories as Spark's ``MicroBatchExecution`` writes them, read and copied.

``offsets/N`` and ``commits/N`` (``OffsetSeqLog``, ``CommitLog``) have a version, then a line of JSON, then in ``offsets`` a line
per source. A restart reads the last two batches, whose numbers are the versions of ``state/`` and what sinks know a batch
by: so a copy keeps them, and the query's id in ``metadata``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.json_texts import json_value

NO_OFFSET = "-"
"""Of a source that has read nothing (``SERIALIZED_VOID_OFFSET``)."""
NOTE = "ordered-kafka-migration.json"
"""Says in a new checkpoint what it was made of; Spark does not look at it."""
_VERSION = "v1"
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Batch:
    """A micro-batch that is committed. ``offsets`` is its end by source; ``metadata`` and ``commit`` are as they are."""

    number: int
    metadata: str
    offsets: tuple[str, ...]
    commit: bytes

    def to_bytes(self) -> bytes:
        """The file in ``offsets``."""
        return "\n".join((_VERSION, self.metadata, *self.offsets)).encode()


@dataclass(frozen=True)
class Checkpoint:
    """The last batch of a checkpoint, and the one before unless it is the first; ``stateful``: it has keyed state."""

    directory: Path
    batches: tuple[Batch, ...]
    stateful: bool

    @property
    def last(self) -> Batch:
        """The last batch."""
        return self.batches[-1]


def local_directory(option: str, value: str) -> Path:
    """The directory of a path or a ``file:`` URI, absolute; raises ConfigError for another URI."""
    try:
        parts = urlsplit(value)
    except ValueError as error:  # of brackets in what stands for a host
        raise ConfigError(option, value, f"a directory is needed ({error})") from error
    if parts.scheme == "file":
        return _reachable(option, value, Path(unquote(parts.path)))
    if len(parts.scheme) > 1:
        hint = "a directory of this machine is needed: copy the checkpoint here, and the new one back"
        raise ConfigError(option, value, f"{hint} (hdfs dfs -get, aws s3 cp --recursive)")
    return _reachable(option, value, Path(value))


def _reachable(option: str, value: str, path: Path) -> Path:
    try:
        path.exists()
    except (
        OSError,
        ValueError,
    ) as error:  # a name that is too long or no text, or a directory that may not be entered
        raise ConfigError(option, value, f"it cannot be read: {error}") from error
    return path.absolute()


def read_checkpoint(option: str, directory: Path) -> Checkpoint:
    """The checkpoint in ``directory``, which was given as ``option``.

    Raises ConfigError: it is none, has no batch, or its last batch is not committed.
    """
    try:
        there = (directory / "metadata").is_file() and (directory / "offsets").is_dir()
    except OSError as error:
        raise ConfigError(option, str(directory), f"it cannot be read: {error}") from error
    if not there:
        hint = (
            "it is no checkpoint of a streaming query, which has the file metadata and the directory offsets"
        )
        raise ConfigError(option, str(directory), hint)
    planned = _numbers(directory / "offsets")
    if not planned:
        hint = "the query has planned no batch: begin a new one, with startingOffsets"
        raise ConfigError(option, str(directory), hint)
    last = planned[-1]
    if last not in _numbers(directory / "commits"):
        hint = f"batch {last} is planned and not committed: run the query once more with the trigger availableNow, until it ends"
        raise ConfigError(option, str(directory), hint)
    # Spark reads the one before, too.
    wanted = [number for number in (last - 1, last) if number >= 0]
    batches = tuple(_read_batch(option, directory, number) for number in wanted)
    return Checkpoint(directory, batches, any((directory / "state").glob("*")))


def last_batch(directory: Path) -> int:
    """The number of the last batch that is planned; -1: none is."""
    return max(_numbers(directory / "offsets"), default=-1)


def _numbers(directory: Path) -> list[int]:
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _read_batch(option: str, directory: Path, number: int) -> Batch:
    path = directory / "offsets" / str(number)
    commit = directory / "commits" / str(number)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        # A commit that was lost, or was never written, of the batch before the last one is not needed.
        committed = commit.read_bytes() if commit.exists() else b""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(option, str(directory), f"{path} cannot be read: {error}") from error
    if lines[0] != _VERSION or len(lines) < 3:
        hint = f"offsets/{number} begins with {lines[0][:20]!r} and has {len(lines)} lines: {_VERSION}, a line of JSON and a"
        raise ConfigError(option, str(directory), f"{hint} line per source are needed")
    return Batch(number, lines[1], tuple(line for line in lines[2:] if line), committed)


def read_note(directory: Path) -> dict[str, Any] | None:
    """What the checkpoint was made of, if it was made by :func:`write_checkpoint`."""
    path = directory / NOTE
    if not path.is_file():
        return None
    try:
        note = json_value(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError("the checkpoint", str(directory), f"{path} cannot be read: {error}") from error
    return note if isinstance(note, dict) else None


def write_checkpoint(
    option: str,
    old: Checkpoint,
    directory: Path,
    batches: Sequence[Batch],
    replaced: Collection[int],
    note: Mapping[str, Any],
) -> None:
    """Make the checkpoint ``directory``, absent or empty, from ``old``, which was given as ``option`` and stays as it is.

    ``batches`` stand for those of ``old``; what the sources ``replaced`` have kept is left out. The directory is there whole, or
    not at all. Raises ConfigError: a query writes to ``old``.
    """
    made = directory.with_name(f".{directory.name}.migrating")
    shutil.rmtree(made, ignore_errors=True)  # what an attempt that was cut off has left
    made.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(old.directory, made, ignore=_left_out(old.directory, replaced))
        for log in ("offsets", "commits"):
            (made / log).mkdir()
        for batch in batches:
            (made / "offsets" / str(batch.number)).write_bytes(batch.to_bytes())
            if batch.commit:
                (made / "commits" / str(batch.number)).write_bytes(batch.commit)
        (made / NOTE).write_text(json.dumps(note, indent=2), encoding="utf-8")
        if last_batch(old.directory) != old.last.number:
            hint = (
                f"batch {old.last.number} was the last one a moment ago: the query is running. Stop it first"
            )
            raise ConfigError(option, str(old.directory), hint)
        made.rename(directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _left_out(root: Path, replaced: Collection[int]) -> Any:
    def names(path: str, found: list[str]) -> set[str]:
        if Path(path) == root:
            return {"offsets", "commits", NOTE} & set(found)
        if Path(path) == root / "sources":
            return {str(index) for index in replaced} & set(found)
        return set()

    return names
