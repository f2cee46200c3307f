"""Routes of self-healing, and of the elections that it requests."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.rights import on_cluster
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""

    @app.get("/v1/healing", dependencies=[on_cluster(service, Operation.DESCRIBE)])
    def get_healing() -> schemas.HealingView:
        """Brokers, findings, proposals and decisions of self-healing."""
        return service.healer.view()

    @app.post(
        "/v1/leader-elections",
        dependencies=[Depends(service.confirm_active), on_cluster(service, Operation.CLUSTER_ACTION)],
    )
    def elect_leaders(request: schemas.LeaderElectionRequest) -> schemas.LeaderElectionResult:
        """Let the preferred replicas of partitions lead them again (KIP-460)."""
        return service.elections.elect(request)
