"""Lets Spark find ``format("ordered-kafka")``: it imports top-level modules named ``pyspark_*`` with DefaultSource."""

from spark_ordered_kafka.spark.datasource import OrderedKafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
