"""Grow and shrink a Kafka topic's partition count while every key stays in order."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_ordered_kafka.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_ordered_kafka.client.consumer import OrderedConsumer
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
    from spark_ordered_kafka.client.metrics import ClientMetrics
    from spark_ordered_kafka.client.producer import OrderedProducer
    from spark_ordered_kafka.credentials import ControllerCredentials
    from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, PolicyViolationError
    from spark_ordered_kafka.spark.metrics import OrderedKafkaListener

__all__ = [
    "ClientMetrics",
    "ControllerClient",
    "ControllerCredentials",
    "ErrorCode",
    "OrderedConsumer",
    "OrderedKafkaError",
    "OrderedKafkaListener",
    "OrderedProducer",
    "PartitionKeyRebalanceListener",
    "PolicyViolationError",
    "__version__",
    "register",
]

# Imported on first use (PEP 562): the clients take a quarter of a second, which the command line need not pay.
_LAZY_EXPORTS = {
    "ClientMetrics": "spark_ordered_kafka.client.metrics",
    "ControllerClient": "spark_ordered_kafka.client.controller",
    "ControllerCredentials": "spark_ordered_kafka.credentials",
    "ErrorCode": "spark_ordered_kafka.errors",
    "OrderedConsumer": "spark_ordered_kafka.client.consumer",
    "OrderedKafkaError": "spark_ordered_kafka.errors",
    "OrderedKafkaListener": "spark_ordered_kafka.spark.metrics",
    "OrderedProducer": "spark_ordered_kafka.client.producer",
    "PartitionKeyRebalanceListener": "spark_ordered_kafka.client.listener",
    "PolicyViolationError": "spark_ordered_kafka.errors",
}


def register(spark: SparkSession) -> None:
    """Register ``format("ordered-kafka")`` with defaults from the session's conf: ``spark.ordered-kafka.<option>``.

    An option given to a read or a write wins.

    Raises:
        ConfigError: a conf entry is no option.
        MissingExtraError: the extra ``spark`` is not installed.
    """
    from spark_ordered_kafka.spark import datasource

    datasource.register(spark)


def __getattr__(name: str) -> Any:
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY_EXPORTS[name]), name)
