"""Brokers and their guard rails (KIP-578)."""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import Answer


class BrokerView(Answer):
    """A row of ``GET /v1/brokers`` (KIP-578); ``hosted`` counts replicas, those being added included."""

    id: int
    rack: str | None
    hosted: int
    max_partitions: int
    capacity: int


class BrokerList(Answer):
    """``GET /v1/brokers``."""

    brokers: list[BrokerView]
