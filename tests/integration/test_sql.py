"""Source and sink in SQL: temporary views read and write, tables are refused since Spark keeps none of their options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.integration.blocks import blocks
from tests.queries import await_stable
from tests.servers import unique_name
from tests.streams import create, options, written_through

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.fixture(autouse=True)
def without_views(spark: SparkSession) -> Iterator[None]:
    """The session is that of other tests, too."""
    yield
    for view in ("orders", "big_orders"):
        spark.catalog.dropTempView(view)


def in_sql(given: Mapping[str, str]) -> str:
    """Options as SQL has them."""
    return ", ".join(f"'{name}' '{value}'" for name, value in given.items())


@pytest.mark.long
def test_the_statements_of_the_page(spark: SparkSession, cluster: LocalCluster) -> None:
    """Views read and write."""
    source, target = unique_name("sql"), create(cluster, unique_name("sql"), 2)
    written_through(cluster, source, 2, 3)
    await_stable(cluster, source)
    text = next(block.text for block in blocks(PAGE.read_text()) if block.kind == "sql")
    ours = {
        "broker-1:9092": cluster.bootstrap_servers,
        "http://controller-1:8090": cluster.controller_url,
        "'orders'": f"'{source}'",
        "'big-orders'": f"'{target}'",
        "1000": "4",
    }
    for theirs, our in ours.items():
        assert theirs in text
        text = text.replace(theirs, our)
    for statement in text.split(";")[:-1]:
        spark.sql(statement)
    await_stable(cluster, target)
    copied = spark.read.format("ordered-kafka").options(**options(cluster, subscribe=target)).load()
    wanted = spark.table("orders").where("length(value) > 4").select("key", "value")
    assert 0 < wanted.count() == copied.count() < spark.table("orders").count()
    assert copied.select("key", "value").exceptAll(wanted).isEmpty()


@pytest.mark.long
def test_a_view_shows_what_there_was_when_it_was_first_read(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    """Spark plans a read of a format that is written in Python once for each load(), not for each action."""
    source = unique_name("sql")
    writer = written_through(cluster, source, 2)
    await_stable(cluster, source)
    given = in_sql(options(cluster, subscribe=source))
    view = f"CREATE OR REPLACE TEMPORARY VIEW orders USING `ordered-kafka` OPTIONS ({given})"
    spark.sql(view)
    assert spark.table("orders").count() == writer.written
    before = writer.written
    writer.write()
    await_stable(cluster, source)
    assert spark.table("orders").count() == before
    spark.sql(view)
    assert spark.table("orders").count() == writer.written > before


def test_a_table_is_refused_when_it_is_created(spark: SparkSession, cluster: LocalCluster) -> None:
    given: dict[str, Any] = options(cluster, subscribe="orders")
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW") as caught:
        spark.sql(f"CREATE TABLE orders USING `ordered-kafka` OPTIONS ({in_sql(given)})")
    said = "CREATE TABLE has the value 'controller.url, kafka.bootstrap.servers, subscribe': Spark forgets the options"
    assert said in str(caught.value)
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.catalog.createTable("orders", source="ordered-kafka", **given)
    assert not spark.catalog.tableExists("orders")


def test_a_table_without_options_is_refused_when_it_is_created_or_used(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    """With columns Spark asks nobody whether there may be such a table."""
    said = "CREATE TABLE has the value 'no options': Spark forgets the options"
    with pytest.raises(AnalysisException, match=said):
        spark.sql("CREATE TABLE orders USING `ordered-kafka`")
    given = in_sql(options(cluster, topic="orders"))
    spark.sql(f"CREATE TABLE orders (key BINARY, value BINARY) USING `ordered-kafka` OPTIONS ({given})")
    try:
        for statement in ("INSERT INTO orders SELECT key, value FROM orders", "SELECT * FROM orders"):
            with pytest.raises(AnalysisException, match=r"(?s)options are wrong.*CREATE TEMPORARY VIEW"):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE orders")
