"""Grow and shrink a Kafka topic's partition count while every key stays in order."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_ordered_kafka.client.controller import ControllerClient
    from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError
    from spark_ordered_kafka.spark.datasource import register

__all__ = ["ControllerClient", "ErrorCode", "OrderedKafkaError", "register"]

# Imported on first use (PEP 562): Spark and httpx take a second, which the command line need not pay.
_HOMES = {
    "ControllerClient": "spark_ordered_kafka.client.controller",
    "ErrorCode": "spark_ordered_kafka.errors",
    "OrderedKafkaError": "spark_ordered_kafka.errors",
    "register": "spark_ordered_kafka.spark.datasource",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
