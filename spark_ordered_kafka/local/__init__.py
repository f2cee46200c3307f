"""Embedded servers for development and tests: ZooKeeper from PySpark's jars, Apache Kafka from Maven Central."""

from spark_ordered_kafka.local.cluster import LocalCluster, ServerStatus
from spark_ordered_kafka.local.jars import KAFKA_VERSIONS

__all__ = ["KAFKA_VERSIONS", "LocalCluster", "ServerStatus"]
