"""Checkpoints of streaming queries: directories as Spark's ``MicroBatchExecution`` writes them, read and copied.

``offsets/N`` and ``commits/N`` (``OffsetSeqLog``, ``CommitLog``) have a version, then a line of JSON, then in ``offsets`` a line
per source. A restart reads the last two batches, whose numbers are the versions of ``state/`` and what sinks know a batch
by: so a copy keeps them, and the query's id in ``metadata``, the file that completes it (D-312).
"""

from __future__ import annotations

import json
import re
import uuid
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
SOURCE = "from"
"""Of the note: the old checkpoint."""
_ATTEMPT = "attempt"
"""Of the note: which process has written it."""
_METADATA = "metadata"
_UNFINISHED = b"This checkpoint is not complete: run ordered-kafka migrate-checkpoint again."
"""Stands in ``metadata`` until everything else is there. Spark refuses it, since it is no JSON."""
_COPIES = 8
"""Files that are copied at a time: in an object store each takes many times as long as its bytes."""
_VERSION = "v1"
_COMMIT_VERSION = re.compile(b"v[1-9][0-9]*")
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_ONCE_MORE = "run the query once more with the trigger availableNow, until it ends"
_RESTORE = "Restore the checkpoint from a copy"


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
    committed = _numbers(files, directory, "commits")
    # Spark reads the one before, too.
    wanted = [number for number in (last - 1, last) if number >= 0]
    batches = tuple(
        _read_batch(option, files, directory, number, redo=number == last and last not in committed)
        for number in wanted
    )
    if last not in committed:
        hint = f"batch {last} is planned and not committed: {_ONCE_MORE}"
        raise ConfigError(option, directory, hint)
    if not _is_commit(batches[-1].commit):
        # Without it the new query would run the batch again, over no rows, and put keyed state without them in its place.
        raise ConfigError(
            option,
            directory,
            f"{_torn('commits', last)}. Delete commits/{last} and commits/.{last}.crc, and {_ONCE_MORE}: it repeats"
            f" batch {last}",
        )
    if len({len(batch.offsets) for batch in batches}) > 1:
        counts = ", ".join(f"offsets/{batch.number} has {len(batch.offsets)}" for batch in batches)
        raise ConfigError(option, directory, f"{_torn('offsets', last)}: of the sources {counts}. {_RESTORE}")
    return Checkpoint(directory, batches, bool(files.names(f"{directory}/state")))


def last_batch(files: Files, directory: str) -> int:
    """The number of the last batch that is planned; -1: none is. Raises OSError as ``files``."""
    return max(_numbers(files, directory, "offsets"), default=-1)


def _numbers(files: Files, directory: str, log: str) -> list[int]:
    return sorted(int(name) for name in files.names(f"{directory}/{log}") if _NUMBER.fullmatch(name))


def _read_batch(option: str, files: Files, directory: str, number: int, *, redo: bool) -> Batch:
    """``redo``: it is not committed, so Spark could plan it anew."""
    content = files.read(f"{directory}/offsets/{number}")
    if content is None:
        raise ConfigError(option, directory, f"offsets/{number} is not there, which a restart reads, too")
    try:
        version, *lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(option, directory, f"offsets/{number} cannot be read: {error}") from error
    offsets = tuple(line for line in lines[1:] if line)
    if content and version != _VERSION and not _VERSION.startswith(version):
        hint = f"offsets/{number} begins with {version[:20]!r}: {_VERSION}, a line of JSON and a line per source are needed"
        raise ConfigError(option, directory, hint)
    if not offsets or not all(map(_is_whole, (lines[0], *offsets))):
        rest = (
            f"See that no sink has written any of batch {number}, delete offsets/{number} and offsets/.{number}.crc, and"
            f" {_ONCE_MORE}: it plans the batch anew"
        )
        raise ConfigError(option, directory, f"{_torn('offsets', number)}. {rest if redo else _RESTORE}")
    # A commit that was lost, or was never written, of the batch before the last one is not needed.
    committed = files.read(f"{directory}/commits/{number}") or b""
    return Batch(number, lines[0], offsets, committed)


def _is_whole(line: str) -> bool:
    """Whether a line of a batch is not cut off; what is no object is as its source wrote it, and metadata may be missing."""
    return not line.startswith("{") or _json_object(line.encode()) is not None


def _is_commit(content: bytes) -> bool:
    version, _, line = content.partition(b"\n")
    return _COMMIT_VERSION.fullmatch(version) is not None and _json_object(line) is not None


def _torn(log: str, number: int) -> str:
    return f"{log}/{number} is empty or cut off, as after a crash of its machine, and Spark does not read it either"


def read_note(files: Files, directory: str) -> dict[str, Any] | None:
    """What the checkpoint was made of, if it was made by :func:`write_checkpoint`. Raises OSError as ``files``."""
    return _json_object(files.read(f"{directory}/{NOTE}"))


def is_unfinished(files: Files, directory: str) -> bool:
    """Whether this is what :func:`write_checkpoint` has left that was cut off. Raises OSError as ``files``."""
    return NOTE in files.names(directory) and _json_object(files.read(f"{directory}/{_METADATA}")) is None


def is_free(files: Files, directory: str) -> bool:
    """Whether :func:`write_checkpoint` may write there: it is absent, empty or unfinished. Raises OSError as ``files``."""
    return not files.names(directory) or is_unfinished(files, directory)


def foreign(files: Files, directory: str, source: str) -> str | None:
    """Why a directory that is free is to be left alone by a migration of ``source``; None: it is not. Raises OSError as
    ``files``."""
    begun = (read_note(files, directory) or {}).get(SOURCE, source)
    if begun == source:
        return None
    return f"a migration of {begun} has begun there; if it does not run any more, delete the directory"


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
        OSError: as ``files``; FileExistsError: another process writes to the directory, which is left to it.
    """
    # Before anything that judges it: what begins there after this look is nothing that was cut off.
    is_begun = bool(files.names(directory))
    if not is_free(files, directory):
        raise FileExistsError(f"{directory} is not empty any more")
    if (why := foreign(files, directory, old.directory)) is not None:
        raise FileExistsError(f"{directory}: {why}")
    target = _Target(files, directory)
    try:
        if is_begun:
            files.delete(directory)
        target.begin(note)
        kept = _kept(files.below(old.directory), replaced)
        target.copy(old.directory, kept)
        made = {f"offsets/{batch.number}": batch.to_bytes() for batch in batches}
        made |= {f"commits/{batch.number}": batch.commit for batch in batches if batch.commit}
        for path, content in made.items():
            files.write(f"{directory}/{path}", content)
        if last_batch(files, old.directory) != old.last.number:
            hint = (
                f"batch {old.last.number} was the last one a moment ago: the query is running. Stop it first"
            )
            raise ConfigError(option, old.directory, hint)
        target.complete(old.directory, (*kept, *made))
    except BaseException:
        target.give_up()
        raise


class _Target:
    """A new checkpoint while one process makes it. Of those that find it empty at once one gets it (D-420); of those that make
    what was cut off anew, the one that began last has it, since no kind of store keeps the others away (D-390).
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._attempt = uuid.uuid4().hex

    def begin(self, note: Mapping[str, Any]) -> None:
        """Take the directory, which is empty; raises FileExistsError once another process has."""
        mine = json.dumps({**note, _ATTEMPT: self._attempt}, indent=2)
        try:
            self._files.create(f"{self._directory}/{NOTE}", mine.encode())
        except FileExistsError as error:
            raise self._taken() from error
        self._files.write(f"{self._directory}/{_METADATA}", _UNFINISHED)

    def copy(self, source: str, paths: Iterable[str]) -> None:
        """Copy files; raises FileExistsError once another process has begun."""

        def one(path: str) -> None:
            self._check_mine()
            self._files.copy(f"{source}/{path}", f"{self._directory}/{path}")

        with ThreadPoolExecutor(_COPIES) as pool:
            for _ in pool.map(one, paths):
                pass  # raises what a copy has raised

    def complete(self, source: str, expected: Iterable[str]) -> None:
        """Put the file in place that completes it; raises FileExistsError if another process has begun, or has left files
        that are not ``expected``."""
        self._check_mine()
        if set(self._files.below(self._directory)) - {*expected, NOTE, _METADATA}:
            raise self._taken()
        metadata = f"{self._directory}/{_METADATA}"
        self._files.copy(f"{source}/{_METADATA}", metadata)
        try:
            self._check_mine()
        except FileExistsError:
            self._files.write(metadata, _UNFINISHED)
            raise

    def give_up(self) -> None:
        """Delete the directory, unless another process has it."""
        with suppress(OSError):
            if self._owner() in (None, self._attempt):
                self._files.delete(self._directory)

    def _check_mine(self) -> None:
        if self._owner() != self._attempt:
            raise self._taken()

    def _owner(self) -> str | None:
        """The attempt that the note names; None: there is none, or it is torn."""
        return (read_note(self._files, self._directory) or {}).get(_ATTEMPT)

    def _taken(self) -> FileExistsError:
        return FileExistsError(f"another migration writes to {self._directory}: wait for its end")


def _kept(paths: Iterable[str], replaced: Collection[int]) -> list[str]:
    """Those that are the same in the new checkpoint, ``metadata`` not among them."""
    left_out = ("offsets/", "commits/", *(f"sources/{index}/" for index in replaced))
    return [path for path in paths if path not in (_METADATA, NOTE) and not path.startswith(left_out)]
