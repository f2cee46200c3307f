"""Routes of partition changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Query
from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.bodies import body, reader
from spark_ordered_kafka.controller.api.waiting import MAX_WAIT, await_changes
from spark_ordered_kafka.controller.service import ControllerService


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.require_active)]

    @app.post("/v1/partition-counts", dependencies=active, **body(schemas.PartitionCountsRequest))
    async def alter_partition_counts(
        request: Annotated[schemas.PartitionCountsRequest, Depends(reader(schemas.PartitionCountsRequest))],
        wait: Annotated[float | None, Query(gt=0, le=MAX_WAIT, allow_inf_nan=False)] = None,
    ) -> schemas.TopicResults:
        """Start partition changes (KIP-179, KIP-253); ``wait`` waits so many seconds for their end."""
        results, futures = await run_in_threadpool(service.changes.alter, request)
        if wait is not None:
            results = await await_changes(results, futures, wait)
        return schemas.TopicResults(topics=results)

    @app.get("/v1/topics/{topic}/change", dependencies=active)
    def get_change(topic: str) -> schemas.TopicChange:
        """The change in progress and the one that ended last."""
        return service.changes.view(topic)

    @app.delete("/v1/topics/{topic}/change", dependencies=active)
    def cancel_change(topic: str) -> schemas.TopicResult:
        """Ask for the change in progress to be taken back."""
        return service.changes.cancel(topic)
