"""Checkpoints as Spark has written them (tests/recorded/queries), read and copied."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.migration import read_kafka_offset, read_ordered_offset
from spark_ordered_kafka.spark.checkpoint import (
    NOTE,
    Checkpoint,
    last_batch,
    local_directory,
    read_checkpoint,
    read_note,
    write_checkpoint,
)
from spark_ordered_kafka.spark.migration import KAFKA, ORDERED, sources_of

RECORDED = Path(__file__).parents[1] / "recorded" / "queries"
OF_SPARK, OURS = RECORDED / "kafka-4.2.0", RECORDED / "ordered-kafka-0.1.0"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of a checkpoint of Spark's own source, with keyed state."""
    return Path(shutil.copytree(OF_SPARK, tmp_path / "old"))


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def refusal(directory: Path) -> str:
    with pytest.raises(ConfigError, match=f"^--from has the value '{directory}'") as refused:
        read_checkpoint("--from", directory)
    return str(refused.value)


def test_what_spark_has_written_is_read() -> None:
    checkpoint = read_checkpoint("--from", OF_SPARK)
    assert [batch.number for batch in checkpoint.batches] == [0, 1]
    assert checkpoint.stateful
    assert checkpoint.last.commit == b'v1\n{"nextBatchWatermarkMs":0}'
    assert [read_kafka_offset(text) for text in checkpoint.last.offsets] == [{"exp": {0: 51, 1: 79}}]
    assert sources_of("--from", checkpoint, ()) == (ORDERED, {0: {"exp"}})
    for batch in checkpoint.batches:
        assert batch.to_bytes() == (OF_SPARK / "offsets" / str(batch.number)).read_bytes()

    ours = read_checkpoint("--from", OURS)
    assert sources_of("--from", ours, ()) == (KAFKA, {0: {"exp"}})
    told = read_ordered_offset(ours.last.offsets[0])
    assert told is not None
    assert told["topics"]["exp"]["positions"] == [63, 107]


def test_a_new_checkpoint_has_all_but_what_was_replaced(old: Path, tmp_path: Path) -> None:
    before = files(old)
    checkpoint = read_checkpoint("--from", old)
    batches = [replace(batch, offsets=(f"new {batch.number}",)) for batch in checkpoint.batches]
    new = tmp_path / "deep" / "new"
    write_checkpoint("--from", checkpoint, new, batches, (0,), {"batch": 1})
    assert files(old) == before, "the old one stays as it is"
    made = files(new)
    kept = {name for name in before if name.split("/")[0] in ("metadata", ".metadata.crc", "state")}
    assert made.keys() == kept | {NOTE, "offsets/0", "offsets/1", "commits/0", "commits/1"}
    assert {name: made[name] for name in kept} == {name: before[name] for name in kept}
    assert made["offsets/1"].split(b"\n")[:2] == before["offsets/1"].split(b"\n")[:2]
    assert made["offsets/1"].endswith(b"\nnew 1")
    assert (read_note(new), read_note(old), last_batch(new)) == ({"batch": 1}, None, 1)
    assert [path.name for path in new.parent.iterdir()] == ["new"]
    write_checkpoint("--from", checkpoint, tmp_path / "kept", batches, (), {})
    assert (tmp_path / "kept" / "sources" / "0" / "0").exists(), "of a source that is not replaced"


def test_a_query_that_runs_is_found(old: Path, tmp_path: Path) -> None:
    checkpoint = read_checkpoint("--from", old)
    shutil.copy(old / "offsets" / "1", old / "offsets" / "2")
    with pytest.raises(ConfigError, match="the query is running"):
        write_checkpoint("--from", checkpoint, tmp_path / "new", checkpoint.batches, (0,), {})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_what_cannot_be_read_is_refused(old: Path, tmp_path: Path) -> None:
    assert "it is no checkpoint of a streaming query" in refusal(tmp_path)
    assert "it is no checkpoint" in refusal(tmp_path / "missing")
    (old / "commits" / "1").unlink()
    assert "batch 1 is planned and not committed: run the query once more" in refusal(old)
    (old / "offsets" / "1").unlink()
    assert len(read_checkpoint("--from", old).batches) == 1, "the first batch is enough"
    text = (old / "offsets" / "0").read_text()
    for wrong in (text.replace("v1", "v2", 1), "v1\n{}", ""):
        (old / "offsets" / "0").write_text(wrong)
        assert "v1, a line of JSON and a line per source are needed" in refusal(old)
    (old / "offsets" / "0").unlink()
    assert "the query has planned no batch" in refusal(old)


def test_a_batch_whose_predecessor_is_gone_is_refused(old: Path) -> None:
    (old / "offsets" / "0").unlink()
    assert "offsets/0 cannot be read" in refusal(old)


@pytest.mark.parametrize("value", ["hdfs://name/ck", "s3a://bucket/ck", "gs://bucket/ck"])
def test_other_file_systems_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="copy the checkpoint here, and the new one back"):
        local_directory("--to", value)


def test_files_have_uris() -> None:
    assert local_directory("--to", "file:///a%20b/c") == Path("/a b/c")
    assert local_directory("--to", "a/b") == Path.cwd() / "a" / "b"


def with_sources(*offsets: str) -> Checkpoint:
    checkpoint = read_checkpoint("--from", OF_SPARK)
    return replace(checkpoint, batches=(replace(checkpoint.last, offsets=offsets),))


def test_sources_are_chosen_by_index() -> None:
    plain, ours = kafka("a"), json.dumps({"version": 1, "topics": {"b": {}}})
    both = with_sources(plain, '{"logOffset":7}', kafka("c"), "-")
    assert sources_of("--from", both, ()) == (ORDERED, {0: {"a"}, 2: {"c"}})
    assert sources_of("--from", both, (2, 2)) == (ORDERED, {2: {"c"}})
    with pytest.raises(ConfigError) as wrong:
        sources_of("--from", both, (1, 3, 4))
    for said in (
        "--source has the value 1: that source is neither",
        "3: that source has read nothing",
        "sources 0 to 3",
    ):
        assert said in str(wrong.value)
    mixed = with_sources(plain, ours)
    with pytest.raises(ConfigError, match="source 0 is kafka, 1 is ordered-kafka"):
        sources_of("--from", mixed, ())
    assert sources_of("--from", mixed, (1,)) == (KAFKA, {1: {"b"}})
    with pytest.raises(ConfigError, match="none of its 1 sources is of the format"):
        sources_of("--from", with_sources("-"), ())


def kafka(topic: str) -> str:
    return json.dumps({topic: {"0": 1}})
