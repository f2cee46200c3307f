"""The route of automatic partition counts."""

from __future__ import annotations

from fastapi import FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.rights import by_item
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add it to ``app``."""

    @app.get("/v1/autoscale", dependencies=[by_item(service, "DESCRIBE on each topic that is shown")])
    def get_autoscale(caller: CallerOf) -> schemas.AutoscaleList:
        """Load, decisions and changes of automatic partition counts, of the topics that the caller may describe."""
        found = service.autoscaler.view()
        shown = set(service.access.among(caller, Operation.DESCRIBE, [row.topic for row in found.topics]))
        return schemas.AutoscaleList(topics=[row for row in found.topics if row.topic in shown])
