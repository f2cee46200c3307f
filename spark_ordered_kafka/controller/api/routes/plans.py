"""Route of plans of reassignments."""

from __future__ import annotations

from fastapi import FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.rights import on_cluster
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add it to ``app``."""

    @app.post("/v1/reassignments/plan", dependencies=[on_cluster(service, Operation.DESCRIBE)])
    def plan_reassignment(request: schemas.ReassignmentPlanRequest) -> schemas.ReassignmentPlan:
        """Propose an assignment: drain brokers, spread onto new ones, balance, repair racks; nothing is changed."""
        return service.plans.propose(request)
