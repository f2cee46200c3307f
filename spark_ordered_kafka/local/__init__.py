"""Embedded servers for development and tests: ZooKeeper from PySpark's jars, Apache Kafka from Maven Central."""

from spark_ordered_kafka.extras import require

require("local", "a local cluster")

from spark_ordered_kafka.local.cluster import LocalCluster, ServerStatus  # noqa: E402
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS  # noqa: E402

__all__ = ["KAFKA_VERSIONS", "LocalCluster", "ServerStatus"]
