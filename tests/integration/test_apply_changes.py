"""``jobs/apply_changes.py``: the table is what the changes say, whatever is replayed and however the topic changes."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from apply_changes import KEPT_VERSIONS, apply, changes, check_all_there, check_shared, columns, outdated
from pyspark.errors import SparkRuntimeException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.local import LocalCluster
from tests.queries import await_stable
from tests.streams import FORMAT, change, conf, create, options

COLUMNS = StructType().add("name", "string").add("age", "integer")


class Table:
    """A table that a query keeps, and the one that it ought to be."""

    def __init__(
        self, cluster: LocalCluster, spark: SparkSession, topic: str, directory: Path, form: str
    ) -> None:
        self._cluster, self._spark, self._topic, self._form = cluster, spark, topic, form
        self._servers = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "controller.url": cluster.controller_url,
        }
        self._source = options(cluster, subscribe=topic, startingOffsets="earliest")
        self.table, self.checkpoint = directory / "table", directory / "checkpoint"
        self._random = random.Random(17)
        self.expected: dict[str, tuple[str | None, int | None]] = {}

    def write(self, count: int) -> None:
        """Rows that are new, changed and deleted, of keys that come again and again."""
        with OrderedProducer(self._servers) as producer:
            for number in range(count):
                key = f"k{self._random.randrange(12)}"
                if self._random.random() < 0.3:
                    self.expected.pop(key, None)
                    value = self.deletion()
                else:
                    row = (None if number % 7 == 0 else f"name {number}", self._random.randrange(99))
                    self.expected[key] = row
                    value = self.upsert({"name": row[0], "age": row[1], "other": number})
                producer.produce(self._topic, key=key, value=value)

    def deletion(self) -> bytes | None:
        """Of Debezium there are two: an envelope, and null behind it."""
        if self._form == "row" or self._random.random() < 0.5:
            return None
        return json.dumps({"payload": {"op": "d", "before": {"age": 1}, "after": None}}).encode()

    def upsert(self, row: dict[str, Any]) -> bytes:
        """The row, or Debezium's envelope with or without its schema."""
        if self._form == "row":
            return json.dumps(row).encode()
        envelope = {"op": self._random.choice("cru"), "before": None, "after": row}
        return json.dumps(
            {"schema": {}, "payload": envelope} if self._random.random() < 0.5 else envelope
        ).encode()

    def run(self) -> None:
        """Apply what is there."""
        # What is committed and not stable yet would be left for the next run.
        await_stable(self._cluster, self._topic)
        found = {"table": self.table, "columns": COLUMNS, "format": self._form}
        records = self._spark.readStream.format(FORMAT).options(**self._source).load()
        writer = records.writeStream.foreachBatch(partial(apply, found))
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(300), "not applied within 300 s"
        finally:
            query.stop()

    @property
    def current(self) -> str:
        """The newest version."""
        return (self.table / "current").read_text()

    @property
    def versions(self) -> list[Path]:
        """All versions that are there."""
        return [path for path in self.table.iterdir() if path.is_dir()]

    def rows(self) -> dict[str, tuple[str | None, int | None]]:
        """The table, as its users read it."""
        rows = self._spark.read.parquet(str(self.table / self.current)).collect()
        found = {row["key"]: (row["name"], row["age"]) for row in rows}
        assert len(found) == len(rows), "a key is there twice"
        return found

    def forget_last_batch(self) -> None:
        """As if the driver had died before it noted the batch as done."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink()


@pytest.mark.long
@pytest.mark.parametrize("form", ["row", "debezium"])
def test_the_table_is_what_the_changes_say(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, form: str
) -> None:
    topic = create(cluster, topic_name, 1)
    table = Table(cluster, spark, topic, tmp_path, form)
    table.write(40)
    change(cluster, topic, 3)
    table.write(40)
    table.run()
    assert table.rows() == table.expected
    change(cluster, topic, 2)
    first = table.current
    table.write(40)
    table.run()
    assert table.rows() == table.expected
    second, files = table.current, sorted((table.table / table.current).iterdir())
    table.forget_last_batch()
    table.run()
    assert (table.current, sorted((table.table / table.current).iterdir())) == (second, files), "left alone"
    # The driver died after it had written the version, or half of it, and before it was current.
    (table.table / "current").write_text(first)
    files[0].unlink()
    table.forget_last_batch()
    table.write(20)
    table.run()
    table.run()
    assert table.rows() == table.expected
    for _ in range(2):
        table.write(1)
        table.run()
    assert table.rows() == table.expected
    assert len(table.versions) == KEPT_VERSIONS
    # The clock was an hour ahead until now.
    for version in table.versions:
        later = version.stat().st_mtime + 3600
        os.utime(version, (later, later))
    for _ in range(2):
        table.write(1)
        table.run()
        assert table.rows() == table.expected
    assert len(table.versions) == KEPT_VERSIONS
    assert len(table.expected) > 3


@pytest.mark.long
def test_a_record_that_is_no_change_ends_the_query(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path
) -> None:
    no_change = "the value is no change of the given format and columns"
    cases = [
        ("row", "k", b'{"age": "old"}', no_change),
        ("row", "k", b"", no_change),
        ("row", None, b"{}", "there is no key"),
        ("debezium", "k", b'{"age": 1}', no_change),
        ("debezium", "k", b'{"op": "t"}', no_change),
        ("debezium", "k", b'{"op": "u", "after": null}', no_change),
    ]
    for number, (form, key, value, why) in enumerate(cases):
        topic = create(cluster, f"{topic_name}-{number}", 1)
        with OrderedProducer(conf(cluster)) as producer:
            producer.produce(topic, key=key, value=value)
        table = Table(cluster, spark, topic, tmp_path / str(number), form)
        with pytest.raises(StreamingQueryException, match=f"{topic}-0, offset 0: {why}"):
            table.run()
        assert not (table.table / "current").exists()


def test_the_newest_versions_stay_whatever_clocks_say(tmp_path: Path) -> None:
    own, foreign = "0" * 36, "f" * 36
    ahead = [f"{foreign}-7", f"{foreign}-12", f"{own}-8", f"{own}-9"]
    for order, name in enumerate([*ahead, f"{own}-10"]):
        (tmp_path / name).mkdir()
        made = 1_800_000_000 + order if name in ahead else 1_700_000_000
        os.utime(tmp_path / name, (made, made))
    (tmp_path / "current").write_text(f"{own}-10")
    doomed = [tmp_path / f"{foreign}-12", tmp_path / f"{foreign}-7"]
    assert outdated(tmp_path, f"{own}-10", f"{own}-9") == doomed
    (tmp_path / f"{own}-11").mkdir()
    assert outdated(tmp_path, f"{own}-11", f"{own}-10") == [tmp_path / f"{own}-8", *doomed]


def record(spark: SparkSession, key: bytes, value: bytes, offset: int = 0) -> DataFrame:
    """One record, as the source gives it."""
    schema = "topic STRING, partition INT, layout_epoch INT, offset LONG, key BINARY, value BINARY"
    return spark.createDataFrame([("people", 0, 0, offset, key, value)], schema)


@pytest.mark.long
def test_numbers_stay_as_they_are_in_every_envelope(spark: SparkSession) -> None:
    number = "12345678901234567890.123456789012345678"
    schema = columns("columns", "exact DECIMAL(38,18)")
    after = f'{{"exact":{number}}}'
    change = f'{{"op":"u","after":{after}}}'
    for value in (after, change, f'{{"schema":{{}},"payload":{change}}}'):
        rows = changes(record(spark, b"k", value.encode()), schema, value != after)
        (found,) = rows.select("row.*").collect()
        assert str(found["exact"]) == number


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"k\xf6", b'{"name":"a"}', "the key is no text in UTF-8"),
        (b"k", b'{"name":"Bj\xf6rk"}', "the value is no change"),
        pytest.param(b"k", b'{"name":"a"}{"name":"b"}', "the value is no change", marks=pytest.mark.long),
        (b"k", b'{"name":"a"} and more', "the value is no change"),
        pytest.param(b"k", b'[{"name":"a"}]', "the value is no change", marks=pytest.mark.long),
        pytest.param(b"k", b"null", "the value is no change", marks=pytest.mark.long),
    ],
)
def test_what_would_be_applied_in_part_ends_the_query(
    spark: SparkSession, key: bytes, value: bytes, why: str
) -> None:
    with pytest.raises(SparkRuntimeException, match=f"people-0, offset 7: {why}"):
        changes(record(spark, key, value, 7), COLUMNS, envelope=False).collect()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "wrong", ["name VARCHAR(9)", "age INT, AGE INT", "of MAP<INT, INT>", "at TIME", "name STRIN", ""]
)
def test_columns_that_no_row_can_have_are_refused_at_the_start(wrong: str) -> None:
    with pytest.raises(ConfigError, match="columns in SQL such as name STRING, age INT"):
        columns("spark.apply_changes.columns", wrong)


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """Paths without a scheme belong to a file system that is not there."""
    spark.conf.set("fs.defaultFS", "viewfs://elsewhere/")
    yield
    spark.conf.unset("fs.defaultFS")


@pytest.fixture
def query(spark: SparkSession) -> Iterator[str]:
    """The id of a query that this thread is of."""
    name = "11111111-2222-3333-4444-555555555555"
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", name)
    yield name
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.usefixtures("elsewhere")
def test_a_table_is_on_this_machine_whatever_the_default_file_system(
    spark: SparkSession, query: str, tmp_path: Path
) -> None:
    table = tmp_path / "a%20b #1 [x]{y,z}\\w"
    check_shared(spark, table)
    found = {"table": table, "columns": COLUMNS, "format": "row"}
    for batch in range(2):
        row = json.dumps({"name": f"name {batch}", "age": batch})
        apply(found, record(spark, f"k{batch}".encode(), row.encode(), batch), batch)
    assert (table / "current").read_text() == f"{query}-1"
    rows = pq.read_table(table / f"{query}-1").sort_by("key").to_pylist()
    assert [row["name"] for row in rows] == ["name 0", "name 1"]


@pytest.mark.long
def test_a_table_that_lacks_batches_is_not_gone_on_with(
    spark: SparkSession, query: str, tmp_path: Path
) -> None:
    """As on the disk of another machine, on which the driver is started again."""
    found, change = {"table": tmp_path, "columns": COLUMNS, "format": "row"}, record(spark, b"k", b"{}")
    apply(found, change, 0)
    with pytest.raises(ConfigError, match=f"newest version is {query}-0, and batch 2 of query {query} comes"):
        apply(found, change, 2)
    (tmp_path / "current").rename(tmp_path / "aside")
    with pytest.raises(ConfigError, match=f"newest version is None, and batch 1 of query {query} comes"):
        apply(found, change, 1)
    (tmp_path / "aside").rename(tmp_path / "current")
    apply(found, change, 1)
    assert (tmp_path / "current").read_text() == f"{query}-1"


def test_rows_that_the_driver_does_not_find_are_not_left_out(
    spark: SparkSession, query: str, tmp_path: Path
) -> None:
    version = f"{query}-0"
    spark.range(7).coalesce(1).write.parquet(f"file://{tmp_path / version}")
    check_all_there(tmp_path, version, 7)
    with pytest.raises(ConfigError, match="executors have written 8 rows, of which the driver finds 7"):
        check_all_there(tmp_path, version, 8)
