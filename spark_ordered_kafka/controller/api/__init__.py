"""The HTTP API (``/v1``)."""

from spark_ordered_kafka.controller.api.app import create_app

__all__ = ["create_app"]
