"""No route without a declared right: walks over what the application serves, and over its OpenAPI document."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.http.rights import EXTENSION, declared
from spark_ordered_kafka.controller.api.middleware.authentication import OPEN_PATHS
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, ZooKeeperSettings


@pytest.fixture(scope="module")
def app() -> FastAPI:
    settings = ControllerSettings(
        kafka={"bootstrap.servers": "nobody:9092"}, zookeeper=ZooKeeperSettings("nobody:2181"), url="http://x"
    )
    return create_app(ControllerService(settings))


def routes(app: FastAPI) -> list[APIRoute]:
    return [route for route in app.routes if isinstance(route, APIRoute)]


def test_every_route_declares_what_right_it_needs(app: FastAPI) -> None:
    assert len(routes(app)) > 10
    undeclared = [f"{route.methods} {route.path}" for route in routes(app) if len(declared(route)) != 1]
    assert undeclared == [], (
        "add one of on_topic, on_group, on_cluster, by_item or anyone to its dependencies"
    )


def test_only_open_paths_need_no_right(app: FastAPI) -> None:
    without = {route.path for route in routes(app) if not declared(route)[0].text}
    own = {route.path for route in app.routes if isinstance(route, Route) and not isinstance(route, APIRoute)}
    assert without <= OPEN_PATHS
    # The framework's own pages hold nothing of a cluster.
    assert own <= OPEN_PATHS, "a route that is no APIRoute cannot declare a right"
    assert without | own == OPEN_PATHS


def test_what_is_open_changes_nothing(app: FastAPI) -> None:
    methods = {method for route in routes(app) if route.path in OPEN_PATHS for method in route.methods or ()}
    assert methods == {"GET"}


def test_the_openapi_document_says_what_right_an_operation_needs(app: FastAPI) -> None:
    paths: dict[str, dict[str, Any]] = app.openapi()["paths"]
    operations = {
        (path, method): operation for path, methods in paths.items() for method, operation in methods.items()
    }
    for route in ("adopt", "release"):
        assert operations[(f"/v1/topics/{{topic}}/{route}", "post")][EXTENSION] == ["ALTER on the topic"]
    assert operations[("/v1/brokers", "get")][EXTENSION] == ["DESCRIBE on the cluster"]
    assert {path for (path, _), operation in operations.items() if not operation[EXTENSION]} <= OPEN_PATHS
