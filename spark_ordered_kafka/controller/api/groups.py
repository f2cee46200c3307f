"""Routes of consumer groups."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""

    # A group's name may hold anything, slashes included.
    @app.get("/v1/groups/{group:path}/positions", dependencies=[Depends(service.require_active)])
    def get_group_positions(group: str, topic: str | None = None) -> schemas.GroupPositions:
        """A group's committed positions, and what each blocked partition waits for (KIP-253 ConsumerGroupPosition)."""
        return service.positions.describe(group, topic)
