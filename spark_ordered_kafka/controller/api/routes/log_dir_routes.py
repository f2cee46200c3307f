"""Routes of log directories (KIP-113) and of the status of replicas (KIP-179)."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Depends, FastAPI, Query
from fastapi.concurrency import run_in_threadpool

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import CallerOf
from spark_ordered_kafka.controller.api.http.filters import Filter, numbers, texts
from spark_ordered_kafka.controller.api.http.rights import on_cluster
from spark_ordered_kafka.controller.api.http.waiting import await_begun
from spark_ordered_kafka.controller.service import ControllerService

_BEGIN_WAIT = 10.0
"""Seconds that moves have to begin, for requests without ``timeout_ms``: other moves may be in all slots for long."""

Timeout = Annotated[schemas.TimeoutMs | None, Query(description="Milliseconds that brokers have to answer.")]


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""
    described = [on_cluster(service, Operation.DESCRIBE)]

    @app.get("/v1/log-dirs", dependencies=described)
    def get_log_dirs(
        broker: Filter = None, log_dir: Filter = None, topic: Filter = None, timeout_ms: Timeout = None
    ) -> schemas.LogDirList:
        """Log directories of brokers with their replicas; offline and missing ones have an error."""
        return service.log_dirs.describe(
            numbers("broker", broker),
            texts("log_dir", log_dir),
            texts("topic", topic),
            timeout=_seconds(timeout_ms),
        )

    @app.get("/v1/replica-log-dirs", dependencies=described)
    def get_replica_log_dirs(
        topic: Filter = None, partition: Filter = None, broker: Filter = None, timeout_ms: Timeout = None
    ) -> schemas.ReplicaLogDirList:
        """The log directories of replicas, and those to which they are being moved (describeReplicaLogDirs)."""
        return service.log_dirs.replicas(
            texts("topic", topic),
            numbers("partition", partition),
            numbers("broker", broker),
            timeout=_seconds(timeout_ms),
        )

    @app.post(
        "/v1/replica-log-dirs",
        dependencies=[Depends(service.confirm_active), on_cluster(service, Operation.ALTER)],
    )
    async def move_replicas(
        request: schemas.ReplicaLogDirsRequest, caller: CallerOf
    ) -> schemas.ReplicaLogDirsResult:
        """Move replicas to other log directories of their brokers, as a request to reassign partitions; naming the current one cancels a move."""
        began, timeout = time.monotonic(), _seconds(request.timeout_ms)
        answer = await run_in_threadpool(service.log_dir_moves.move, request, principal=caller.principal)
        left = _BEGIN_WAIT if timeout is None else began + timeout - time.monotonic()
        return await await_begun(service.reassignment_queries, answer, left)

    @app.get("/v1/replica-status", dependencies=described)
    def get_replica_status(
        topic: Filter = None, partition: Filter = None, broker: Filter = None
    ) -> schemas.ReplicaStatusList:
        """How many records replicas are behind their leaders (replicaStatus); -1: not known, the row says why."""
        return service.lags.status(
            texts("topic", topic), numbers("partition", partition), numbers("broker", broker)
        )


def _seconds(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000
