"""Spark's own Kafka connector: the jars that it needs beside those of PySpark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spark_ordered_kafka.local.jars import Download, Jar, cached_jars
from spark_ordered_kafka.local.java import find_java

FORMAT = "kafka"

# The newest that are on Maven Central; PySpark 4.3 runs them.
_JARS = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.1.0-preview1",
        "ab6e27a8a47ce63348dd0ecbd5543dc6212b4783180305cde5749e79684ea97b",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.0",
        "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
    ),
)


def connector_jars(progress: Callable[[str], None]) -> list[Path]:
    """The jars, downloaded the first time (10 MB); raises LocalClusterError where that fails."""
    wanted = Download(
        f"Spark's own Kafka connector {_JARS[0].version}",
        f"spark-kafka-{_JARS[0].version}",
        _JARS,
        conf="master",
    )
    return cached_jars(wanted, java=find_java(), progress=progress)
