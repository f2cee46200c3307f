"""Routes of the brokers."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.require_active)]

    @app.get("/v1/brokers", dependencies=active)
    def get_brokers() -> schemas.BrokerList:
        """Brokers with racks, hosted replicas and capacity."""
        return service.topics.brokers()
