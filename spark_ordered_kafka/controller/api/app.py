"""The application: routes translate to and from the service, and nothing else."""

from __future__ import annotations

from fastapi import FastAPI

from spark_ordered_kafka.controller.api import openapi
from spark_ordered_kafka.controller.api.http import errors, rights
from spark_ordered_kafka.controller.api.http.bodies import JsonRoute
from spark_ordered_kafka.controller.api.middleware.admission import Admission
from spark_ordered_kafka.controller.api.middleware.authentication import Authentication
from spark_ordered_kafka.controller.api.middleware.governance import Governance
from spark_ordered_kafka.controller.api.middleware.keys import Keys
from spark_ordered_kafka.controller.api.middleware.limits import Limits
from spark_ordered_kafka.controller.api.middleware.observing import Observing
from spark_ordered_kafka.controller.api.middleware.origins import Origins
from spark_ordered_kafka.controller.api.middleware.redirects import Redirects
from spark_ordered_kafka.controller.api.routes import (
    autoscale,
    brokers,
    changes,
    deletions,
    events,
    groups,
    healing,
    health,
    identity,
    layouts,
    reassignments,
    reviews,
    topics,
    web_page,
    writer_names,
)
from spark_ordered_kafka.controller.api.routes import log_dir_routes as log_dirs
from spark_ordered_kafka.controller.service import ControllerService


def create_app(service: ControllerService) -> FastAPI:
    """The application for a started ``service``."""
    app = FastAPI(
        title="ordered-kafka controller",
        version="1",
        responses=errors.ERRORS,
        redirect_slashes=False,
        # FastAPI's pages run scripts from another host.
        docs_url=None,
        redoc_url=None,
    )
    app.router.route_class = JsonRoute
    errors.add_handlers(app)
    for routes in (
        health,
        topics,
        deletions,
        layouts,
        changes,
        brokers,
        groups,
        log_dirs,
        reassignments,
        reviews,
        writer_names,
        identity,
        events,
        web_page,
        autoscale,
        healing,
    ):
        routes.add_routes(app, service)
    settings = service.settings
    openapi.document(app, reason_required=settings.reason_required, review_required=settings.review_required)
    rights.document(app, settings.authentication, settings.tls)
    _wrap(app, service)
    return app


def _wrap(app: FastAPI, service: ControllerService) -> None:
    """Add the middleware; the last one added runs first."""
    app.add_middleware(Keys)
    app.add_middleware(Governance, service=service, fastapi=app)
    app.add_middleware(Redirects, service=service)
    app.add_middleware(Admission)
    app.add_middleware(Authentication, service=service)
    app.add_middleware(Limits)
    app.add_middleware(Origins, url=service.settings.url, allowed_hosts=service.settings.allowed_hosts)
    app.add_middleware(Observing, metrics=service.metrics)
