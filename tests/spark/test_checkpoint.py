"""Checkpoints as Spark has written them (tests/recorded/queries), read and copied."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering.migration import read_kafka_offset, read_ordered_offset
from spark_ordered_kafka.spark.checkpoint import (
    NOTE,
    Checkpoint,
    is_free,
    last_batch,
    read_checkpoint,
    read_note,
    write_checkpoint,
)
from spark_ordered_kafka.spark.files import Files, LocalFiles, located
from spark_ordered_kafka.spark.hadoop_files import HadoopFiles
from spark_ordered_kafka.spark.migration import KAFKA, ORDERED, sources_of

RECORDED = Path(__file__).parents[1] / "recorded" / "queries"
OF_SPARK, OURS = RECORDED / "kafka-4.2.0", RECORDED / "ordered-kafka-0.1.0"


LOCAL = LocalFiles()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of a checkpoint of Spark's own source, with keyed state."""
    return Path(shutil.copytree(OF_SPARK, tmp_path / "old"))


@pytest.fixture(params=["this machine's", pytest.param("Hadoop's", marks=pytest.mark.long)])
def files(request: pytest.FixtureRequest) -> Files:
    """Both ways to the same files; Hadoop's has their checksums in files of its own."""
    if request.param == "this machine's":
        return LOCAL
    spark: SparkSession = request.getfixturevalue("spark")
    context = spark.sparkContext
    return HadoopFiles(context._jvm, context._jsc.hadoopConfiguration())


def at(files: Files, path: Path) -> str:
    return files.of_this_machine(str(path)) if isinstance(files, HadoopFiles) else str(path)


def contents(directory: Path) -> dict[str, bytes]:
    """By path, without checksums, and without what only tells one attempt from another."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".crc")
    attempt = re.compile(rb'"attempt": "[0-9a-f]{32}"')
    return {str(path.relative_to(directory)): attempt.sub(b"", path.read_bytes()) for path in found}


def read(directory: Path) -> Checkpoint:
    return read_checkpoint("--from", LOCAL, str(directory))


def refusal(directory: Path) -> str:
    with pytest.raises(ConfigError, match=f"^--from has the value '{directory}'") as refused:
        read(directory)
    return str(refused.value)


def test_what_spark_has_written_is_read() -> None:
    checkpoint = read(OF_SPARK)
    assert [batch.number for batch in checkpoint.batches] == [0, 1]
    assert checkpoint.stateful
    assert checkpoint.last.commit == b'v1\n{"nextBatchWatermarkMs":0}'
    assert [read_kafka_offset(text) for text in checkpoint.last.offsets] == [{"exp": {0: 51, 1: 79}}]
    assert sources_of("--from", checkpoint, ()) == (ORDERED, {0: {"exp"}})
    for batch in checkpoint.batches:
        assert batch.to_bytes() == (OF_SPARK / "offsets" / str(batch.number)).read_bytes()

    ours = read(OURS)
    assert sources_of("--from", ours, ()) == (KAFKA, {0: {"exp"}})
    told = read_ordered_offset(ours.last.offsets[0])
    assert told is not None
    assert told["topics"]["exp"]["positions"] == [63, 107]


def test_a_new_checkpoint_has_all_but_what_was_replaced(files: Files, old: Path, tmp_path: Path) -> None:
    before = contents(old)
    checkpoint = read_checkpoint("--from", files, at(files, old))
    assert replace(checkpoint, directory=str(old)) == read(old)
    batches = [replace(batch, offsets=(f"new {batch.number}",)) for batch in checkpoint.batches]
    new = tmp_path / "deep" / "new"
    write_checkpoint("--from", files, checkpoint, at(files, new), batches, (0,), {"batch": 1})
    assert contents(old) == before, "the old one stays as it is"
    made = contents(new)
    kept = {name for name in before if name.split("/")[0] in ("metadata", "state")}
    assert made.keys() == kept | {NOTE, "offsets/0", "offsets/1", "commits/0", "commits/1"}
    assert {name: made[name] for name in kept} == {name: before[name] for name in kept}
    assert made["offsets/1"].split(b"\n")[:2] == before["offsets/1"].split(b"\n")[:2]
    assert made["offsets/1"].endswith(b"\nnew 1")
    told = (
        read_note(files, at(files, new)),
        read_note(files, at(files, old)),
        last_batch(files, at(files, new)),
    )
    assert told == ({"batch": 1, "attempt": ANY}, None, 1)
    with pytest.raises(OSError, match="is not empty any more"):
        write_checkpoint("--from", files, checkpoint, at(files, new), batches, (0,), {"batch": 1})
    assert contents(new) == made
    write_checkpoint("--from", files, checkpoint, at(files, tmp_path / "kept"), batches, (), {})
    assert (tmp_path / "kept" / "sources" / "0" / "0").exists(), "of a source that is not replaced"


def test_what_lies_behind_links_is_part_of_it(old: Path, tmp_path: Path) -> None:
    """State on another disk; a new checkpoint for which there is an empty directory behind a link."""
    complete, disk, new = tmp_path / "complete", tmp_path / "disk", tmp_path / "new"
    assert not cut_off(old, complete, 1_000)
    shutil.move(old / "state", disk / "state")
    (old / "state").symlink_to(disk / "state")
    (disk / "empty").mkdir()
    new.symlink_to(disk / "empty")
    assert cut_off(old, new, 5)
    assert not cut_off(old, new, 1_000), "what was cut off is made again"
    assert contents(disk / "empty") == contents(complete)


def test_a_directory_that_cannot_be_read_is_not_passed_over(old: Path, tmp_path: Path) -> None:
    (old / "state" / "loop").symlink_to(old / "state")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        cut_off(old, tmp_path / "new", 1_000)
    assert not (tmp_path / "new").exists()


def test_a_query_that_runs_is_found(files: Files, old: Path, tmp_path: Path) -> None:
    checkpoint = read_checkpoint("--from", files, at(files, old))
    shutil.copy(old / "offsets" / "1", old / "offsets" / "2")
    with pytest.raises(ConfigError, match="the query is running"):
        write_checkpoint(
            "--from", files, checkpoint, at(files, tmp_path / "new"), checkpoint.batches, (0,), {}
        )
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


class Killed(BaseException):
    """Stands for the end of the process."""


class Killing(LocalFiles):
    """The process ends in the middle of one of its writes, counted from 0, and does nothing after it."""

    def __init__(self, at: int) -> None:
        self._left = at

    def write(self, path: str, content: bytes) -> None:
        if self._is_last():
            super().write(path, content[: len(content) // 2])
            raise Killed
        super().write(path, content)

    def create(self, path: str, content: bytes) -> None:
        if self._is_last():
            super().create(path, content[: len(content) // 2])
            raise Killed
        super().create(path, content)

    def copy(self, source: str, target: str) -> None:
        if self._is_last():
            super().write(target, Path(source).read_bytes()[:-1])
            raise Killed
        super().copy(source, target)

    def delete(self, directory: str) -> None:
        if self._left >= 0:
            super().delete(directory)

    def _is_last(self) -> bool:
        self._left -= 1
        return self._left < 0


def cut_off(old: Path, new: Path, at: int) -> bool:
    """Whether a migration is cut off at a write; else it is complete."""
    checkpoint = read(old)
    note = {"batch": checkpoint.last.number}
    try:
        write_checkpoint("--from", Killing(at), checkpoint, str(new), checkpoint.batches, (0,), note)
    except Killed:
        return True
    return False


def test_what_is_cut_off_is_no_checkpoint_and_is_made_again(old: Path, tmp_path: Path) -> None:
    complete = tmp_path / "complete"
    assert not cut_off(old, complete, 1_000)
    writes = 0
    while cut_off(old, tmp_path / "new", writes):
        new = tmp_path / "new"
        assert is_free(LOCAL, str(new))
        assert "it is no" in refusal(new)
        assert not cut_off(old, new, 1_000)
        assert contents(new) == contents(complete)
        shutil.rmtree(new)
        writes += 1
    assert writes > len(contents(complete)), "each of them, and what stands in for metadata"


def test_a_file_is_created_once(files: Files, tmp_path: Path) -> None:
    path = at(files, tmp_path / "new" / "file")
    files.create(path, b"1")
    with pytest.raises(FileExistsError):
        files.create(path, b"2")
    assert files.read(path) == b"1"
    files.write(path, b"3")
    assert files.read(path) == b"3"


@pytest.mark.long
def test_spark_refuses_what_is_cut_off(old: Path, tmp_path: Path, spark: SparkSession) -> None:
    new = tmp_path / "new"
    assert cut_off(old, new, 5)
    rows = spark.readStream.format("rate").load()
    with pytest.raises(Exception, match=r"(?s)Unrecognized token 'This'"):
        rows.writeStream.format("noop").option("checkpointLocation", str(new)).start().awaitTermination(60)


@pytest.mark.long
def test_a_cluster_that_is_the_default_does_not_keep_its_files_away(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\nspark.submit.deployMode cluster\n")
    program = f"""
from spark_ordered_kafka.spark.hadoop_files import hadoop_files
with hadoop_files({{}}) as files:
    print(files.names("file://{tmp_path}"))
"""
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "['spark-defaults.conf']\n", done.stderr


def test_what_cannot_be_read_is_refused(old: Path, tmp_path: Path) -> None:
    assert "it is no checkpoint of a streaming query" in refusal(tmp_path)
    assert "it is no checkpoint" in refusal(tmp_path / "missing")
    (old / "commits" / "1").unlink()
    assert "batch 1 is planned and not committed: run the query once more" in refusal(old)
    (old / "offsets" / "1").unlink()
    assert len(read(old).batches) == 1, "the first batch is enough"
    text = (old / "offsets" / "0").read_text()
    (old / "offsets" / "0").write_text(text.replace("v1", "v2", 1))
    assert "offsets/0 begins with 'v2': v1, a line of JSON and a line per source are needed" in refusal(old)
    (old / "offsets" / "0").unlink()
    assert "the query has planned no batch" in refusal(old)


def test_a_batch_that_was_cut_off_anywhere_is_refused_with_what_to_do(old: Path) -> None:
    file = old / "offsets" / "1"
    whole = file.read_bytes()
    for length in (*range(0, len(whole), 29), len(whole) - 1):
        file.write_bytes(whole[:length])
        assert "offsets/1 is empty or cut off" in refusal(old)
        assert "Restore the checkpoint" in refusal(old), "the batch is committed, and its end is lost"
    (old / "commits" / "1").unlink()
    file.write_bytes(b"")
    assert "delete offsets/1 and offsets/.1.crc, and run the query once more" in refusal(old)
    file.write_bytes(whole + b"\n-")
    shutil.copy(OF_SPARK / "commits" / "1", old / "commits" / "1")
    assert "of the sources offsets/0 has 1, offsets/1 has 2" in refusal(old)
    file.write_bytes(whole)
    (old / "offsets" / "0").write_bytes(b"")
    assert "offsets/0 is empty or cut off" in refusal(old)


def test_a_commit_that_was_cut_off_at_any_byte_is_refused_with_what_to_do(old: Path) -> None:
    """Not left out: without it the new query would run the batch again, with none of its rows."""
    file = old / "commits" / "1"
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert "commits/1 is empty or cut off" in refusal(old)
        assert "Delete commits/1 and commits/.1.crc, and run the query once more" in refusal(old)
    file.write_bytes(whole)
    (old / "commits" / "0").write_bytes(b"")
    assert read(old).batches[0].commit == b"", "of the batch before it is not needed"


@pytest.mark.long
@pytest.mark.parametrize("torn", ["commits/1", "offsets/1"])
def test_spark_does_not_read_what_was_cut_off_either(old: Path, spark: SparkSession, torn: str) -> None:
    (old / torn).write_bytes(b"")
    shutil.rmtree(old / "sources")
    rows = spark.readStream.format("rate").load()
    with pytest.raises(Exception, match=f"Failed to read log file .*/{torn}"):
        rows.writeStream.format("noop").option("checkpointLocation", str(old)).start().awaitTermination(60)


def test_a_batch_whose_predecessor_is_gone_is_refused(old: Path) -> None:
    (old / "offsets" / "0").unlink()
    assert "offsets/0 is not there" in refusal(old)


# Whatever Spark takes literally is the name of a file.
OF_THIS_MACHINE = {
    "/data/my%20cp": "/data/my%20cp",
    "/data/cp#1?x": "/data/cp#1?x",
    "file:/data/cp": "/data/cp",
    "file:///data/my%20cp": "/data/my%20cp",
    "file:///data/my cp/": "/data/my cp",
    "file:/data/cp#1": "/data/cp#1",
    "file:///data/a?b": "/data/a?b",
    "file:/data/10:30": "/data/10:30",
}


@pytest.mark.parametrize(("given", "path"), OF_THIS_MACHINE.items())
def test_paths_and_uris_are_read_as_spark_reads_them(given: str, path: str) -> None:
    with located({"--from": given, "--to": "a/b"}, {}) as (files, paths):
        assert isinstance(files, LocalFiles)
        assert paths == [path, str(Path.cwd() / "a" / "b")]


@pytest.mark.long
def test_spark_reads_them_so(spark: SparkSession) -> None:
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
    assert {given: path(given).toUri().getPath() for given in OF_THIS_MACHINE} == OF_THIS_MACHINE
    hadoops = HadoopFiles(spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration())
    for local in OF_THIS_MACHINE.values():
        assert path(hadoops.of_this_machine(local)).toUri().getPath() == local


def with_sources(*offsets: str) -> Checkpoint:
    checkpoint = read(OF_SPARK)
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
