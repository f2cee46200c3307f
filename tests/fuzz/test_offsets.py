"""Checkpoints, source offsets, and what is committed with offsets in Kafka."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.json_texts import json_value
from spark_ordered_kafka.kafka.groups import assigned_partitions
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.ledger import Fingerprint, LedgerEntry, Origin
from spark_ordered_kafka.ordering.handover import Release
from spark_ordered_kafka.ordering.layout import OPEN_END, Layout, LayoutHistory
from spark_ordered_kafka.ordering.migration import kafka_offset, read_kafka_offset, read_ordered_offset
from spark_ordered_kafka.ordering.offsets import SourceOffset
from spark_ordered_kafka.spark.checkpoint import is_free, read_checkpoint, read_note
from spark_ordered_kafka.spark.files import LocalFiles, local_path
from spark_ordered_kafka.spark.metrics import _reported
from tests.fuzz.hostile import accepted, documents, fuzzed, names, raw, texts

OFFSET: dict[str, Any] = {
    "version": 1,
    "topics": {
        "orders": {
            "topic_id": "Yq0",
            "layout_epoch": 2,
            "positions": [5, 0, 7],
            "leader_epochs": [0, -1, 3],
            "resumed": {"0": 2},
            "cuts": {"2": [3, 5]},
        }
    },
    "shared": [1, 2],
}
HISTORY = LayoutHistory(1, [Layout(0, 1, [0]), Layout(1, 2, [10, 0])])


@fuzzed
@given(documents([OFFSET, {"version": 1, "topics": {}}, {"version": 2}]))
def test_a_source_offset_is_one_or_refused(text: str) -> None:
    value = accepted(json_value, text, errors=ValueError)
    offset = accepted(SourceOffset.from_json, value, errors=ConfigError)
    if offset is not None:
        again = SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))
        assert again == offset
        for topic in offset.topics.values():
            topic.ranges_since(None)
            assert all(0 <= at <= OPEN_END for at in topic.positions)


@fuzzed
@given(documents([{"orders": {"0": 5, "1": 0}}]))
def test_an_offset_of_sparks_own_source(text: str) -> None:
    found = read_kafka_offset(text)
    if found is not None:
        assert read_kafka_offset(kafka_offset(found)) == found


@fuzzed
@given(documents([OFFSET]))
def test_an_offset_of_this_source_in_a_checkpoint(text: str) -> None:
    accepted(SourceOffset.from_json, read_ordered_offset(text) or {}, errors=ConfigError)


@fuzzed
@given(
    st.integers(0, OPEN_END),
    documents(
        [{"layout_epoch": 1, "since": 0, "topic_id": "x"}, {"layout_epoch": 1, "since": 0, "lost_to": 9}]
    ),
)
def test_what_a_member_has_let_go(offset: int, metadata: str) -> None:
    release = Release.parse(offset, metadata)
    again = Release.parse(offset, release.metadata())
    assert (again.offset, again.layout_epoch, again.since) == (offset, release.layout_epoch, release.since)
    assert again.reached == release.reached
    release.level(HISTORY, 0)


@fuzzed
@given(
    st.one_of(
        texts,
        st.lists(
            st.sampled_from(["1", "2", "5", "²", "0" * 16, "f" * 16, "column", "q", "9" * 5000]) | texts
        ).map(":".join),
    )
)
def test_an_entry_of_a_ledger(metadata: str) -> None:
    entry = accepted(LedgerEntry.parse, 7, metadata, errors=ConfigError)
    if entry is not None and entry.version == 2:
        assert entry.metadata() == metadata or int(metadata.split(":")[1]) == entry.fingerprint.rows


@fuzzed
@given(st.integers(0, 10**18 - 1), st.integers(0, 2**64 - 1), st.booleans())
def test_a_written_entry_is_read_back(rows: int, total: int, by_column: bool) -> None:
    entry = LedgerEntry(3, Fingerprint(rows, total), Origin("q", "r", "e", by_column))
    assert LedgerEntry.parse(3, entry.metadata()) == entry


@fuzzed
@given(
    st.lists(st.sampled_from(["ordered", "w", "0", "12", "٣", "²", "9" * 5000, "-1", "01"]) | names).map(
        ":".join
    )
)
def test_the_name_of_a_writers_task(name: str) -> None:
    """Anybody may make groups and transactional ids of any name; every broker lists them to all writers."""
    task = WriterTask.of(name)
    if task is not None:
        assert task.name == name


@fuzzed
@given(
    st.one_of(
        st.binary(max_size=100),
        # Version, one topic: a name, then partitions; lengths of all sizes.
        st.builds(
            lambda version, count, size, name, rest: version + count + size + name + rest,
            *(st.sampled_from([b"\0\0", b"\0\1", b"\xff\xff", b"\x7f\xff"]),) * 1,
            st.sampled_from([b"\0\0\0\1", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"]),
            st.sampled_from([b"\0\1", b"\xff\xff", b"\x7f\xff", b"\0\0"]),
            st.sampled_from([b"t", b"\xff", b""]),
            st.binary(max_size=30),
        ),
    )
)
def test_the_assignment_that_a_groups_leader_has_written(assignment: bytes) -> None:
    for topic, partition in assigned_partitions(assignment):
        assert isinstance(topic, str)
        assert isinstance(partition, int)


@fuzzed
@given(documents([{"topics": {"orders": {"layoutEpoch": 1, "offsetsBehindLatest": 3}}, "noProgress": "x"}]))
def test_what_a_query_reports_of_its_source(text: str) -> None:
    for topic in _reported(text).get("topics", {}).values():
        assert "layoutEpoch" in topic


FILES = st.one_of(
    texts.map(raw),
    st.binary(max_size=60),
    st.lists(st.sampled_from(["v1", "v2", "{}", "-", '{"orders":{"0":1}}']) | texts, max_size=5).map(
        lambda lines: raw("\n".join(lines))
    ),
)


@fuzzed
@given(st.sampled_from(["0", "1", "٣", "9" * 200, "01", "x", "-1"]), FILES, FILES, st.booleans())
def test_a_checkpoints_files(name: str, offsets: bytes, note: bytes, committed: bool) -> None:
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        (directory / "metadata").write_text("{}")
        (directory / "ordered-kafka-migration.json").write_bytes(note)
        for log in ("offsets", "commits"):
            (directory / log).mkdir()
        (directory / "offsets" / name).write_bytes(offsets)
        if committed:
            (directory / "commits" / name).write_bytes(b"v1\n{}")
        found = accepted(read_checkpoint, "--from", LocalFiles(), place, errors=ConfigError)
        if found is not None:
            assert found.last.to_bytes().startswith(b"v1\n")
        read_note(LocalFiles(), place)
        assert not is_free(LocalFiles(), place), "its metadata is JSON"


@fuzzed
@given(st.one_of(texts, texts.map(lambda text: f"file:{text}"), texts.map(lambda text: f"file://{text}")))
def test_where_a_checkpoint_is(value: str) -> None:
    found = accepted(local_path, "--from", value, errors=ConfigError)
    if found is not None:
        accepted(read_checkpoint, "--from", LocalFiles(), found, errors=ConfigError)
