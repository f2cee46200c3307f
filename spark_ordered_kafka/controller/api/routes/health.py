"""Liveness, readiness and metrics."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from fastapi import FastAPI, Request, Response

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.access.acls import Operation
from spark_ordered_kafka.controller.api.http.caller import ANONYMOUS, caller_of
from spark_ordered_kafka.controller.api.http.rights import anyone, on_cluster
from spark_ordered_kafka.controller.monitoring.metrics import CONTENT_TYPE
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError

_PROBE_AGE = 1.0
"""Seconds for which an answer of Kafka is used."""


def add_routes(app: FastAPI, service: ControllerService) -> None:
    """Add them to ``app``."""

    @app.get("/healthz", dependencies=[anyone()])
    async def healthz() -> schemas.Result:
        """The process is alive."""
        return schemas.Result()

    @app.get("/readyz", dependencies=[anyone()])
    async def readyz(request: Request) -> schemas.Readiness:
        """This process serves, as leader or as follower, and Kafka and ZooKeeper answer."""
        # On the event loop: the route is open to all, and Kafka may take long.
        try:
            service.readiness()
            await asyncio.shield(asyncio.wrap_future(service.kafka_probe.outcome(_PROBE_AGE)))
            return service.readiness()  # of now: Kafka may have taken long
        except OrderedKafkaError as error:
            if service.settings.authentication.required and caller_of(request).principal == ANONYMOUS:
                # The reason names servers.
                hidden = "this process cannot serve; callers who show credentials are told why"
                raise UnavailableError(hidden) from error
            raise

    @app.get("/v1/controllers", dependencies=[on_cluster(service, Operation.DESCRIBE)])
    def list_controllers() -> schemas.ControllerList:
        """The running controllers, and which of them leads."""
        return service.controllers()

    @app.get("/v1/diagnostics", dependencies=[on_cluster(service, Operation.DESCRIBE)])
    def get_diagnostics() -> schemas.Diagnostics:
        """What this controller finds out about itself, ZooKeeper and its rights in Kafka; no other one is asked."""
        return service.diagnosis.diagnose(service.readiness().role or "follower")

    @app.get(
        "/metrics",
        response_class=Response,
        responses={HTTPStatus.OK.value: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        dependencies=[on_cluster(service, Operation.DESCRIBE)],
    )
    def get_metrics() -> Response:
        """Counters of this process in Prometheus' text format."""
        return Response(service.metrics.exposition(), media_type=CONTENT_TYPE)
