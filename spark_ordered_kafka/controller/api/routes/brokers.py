"""Routes of the brokers."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.rights import on_cluster
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""

    @app.get("/v1/brokers", dependencies=[on_cluster(service, Operation.DESCRIBE)])
    def get_brokers() -> schemas.BrokerList:
        """Brokers with racks, hosted replicas, limit and capacity."""
        return service.capacities.brokers()

    @app.put(
        "/v1/brokers/{broker}/guard-rails",
        dependencies=[Depends(service.confirm_active), on_cluster(service, Operation.ALTER_CONFIGS)],
    )
    def set_guard_rails(broker: schemas.Number, request: schemas.GuardRailsRequest) -> schemas.BrokerView:
        """Limit how many replicas a broker may host (KIP-578)."""
        return service.capacities.set_limit(
            broker, request.max_partitions, validate_only=request.validate_only
        )
