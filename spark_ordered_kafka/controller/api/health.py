"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import FastAPI, Response

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.metrics import CONTENT_TYPE
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""

    @app.get("/healthz")
    async def healthz() -> schemas.Result:
        """The process is alive."""
        return schemas.Result()

    @app.get("/readyz")
    def readyz() -> schemas.Result:
        """This process is the controller, and Kafka and ZooKeeper answer."""
        service.check_ready()
        return schemas.Result()

    @app.get("/metrics", response_class=Response)
    def get_metrics() -> Response:
        """Counters of this process in Prometheus' text format."""
        return Response(service.metrics.exposition(), media_type=CONTENT_TYPE)
