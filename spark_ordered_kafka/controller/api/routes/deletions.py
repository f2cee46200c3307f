"""Routes by which topics leave management: deleted, or released."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from fastapi import Depends, FastAPI, Query

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation, ResourceType
from spark_ordered_kafka.controller.api.http.caller import Caller, CallerOf
from spark_ordered_kafka.controller.api.http.items import each, only, seconds, topic_results
from spark_ordered_kafka.controller.api.http.rights import by_item, on_topic
from spark_ordered_kafka.controller.api.http.waiting import await_leaving
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import OrderedKafkaError


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.confirm_active)]

    async def delete(
        topics: list[str], caller: Caller, operation: Operation | None, validate_only: bool, timeout: float
    ) -> list[schemas.TopicResult | OrderedKafkaError]:
        deadline = time.monotonic() + timeout
        begin = partial(service.deleter.begin, principal=caller.principal, validate_only=validate_only)
        work = [(topic, partial(begin, topic)) for topic in topics]
        begun = await each(service, caller, operation, work, timeout)
        return await await_leaving(service.deleter.what, begun, deadline, timeout)

    @app.delete("/v1/topics/{topic}", dependencies=[*active, on_topic(service, Operation.DELETE)])
    async def delete_topic(
        topic: str,
        caller: CallerOf,
        validate_only: bool = False,
        timeout_ms: Annotated[schemas.TimeoutMs | None, Query()] = None,
    ) -> schemas.TopicResult:
        """Delete a topic under management, with all it holds."""
        return only(await delete([topic], caller, None, validate_only, seconds(timeout_ms)))

    @app.post(
        "/v1/topic-deletions",
        dependencies=[
            *active,
            by_item(service, "DELETE on each topic", (Operation.DELETE, ResourceType.TOPIC)),
        ],
    )
    async def delete_topics(request: schemas.DeleteTopicsRequest, caller: CallerOf) -> schemas.TopicResults:
        """Delete several topics under management, each with its own result."""
        timeout = seconds(request.timeout_ms)
        found = await delete(request.topics, caller, Operation.DELETE, request.validate_only, timeout)
        return topic_results(request.topics, found)

    @app.post("/v1/topics/{topic}/release", dependencies=[*active, on_topic(service, Operation.ALTER)])
    async def release_topic(
        topic: str, request: schemas.ReleaseTopicRequest, caller: CallerOf
    ) -> schemas.TopicResult:
        """Release a topic from management; Kafka keeps it with its records and configuration."""
        timeout = seconds(request.timeout_ms)
        deadline = time.monotonic() + timeout
        work = partial(service.releaser.begin, topic, request, principal=caller.principal)
        begun = await each(service, caller, None, [(topic, work)], timeout)
        return only(await await_leaving(service.releaser.what, begun, deadline, timeout))
