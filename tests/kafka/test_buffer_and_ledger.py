"""Replay buffer, fingerprint and ledger entry: pure parts of the sink."""

import os
import tempfile
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.buffer import Memory, RowBuffer
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry, Origin

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
rows = st.lists(st.tuples(st.none() | st.binary(max_size=6), st.none() | st.binary(max_size=6)), max_size=20)


def fingerprint(pairs: list[tuple[bytes | None, bytes | None]]) -> Fingerprint:
    return Fingerprint().add([key for key, _ in pairs], [value for _, value in pairs])


@given(rows, st.randoms())
def test_fingerprint_ignores_order_and_batches(
    pairs: list[tuple[bytes | None, bytes | None]], random: object
) -> None:
    shuffled = sorted(pairs, key=lambda _: random.random())  # type: ignore[attr-defined]
    half = len(pairs) // 2
    parts = fingerprint(shuffled[:half]).add([k for k, _ in shuffled[half:]], [v for _, v in shuffled[half:]])
    assert parts == fingerprint(pairs)


@pytest.mark.parametrize(
    "other",
    [
        [(b"k", b"v"), (b"k", b"v")],
        [(b"k", b"w")],
        [(b"v", b"k")],
        [(b"", b"v")],
        [(None, b"v")],
        [(b"k", None)],
        [],
    ],
)
def test_fingerprint_tells_rows_apart(other: list[tuple[bytes | None, bytes | None]]) -> None:
    assert fingerprint(other) != fingerprint([(b"k", b"v")])


def test_null_and_empty_differ() -> None:
    assert fingerprint([(None, b"")]) != fingerprint([(b"", b"")])
    assert fingerprint([(b"", None)]) != fingerprint([(b"", b"")])


def of_headers(*headers: tuple[str, bytes | None] | None) -> Fingerprint:
    """The fingerprint of a row with these headers; None: with a null for headers."""
    packed = None if headers == (None,) else [{"key": h[0], "value": h[1]} for h in headers if h is not None]
    return Fingerprint().add([b"k"], [b"v"], pa.array([packed], HEADERS))


def test_headers_belong_to_the_fingerprint() -> None:
    told_apart = [
        of_headers(),
        of_headers(("a", b"1")),
        of_headers(("a", b"2")),
        of_headers(("a", None)),
        of_headers(("a", b"")),
        of_headers(("b", b"1")),
        of_headers(("a", b"1"), ("b", b"2")),
        of_headers(("b", b"2"), ("a", b"1")),
        of_headers(("ab", b"1"), ("", b"2")),
    ]
    assert len(set(told_apart)) == len(told_apart)
    assert of_headers() == of_headers(None) == fingerprint([(b"k", b"v")]), "Kafka knows no difference"


@given(st.integers(0, 2**62), rows, st.booleans())
def test_ledger_entry_round_trip(
    sequence: int, pairs: list[tuple[bytes | None, bytes | None]], by_column: bool
) -> None:
    entry = LedgerEntry(sequence, fingerprint(pairs), Origin("q", "r", "e", by_column))
    assert LedgerEntry.parse(sequence, entry.metadata()) == entry
    ids = Origin(uuid.uuid4().hex, uuid.uuid4().hex, uuid.uuid4().hex, by_column=True)
    assert len(LedgerEntry(sequence, entry.fingerprint, ids).metadata()) < 200, "Kafka takes 4,096 by default"


def test_entries_of_the_version_before_are_read() -> None:
    assert LedgerEntry.parse(3, "1:5:00000000000000ff") == LedgerEntry(3, Fingerprint(5, 255), version=1)


@pytest.mark.parametrize("metadata", [None, "", "2:1:00", "hello", "1:x:00", "3:1:00::::"])
def test_foreign_ledger_metadata_is_refused(metadata: str | None) -> None:
    with pytest.raises(ConfigError, match="ledger entry"):
        LedgerEntry.parse(3, metadata)


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 2000))
def test_buffer_gives_back_all_batches_in_order_any_number_of_times(sizes: list[int], limit: int) -> None:
    buffer = RowBuffer(Memory(limit))
    batches = [
        pa.RecordBatch.from_arrays([pa.array([bytes([i])] * size, pa.binary())], ["key"])
        for i, size in enumerate(sizes)
    ]
    for count, batch in enumerate(batches, 1):
        buffer.append(batch)
        assert [found.num_rows for found in buffer] == sizes[:count]
    for _ in range(2):
        assert all(found.equals(batch) for found, batch in zip(buffer, batches, strict=True))
    buffer.close()
    assert list(buffer) == []


def open_files(directory: Path) -> list[Path]:
    """Files of this process in the directory, those without a name included."""
    links = [Path(os.readlink(entry)) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return [path for path in links if path.parent == directory]


def test_buffer_spills_beyond_its_limit(tmp_path: Path) -> None:
    """To a file that has no name, so that nothing is left when the process is killed."""
    buffer = RowBuffer(Memory(100), str(tmp_path))
    batch = pa.RecordBatch.from_pydict({"value": [b"x" * 60]})
    buffer.append(batch)
    assert open_files(tmp_path) == []
    for _ in range(2):
        buffer.append(batch)
    assert len(open_files(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []
    kept = list(buffer)
    buffer.close()
    assert all(found.equals(batch) for found in kept), "what was read stays"
    kept.clear()
    assert open_files(tmp_path) == []


def test_buffers_of_one_task_share_its_memory(tmp_path: Path) -> None:
    memory = Memory(150)
    first, second = RowBuffer(memory, str(tmp_path)), RowBuffer(memory, str(tmp_path))
    batch = pa.RecordBatch.from_pydict({"value": [b"x" * 60]})
    first.append(batch)
    second.append(batch)
    assert open_files(tmp_path) == []
    second.append(batch)
    assert len(open_files(tmp_path)) == 1
    first.close()
    third = RowBuffer(memory, str(tmp_path))
    third.append(batch)
    assert len(open_files(tmp_path)) == 1, "what one has given back, another may take"
    assert [len(list(one)) for one in (first, second, third)] == [0, 2, 1]
    second.close()
    third.close()


def test_a_buffer_on_a_full_disk_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``/dev/full`` is one."""
    full = open("/dev/full", "wb")  # noqa: SIM115 - closed by the buffer
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
    buffer, batch = RowBuffer(Memory(0)), pa.RecordBatch.from_pydict({"value": [b"x" * 100_000]})
    with pytest.raises(OSError, match="No space left") as caught:
        buffer.append(batch)
    assert "give it more room" in caught.value.__notes__[0]
    for _ in range(2):
        buffer.close()
    assert full.closed


def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(FileNotFoundError) as caught:
        RowBuffer(Memory(0), gone).append(pa.RecordBatch.from_pydict({"value": [b"x"]}))
    assert gone in caught.value.__notes__[0]
    assert "replayBufferBytes (0)" in caught.value.__notes__[0]
