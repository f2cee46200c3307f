"""Checkpoints of streaming queries: directories as Spark's ``MicroBatchExecution`` writes them, read and copied.

``offsets/N`` and ``commits/N`` (``OffsetSeqLog``, ``CommitLog``) have a version, then a line of JSON, then in ``offsets`` a line
per source. A restart reads the last two batches, whose numbers are the versions of ``state/`` and what sinks know a batch
by: so a copy keeps them, and the query's id in ``metadata``, the file that completes it (D-312).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.json_texts import json_value
from spark_ordered_kafka.spark.files import Files

NO_OFFSET = "-"
"""Of a source that has read nothing (``SERIALIZED_VOID_OFFSET``)."""
NOTE = "ordered-kafka-migration.json"
"""Says in a new checkpoint what it was made of; Spark does not look at it."""
_METADATA = "metadata"
_UNFINISHED = b"This checkpoint is not complete: run ordered-kafka migrate-checkpoint again."
"""Stands in ``metadata`` until everything else is there. Spark refuses it, since it is no JSON."""
_COPIES = 8
"""Files that are copied at a time: in an object store each takes many times as long as its bytes."""
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

    directory: str
    batches: tuple[Batch, ...]
    stateful: bool

    @property
    def last(self) -> Batch:
        """The last batch."""
        return self.batches[-1]


def read_checkpoint(option: str, files: Files, directory: str) -> Checkpoint:
    """The checkpoint in ``directory``, which was given as ``option``.

    Raises ConfigError: it is none, has no batch, its last batch is not committed, or it cannot be read.
    """
    try:
        return _read(option, files, directory)
    except OSError as error:
        raise ConfigError(option, directory, f"it cannot be read: {error}") from error


def _read(option: str, files: Files, directory: str) -> Checkpoint:
    if not {_METADATA, "offsets"} <= set(files.names(directory)):
        hint = (
            "it is no checkpoint of a streaming query, which has the file metadata and the directory offsets"
        )
        raise ConfigError(option, directory, hint)
    if is_unfinished(files, directory):
        raise ConfigError(option, directory, "it is not complete: the migration that makes it was cut off")
    planned = _numbers(files, directory, "offsets")
    if not planned:
        hint = "the query has planned no batch: begin a new one, with startingOffsets"
        raise ConfigError(option, directory, hint)
    last = planned[-1]
    if last not in _numbers(files, directory, "commits"):
        hint = f"batch {last} is planned and not committed: run the query once more with the trigger availableNow, until it ends"
        raise ConfigError(option, directory, hint)
    # Spark reads the one before, too.
    wanted = [number for number in (last - 1, last) if number >= 0]
    batches = tuple(_read_batch(option, files, directory, number) for number in wanted)
    return Checkpoint(directory, batches, bool(files.names(f"{directory}/state")))


def last_batch(files: Files, directory: str) -> int:
    """The number of the last batch that is planned; -1: none is. Raises OSError as ``files``."""
    return max(_numbers(files, directory, "offsets"), default=-1)


def _numbers(files: Files, directory: str, log: str) -> list[int]:
    return sorted(int(name) for name in files.names(f"{directory}/{log}") if _NUMBER.fullmatch(name))


def _read_batch(option: str, files: Files, directory: str, number: int) -> Batch:
    content = files.read(f"{directory}/offsets/{number}")
    if content is None:
        raise ConfigError(option, directory, f"offsets/{number} is not there, which a restart reads, too")
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(option, directory, f"offsets/{number} cannot be read: {error}") from error
    if lines[0] != _VERSION or len(lines) < 3:
        hint = f"offsets/{number} begins with {lines[0][:20]!r} and has {len(lines)} lines: {_VERSION}, a line of JSON and a"
        raise ConfigError(option, directory, f"{hint} line per source are needed")
    # A commit that was lost, or was never written, of the batch before the last one is not needed.
    committed = files.read(f"{directory}/commits/{number}") or b""
    return Batch(number, lines[1], tuple(line for line in lines[2:] if line), committed)


def read_note(files: Files, directory: str) -> dict[str, Any] | None:
    """What the checkpoint was made of, if it was made by :func:`write_checkpoint`. Raises OSError as ``files``."""
    return _json_object(files.read(f"{directory}/{NOTE}"))


def is_unfinished(files: Files, directory: str) -> bool:
    """Whether this is what :func:`write_checkpoint` has left that was cut off. Raises OSError as ``files``."""
    return NOTE in files.names(directory) and _json_object(files.read(f"{directory}/{_METADATA}")) is None


def is_free(files: Files, directory: str) -> bool:
    """Whether :func:`write_checkpoint` may write there: it is absent, empty or unfinished. Raises OSError as ``files``."""
    return not files.names(directory) or is_unfinished(files, directory)


def _json_object(content: bytes | None) -> dict[str, Any] | None:
    """None: there is none, or it is torn."""
    try:
        value = None if content is None else json_value(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def write_checkpoint(
    option: str,
    files: Files,
    old: Checkpoint,
    directory: str,
    batches: Sequence[Batch],
    replaced: Collection[int],
    note: Mapping[str, Any],
) -> None:
    """Make the checkpoint ``directory`` from ``old``, which was given as ``option`` and stays as it is.

    ``batches`` stand for those of ``old``; what the sources ``replaced`` have kept is left out. The directory must be free
    (:func:`is_free`). Until it is complete Spark refuses it; after an error it is gone.

    Raises:
        ConfigError: a query writes to ``old``.
        OSError: as ``files``.
    """
    if not is_free(files, directory):
        raise FileExistsError(f"{directory} is not empty any more")
    files.delete(directory)  # what an attempt that was cut off has left
    try:
        files.write(f"{directory}/{NOTE}", json.dumps(note, indent=2).encode())
        files.write(f"{directory}/{_METADATA}", _UNFINISHED)
        _copy(files, old.directory, directory, _kept(files.below(old.directory), replaced))
        for batch in batches:
            files.write(f"{directory}/offsets/{batch.number}", batch.to_bytes())
            if batch.commit:
                files.write(f"{directory}/commits/{batch.number}", batch.commit)
        if last_batch(files, old.directory) != old.last.number:
            hint = (
                f"batch {old.last.number} was the last one a moment ago: the query is running. Stop it first"
            )
            raise ConfigError(option, old.directory, hint)
        files.copy(f"{old.directory}/{_METADATA}", f"{directory}/{_METADATA}")
    except BaseException:
        with suppress(OSError):
            files.delete(directory)
        raise


def _copy(files: Files, source: str, target: str, paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(_COPIES) as pool:
        for _ in pool.map(lambda path: files.copy(f"{source}/{path}", f"{target}/{path}"), paths):
            pass  # raises what a copy has raised


def _kept(paths: Iterable[str], replaced: Collection[int]) -> list[str]:
    """Those that are the same in the new checkpoint, ``metadata`` not among them."""
    left_out = ("offsets/", "commits/", *(f"sources/{index}/" for index in replaced))
    return [path for path in paths if path not in (_METADATA, NOTE) and not path.startswith(left_out)]
