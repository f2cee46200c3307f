"""The OpenAPI document is whole: every reference resolves, every body has an example that fits its model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.examples import EXAMPLES
from spark_ordered_kafka.controller.api.http.routing import is_mutating
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
    ControllerSettings,
    ZooKeeperSettings,
)

JSON = "application/json"


def document(**more: Any) -> tuple[dict[str, Any], list[APIRoute]]:
    """Of a controller that was never started: the document needs no servers."""
    settings = ControllerSettings(
        {"bootstrap.servers": "b:1"}, ZooKeeperSettings("z:1"), "http://c:1", **more
    )
    app = create_app(ControllerService(settings))
    return app.openapi(), [route for route in app.routes if isinstance(route, APIRoute)]


@pytest.fixture(scope="module")
def plain() -> tuple[dict[str, Any], list[APIRoute]]:
    return document()


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_reference_resolves(plain: Any) -> None:
    schema, _ = plain
    found = set(references(schema))
    assert found
    for reference in found:
        node: Any = schema
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_every_operation_is_described_and_truthful_about_errors(plain: Any) -> None:
    schema, routes = plain
    assert sum(len(route.methods) for route in routes) == len(list(operations(schema)))
    for method, path, operation in operations(schema):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"], where
        assert {"400", "403", "404", "503"} <= set(operation["responses"]), where
        # FastAPI's own; what does not fit a schema is answered 400.
        assert "422" not in operation["responses"], where
        if "requestBody" in operation:
            assert {"413", "415"} <= set(operation["responses"]), where


def test_every_mutating_operation_takes_a_reason(plain: Any) -> None:
    schema, _ = plain
    for method, path, operation in operations(schema):
        names = [parameter["name"] for parameter in operation.get("parameters", ())]
        assert names.count("reason") == is_mutating(method, path), f"{method} {path}"
        assert "202" not in operation["responses"]


def test_with_reviews_every_mutating_operation_may_answer_202() -> None:
    schema, _ = document(review_required=True, authentication=AuthenticationSettings(required=True))
    for method, path, operation in operations(schema):
        assert ("202" in operation["responses"]) == is_mutating(method, path), f"{method} {path}"


def test_every_body_has_an_example(plain: Any) -> None:
    schema, _ = plain
    used = set()
    for method, path, operation in operations(schema):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for content in (body["content"][JSON] for body in bodies if JSON in body.get("content", {})):
            assert content.get("examples"), f"{method} {path}: {content['schema']}"
            used |= set(content["examples"])
    assert used == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_fit_their_models(name: str) -> None:
    model: type[Any] = getattr(schemas, name)
    adapter = TypeAdapter(model)
    read = adapter.validate_json(to_json(EXAMPLES[name]))
    names = model.model_fields if issubclass(model, BaseModel) else model.__annotations__
    assert set(EXAMPLES[name]) <= set(names)
    # Nothing that an answer ignores, and nothing that is read as something else.
    assert adapter.validate_json(adapter.dump_json(read)) == read


def test_only_known_media_types_are_answered(plain: Any) -> None:
    schema, _ = plain
    for method, path, operation in operations(schema):
        kinds = {kind for answer in operation["responses"].values() for kind in answer.get("content", {})}
        own = {"/metrics": {"text/plain"}, "/v1/events": {"text/event-stream"}}.get(path, set())
        assert kinds <= {JSON, *own}, f"{method} {path}"
    assert list(schema["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]
    assert list(schema["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]


def test_the_page_is_made_of_the_document() -> None:
    from tests.controller import route_table

    page = Path(__file__).parents[2] / "docs" / "http-api.md"
    assert page.read_text() == route_table.page(), route_table.__doc__
