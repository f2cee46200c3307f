"""Grow and shrink a Kafka topic's partition count while every key stays in order."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_ordered_kafka.client.consumer import OrderedConsumer
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.client.listener import PartitionKeyRebalanceListener
    from spark_ordered_kafka.client.producer import OrderedProducer
    from spark_ordered_kafka.credentials import ControllerCredentials
    from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, PolicyViolationError
    from spark_ordered_kafka.spark.datasource import register

__all__ = [
    "ControllerClient",
    "ControllerCredentials",
    "ErrorCode",
    "OrderedConsumer",
    "OrderedKafkaError",
    "OrderedProducer",
    "PartitionKeyRebalanceListener",
    "PolicyViolationError",
    "register",
]

# Imported on first use (PEP 562): Spark and httpx take a second, which the command line need not pay.
_LAZY_EXPORTS = {
    "ControllerClient": "spark_ordered_kafka.client.controller",
    "ControllerCredentials": "spark_ordered_kafka.credentials",
    "ErrorCode": "spark_ordered_kafka.errors",
    "OrderedConsumer": "spark_ordered_kafka.client.consumer",
    "OrderedKafkaError": "spark_ordered_kafka.errors",
    "OrderedProducer": "spark_ordered_kafka.client.producer",
    "PartitionKeyRebalanceListener": "spark_ordered_kafka.client.listener",
    "PolicyViolationError": "spark_ordered_kafka.errors",
    "register": "spark_ordered_kafka.spark.datasource",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY_EXPORTS[name]), name)
