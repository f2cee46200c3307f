"""Programs of Spark queries, drawn at random and judged by a model: others in every run.

``PROGRAMS=50 pytest tests/programs/test_spark.py`` runs so many; ``make programs OF=spark MINUTES=30`` for so long.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from spark_ordered_kafka.local import LocalCluster
from tests.programs.found import FOUND_SPARK
from tests.programs.search import search
from tests.programs.spark_drawing import spark_programs
from tests.programs.spark_running import check_spark
from tests.programs.spark_steps import Job, Run, SparkProgram, Write
from tests.seeds import examples

MANY = int(os.environ.get("PROGRAMS", examples(6)))
_WRITE = Write(("k0", "k1", "k2", "k3"), 5)


def test_programs_of_spark_copy_every_record_once_or_say_why_not(
    cluster: LocalCluster, spark: SparkSession
) -> None:
    search(spark_programs(), lambda program: check_spark(cluster, spark, program), MANY)


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND_SPARK)
def test_what_was_found_of_spark_once_is_not_found_again(
    cluster: LocalCluster, spark: SparkSession, name: str
) -> None:
    check_spark(cluster, spark, FOUND_SPARK[name])


@pytest.mark.long
@pytest.mark.parametrize("event", ["driver dies", "another driver"])
def test_a_driver_is_killed_in_mid_batch_or_not_alone(
    cluster: LocalCluster, spark: SparkSession, event: str
) -> None:
    tasks = "repartition 3"
    steps = (_WRITE, Run(tasks), _WRITE, Run(tasks, event=event, at=3, limit=20), _WRITE, Run(tasks))
    for job in (Job("sink"), Job("each", headers=True)):
        check_spark(cluster, spark, SparkProgram(job, steps))
