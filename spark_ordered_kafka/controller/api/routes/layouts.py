"""Routes of layout histories, for writers and readers."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation, ResourceType
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.filters import Filter, numbers
from spark_ordered_kafka.controller.api.http.rights import by_item, on_topic
from spark_ordered_kafka.controller.api.http.thread_pools import LAYOUTS, RIGHTS
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.topics.batches import MAX_TOPICS, check_number
from spark_ordered_kafka.errors import invalid_request


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    described = [on_topic(service, Operation.DESCRIBE)]

    @app.get("/v1/topics/{topic}/layout", dependencies=described)
    async def get_layout(
        topic: str, from_epoch: Annotated[int, Query(ge=0)] = 0, writer: bool = False
    ) -> schemas.LayoutHistoryView | schemas.WriterLayoutView:
        """The layout history, or for ``writer=true`` what a writer needs; a linearizable read."""
        if writer:
            return await LAYOUTS.run(service.topics.writer_layout, topic)
        return await LAYOUTS.run(service.topics.layouts, topic, from_epoch)

    @app.post(
        "/v1/layouts",
        dependencies=[by_item(service, "DESCRIBE on each topic", (Operation.DESCRIBE, ResourceType.TOPIC))],
    )
    async def get_layouts(request: schemas.LayoutsRequest, caller: CallerOf) -> schemas.LayoutHistories:
        """The layout histories of several topics by one linearizable read, each with its own result."""
        topics = [one.topic for one in request.topics]
        check_number("topic", topics, MAX_TOPICS)
        refused = await RIGHTS.run(service.access.refusals, caller, Operation.DESCRIBE, topics)
        return await LAYOUTS.run(service.topics.histories, request.topics, refused)

    @app.get("/v1/topics/{topic}/leader-epochs", dependencies=described)
    def get_leader_epochs(topic: str, partitions: Filter = None) -> schemas.LeaderEpochsView:
        """KIP-253's PartitionLeaderEpochsForPartitions."""
        wanted = None if partitions is None else numbers("partitions", partitions)
        return service.topics.leader_epochs(topic, wanted)

    @app.post("/v1/topics/{topic}/truncations", dependencies=described)
    def get_truncations(topic: str, request: schemas.TruncationsRequest) -> schemas.Truncations:
        """Which positions and layout starts lie beyond what the logs still have of their leader epoch (KIP-320)."""
        return service.truncations.check(topic, request)

    @app.post("/v1/topics/{topic}/misrouted", dependencies=[on_topic(service, Operation.READ)])
    def report_misrouted(topic: str, request: schemas.MisroutedReport) -> schemas.Result:
        """Count records that a reader found where their keys do not belong."""
        if request.records < 1:
            raise invalid_request(f"records has the value {request.records}: at least 1 is needed")
        service.topics.record(topic)
        service.metrics.count_misrouted(topic, request.records)
        return schemas.Result()
