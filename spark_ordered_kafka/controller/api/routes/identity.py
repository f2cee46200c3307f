"""Routes about callers: who sends a request, and which changes were requested by whom."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.rights import anyone, on_cluster
from spark_ordered_kafka.controller.monitoring.audit import MAX_KEPT
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    settings = service.settings

    @app.get("/v1/caller", dependencies=[anyone()])
    async def get_caller(caller: CallerOf) -> schemas.CallerView:
        """Who sends the request, how callers prove who they are, and whether changes need a reason or a review."""
        return schemas.CallerView(
            principal=caller.principal,
            authentication_required=settings.authentication.required,
            methods=list(service.authenticator.schemes),
            reason_required=settings.reason_required,
            review_required=settings.review_required,
        )

    @app.get("/v1/audit-log", dependencies=[on_cluster(service, Operation.DESCRIBE)])
    def get_audit_log(limit: Annotated[int, Query(ge=1, le=MAX_KEPT)] = 200) -> schemas.AuditLines:
        """The newest lines that this controller has written to the audit log since it started, from its memory."""
        return schemas.AuditLines(controller=service.id, lines=service.audit.newest(limit))
