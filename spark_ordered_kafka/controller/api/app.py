"""The application: routes translate to and from the service, and nothing else."""

from __future__ import annotations

from fastapi import FastAPI

from spark_ordered_kafka.controller.api import brokers, changes, errors, groups, health, layouts, topics
from spark_ordered_kafka.controller.service import ControllerService


def create_app(service: ControllerService) -> FastAPI:
    """The application for a started ``service``."""
    app = FastAPI(
        title="ordered-kafka controller", version="1", responses=errors.ERRORS, redirect_slashes=False
    )
    errors.add_handlers(app)
    for routes in (health, topics, layouts, changes, brokers, groups):
        routes.add_routes(app, service)
    return app
