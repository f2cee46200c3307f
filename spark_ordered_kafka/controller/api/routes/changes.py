"""Routes of partition counts and replication factors."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from fastapi import Depends, FastAPI

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation, ResourceType
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.items import begun_results, bounded, each, seconds
from spark_ordered_kafka.controller.api.http.rights import by_item, on_cluster, on_topic
from spark_ordered_kafka.controller.api.http.waiting import Wait, await_changes, await_replicas
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import ErrorCode, RequestError

_ResultT = TypeVar("_ResultT")


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    active = [Depends(service.confirm_active)]

    @app.post(
        "/v1/partition-counts",
        dependencies=[
            *active,
            by_item(service, "ALTER on each topic", (Operation.ALTER, ResourceType.TOPIC)),
        ],
    )
    async def alter_partition_counts(
        request: schemas.PartitionCountsRequest, caller: CallerOf, wait: Wait = None
    ) -> schemas.TopicResults:
        """Start partition changes (KIP-179, KIP-253); ``wait``: seconds to wait for their end."""
        timeout = seconds(request.timeout_ms)
        deadline = time.monotonic() + timeout
        alter = partial(
            service.changes.alter,
            force=request.force,
            principal=caller.principal,
            validate_only=request.validate_only,
        )
        topics = [item.topic for item in request.topics]
        work = [(item.topic, partial(_of_kip_179, partial(alter, item))) for item in request.topics]
        begun = await each(service, caller, Operation.ALTER, work, timeout)
        results, futures = begun_results(topics, begun)
        if wait is not None:
            results = await await_changes(results, futures, bounded(wait, request.timeout_ms, deadline))
        return schemas.TopicResults(topics=results)

    @app.post(
        "/v1/replication-factors", dependencies=[*active, on_cluster(service, Operation.CLUSTER_ACTION)]
    )
    async def alter_replication_factors(
        request: schemas.ReplicationFactorsRequest, caller: CallerOf, wait: Wait = None
    ) -> schemas.TopicResults:
        """Change replication factors (KIP-179); ``wait``: seconds to wait for the end."""
        timeout = seconds(request.timeout_ms)
        deadline = time.monotonic() + timeout
        alter = partial(
            service.replication.alter, principal=caller.principal, validate_only=request.validate_only
        )
        topics = [item.topic for item in request.topics]
        work = [(item.topic, partial(_of_kip_179, partial(alter, item))) for item in request.topics]
        begun = await each(service, caller, None, work, timeout)
        results, moving = begun_results(topics, begun)
        if wait is not None:
            limit = bounded(wait, request.timeout_ms, deadline)
            results = await await_replicas(service.replication, results, moving, limit)
        return schemas.TopicResults(topics=results)

    @app.get("/v1/topics/{topic}/change", dependencies=[on_topic(service, Operation.DESCRIBE)])
    def get_change(topic: str) -> schemas.TopicChange:
        """The change in progress and the one that ended last."""
        return service.changes.view(topic)

    @app.delete("/v1/topics/{topic}/change", dependencies=[*active, on_topic(service, Operation.ALTER)])
    def cancel_change(topic: str) -> schemas.TopicResult:
        """Request that the change in progress be cancelled."""
        return service.changes.cancel(topic)


def _of_kip_179(alter: Callable[[], _ResultT]) -> _ResultT:
    """``alter`` with KIP-179's code for a missing topic."""
    try:
        return alter()
    except RequestError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, error.message) from error
