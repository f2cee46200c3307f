"""Routes of consumer groups."""

from __future__ import annotations

from fastapi import FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation, group_resource
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.rights import by_item, on_group
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.updates import updated


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""

    @app.get("/v1/groups", dependencies=[by_item(service, "DESCRIBE on each group that is shown")])
    def list_groups(caller: CallerOf) -> schemas.GroupList:
        """The consumer groups that the caller may describe, without the ledgers of writers."""
        found = service.positions.groups()
        resources = {row.group: group_resource(row.group) for row in found}
        shown = set(service.access.among(caller, Operation.DESCRIBE, resources.values()))
        return schemas.GroupList(groups=[row for row in found if resources[row.group] in shown])

    # A group's name may hold anything, slashes included.
    @app.get(
        "/v1/groups/{group:path}/positions",
        dependencies=[on_group(service, Operation.DESCRIBE)],
    )
    def get_group_positions(group: str, caller: CallerOf, topic: str | None = None) -> schemas.GroupPositions:
        """A group's committed positions, and what each blocked partition waits for (KIP-253 ConsumerGroupPosition)."""
        if topic is not None:
            service.access.check(caller, Operation.DESCRIBE, topic)
        found = service.positions.describe(group, topic)
        shown = service.access.among(caller, Operation.DESCRIBE, [row.topic for row in found.topics])
        return updated(found, topics=[row for row in found.topics if row.topic in shown])
