"""Writes whose controller goes away: the reason is in the error, and the wait has a limit that an option sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.integration.gateway import gateway_to
from tests.integration.replaying import Replayed, once
from tests.streams import FORMAT, create, options


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(0, id="before it is planned", marks=pytest.mark.long),
        pytest.param(1, id="once it is planned"),
    ],
)
def test_the_first_micro_batch_says_that_no_controller_answers(
    cluster: LocalCluster, spark: SparkSession, topic_name: str, tmp_path: Path, answers: int
) -> None:
    create(cluster, topic_name, 2)
    with gateway_to(cluster) as gateway:
        sink = {"topic": topic_name, "controller.url": gateway.url, "controllerTimeout": "5s"}
        query = Replayed(cluster, spark, tmp_path, sink=sink)
        query.give(0, range(10))
        gateway.left = answers
        with pytest.raises(Exception, match="no controller answered") as caught:
            query.run(2, "n % 2")
        assert "Writing job failed" not in str(caught.value)
        if answers > 0:
            assert f"no layout of topic '{topic_name}' within 5 s (option controllerTimeout)" in str(
                caught.value
            )
        gateway.left = 100
        query.sink["controllerTimeout"] = "60s"
        query.run(2, "n % 2")
        assert query.written(topic_name) == once(range(10))


@pytest.mark.long
def test_a_batch_write_says_so_when_it_is_planned(
    cluster: LocalCluster, spark: SparkSession, topic_name: str
) -> None:
    create(cluster, topic_name, 2)
    rows = spark.range(1).selectExpr("'v' AS value")
    with gateway_to(cluster) as gateway:
        given = options(cluster, topic=topic_name) | {
            "controller.url": gateway.url,
            "controllerTimeout": "5s",
        }
        write = rows.write.format(FORMAT).options(**given).mode("append")
        gateway.left = 100
        write.save()
        gateway.left = 0
        with pytest.raises(Exception, match="no controller answered") as planned:
            write.save()
        assert "Job aborted" not in str(planned.value), "although this process has asked for the topic before"
        gateway.left = 1
        with pytest.raises(
            Exception, match=r"(?s)within 5 s \(option controllerTimeout\).*no controller answered"
        ):
            write.save()
