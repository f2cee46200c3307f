"""Rows kept for a replay: in memory up to a limit, then in a local Arrow file."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

import pyarrow as pa


class Memory:
    """Bytes that buffers of one task may take together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken = 0

    def take(self, size: int) -> bool:
        """Take ``size`` bytes, unless that is more than are left."""
        if self._taken + size > self.limit:
            return False
        self._taken += size
        return True

    def give_back(self, size: int) -> None:
        """Leave them to others."""
        self._taken -= size


class RowBuffer:
    """Arrow batches of one schema, appended once and read any number of times in the same order.

    What ``memory`` has no place for, and all that comes after it, goes to a file without a name in ``directory`` (by default
    that of :mod:`tempfile`), which vanishes with the process, however it ends, or with :meth:`close`.
    """

    def __init__(self, memory: Memory, directory: str | None = None) -> None:
        self._budget = memory
        self._directory = directory
        self._memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Keep one more batch; raises OSError where it cannot be written."""
        if self._writer is None and self._budget.take(batch.nbytes):
            self._memory.append(batch)
            self._bytes += batch.nbytes
            return
        try:
            self._spill(batch)
        except OSError as error:
            directory = self._directory or tempfile.gettempdir()
            error.add_note(
                f"It happened in {directory}, which keeps the rows of a task beyond replayBufferBytes"
                f" ({self._budget.limit}) until it commits: give it more room, or give the task fewer rows or more memory"
            )
            raise

    def _spill(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed by close
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)
        self._spilled += 1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._memory
        if self._file is None or self._spilled == 0:
            return
        self._file.flush()
        # Unmapped when the last batch of it is gone.
        mapped = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
        # The stream is still open for writing, so it has no end marker yet: read as many batches as were written.
        with pa.ipc.open_stream(mapped) as reader:
            for _ in range(self._spilled):
                yield reader.read_next_batch()

    def close(self) -> None:
        """Forget everything, and the file with it."""
        self._memory.clear()
        self._budget.give_back(self._bytes)
        self._bytes = self._spilled = 0
        file, self._file, self._writer = self._file, None, None
        if file is not None:
            # What could not be written is not needed any more: a full disk must not keep the caller from its own end.
            with suppress(OSError):
                file.close()
