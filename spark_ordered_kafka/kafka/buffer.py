"""Rows kept for a replay: in memory up to a limit, then in a local Arrow file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa


class RowBuffer:
    """Arrow batches of one schema, appended once and read any number of times in the same order.

    Beyond ``limit`` bytes in memory, all further batches go to an unnamed temporary file, which vanishes with the
    process or with :meth:`close`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled = 0
        self._file: tempfile._TemporaryFileWrapper[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Keep one more batch."""
        if self._writer is None and self._bytes + batch.nbytes <= self._limit:
            self._memory.append(batch)
            self._bytes += batch.nbytes
            return
        if self._writer is None:
            self._file = tempfile.NamedTemporaryFile(prefix="ordered-kafka-replay-", suffix=".arrow")  # noqa: SIM115
            self._writer = pa.ipc.new_stream(self._file.name, batch.schema)
        self._writer.write_batch(batch)
        self._spilled += 1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._memory
        if self._file is None or self._spilled == 0:
            return
        # The stream is still open for writing, so it has no end marker yet: read as many batches as were written.
        with pa.memory_map(self._file.name) as source, pa.ipc.open_stream(source) as reader:
            for _ in range(self._spilled):
                yield reader.read_next_batch()

    def close(self) -> None:
        """Forget everything and remove the file."""
        self._memory.clear()
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()
        self._writer = self._file = None
        self._bytes = self._spilled = 0
