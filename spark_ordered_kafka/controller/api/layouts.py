"""Routes of layout histories, which writers and readers ask."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Query

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.bodies import body, reader
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import ErrorCode, RequestError


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.require_active)]

    @app.get("/v1/topics/{topic}/layout", dependencies=active)
    def get_layout(
        topic: str, from_epoch: Annotated[int, Query(ge=0)] = 0, writer: bool = False
    ) -> schemas.LayoutHistoryView | schemas.WriterLayoutView:
        """The layout history, or for ``writer=true`` what a writer needs; a linearizable read."""
        if writer:
            return service.topics.writer_layout(topic)
        return service.topics.layouts(topic, from_epoch)

    @app.get("/v1/topics/{topic}/leader-epochs", dependencies=active)
    def get_leader_epochs(topic: str, partitions: str | None = None) -> schemas.LeaderEpochsView:
        """KIP-253's PartitionLeaderEpochsForPartitions; ``partitions`` is a comma-separated list."""
        return service.topics.leader_epochs(topic, None if partitions is None else _numbers(partitions))

    @app.post("/v1/topics/{topic}/truncations", dependencies=active, **body(schemas.TruncationsRequest))
    def get_truncations(
        topic: str,
        request: Annotated[schemas.TruncationsRequest, Depends(reader(schemas.TruncationsRequest))],
    ) -> schemas.Truncations:
        """Which positions and layout starts lie beyond what the logs still have of their leader epoch (KIP-320)."""
        return service.truncations.check(topic, request)

    @app.post(
        "/v1/topics/{topic}/misrouted",
        dependencies=[Depends(service.require_active)],
        **body(schemas.MisroutedReport),
    )
    def report_misrouted(
        topic: str, request: Annotated[schemas.MisroutedReport, Depends(reader(schemas.MisroutedReport))]
    ) -> schemas.Result:
        """Count records that a reader found where their keys do not belong."""
        service.metrics.count_misrouted(topic, request)
        return schemas.Result()


def _numbers(value: str) -> list[int]:
    try:
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"partitions has the value {value!r}: a comma-separated list of partition numbers is needed",
        ) from None
