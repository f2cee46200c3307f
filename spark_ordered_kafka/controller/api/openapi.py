"""The OpenAPI document: adds what FastAPI cannot derive from the routes, and removes what is not true."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.api.examples import EXAMPLES
from spark_ordered_kafka.controller.api.http.bodies import models_of
from spark_ordered_kafka.controller.api.http.routing import is_mutating
from spark_ordered_kafka.controller.api.middleware.mutations import MAX_REASON
from spark_ordered_kafka.controller.api.routes.events import EVENTS
from spark_ordered_kafka.controller.change.protocol import STEPS

_JSON = "application/json"
_COMPONENTS = "#/components/schemas/"
_OWN_VALIDATION = str(int(HTTPStatus.UNPROCESSABLE_ENTITY))
"""FastAPI's answer to requests that do not fit its schema, which is 400 here."""


def document(app: FastAPI, *, reason_required: bool, review_required: bool) -> None:
    """Complete the document of ``app``; call it after all routes were added."""
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        schema = generated()
        components = schema["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            components.pop(name, None)
        for name, definition in _definitions(tuple(EVENTS.values())).items():
            components.setdefault(name, definition)
        for route in app.routes:
            if not isinstance(route, APIRoute) or not route.include_in_schema:
                continue
            components |= _definitions(models_of(route))
            for method in route.methods or ():
                operation = schema["paths"][route.path_format][method.lower()]
                operation["responses"].pop(_OWN_VALIDATION, None)
                if is_mutating(method, route.path):
                    operation.setdefault("parameters", []).append(_reason(reason_required))
                    if review_required:
                        operation["responses"][str(int(HTTPStatus.ACCEPTED))] = _PENDING
                _add_examples(operation)
        components[schemas.ChangeView.__name__]["properties"]["step"] = _STEP
        return schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's documentation says


# Clients take any word; these are the ones of this controller.
_STEP = {"anyOf": [{"type": "string", "enum": list(STEPS)}, {"type": "string"}], "title": "Step"}
_PENDING = {
    "description": "Nothing was done yet: the request waits for a second principal",
    "content": {_JSON: {"schema": {"$ref": f"{_COMPONENTS}{schemas.ReviewView.__name__}"}}},
}


def _reason(required: bool) -> dict[str, Any]:
    return {
        "name": "reason",
        "in": "query",
        # A request that only checks needs none, which a schema cannot express.
        "required": False,
        "description": "Why, for the audit log"
        + (": needed, except with validate_only" if required else "; may be demanded"),
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_REASON},
        "example": "more partitions for the evening's load",
    }


def _definitions(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    """Pydantic's own: FastAPI's have bounds as floats, of which those of 64 bits are not exact."""
    template = f"{_COMPONENTS}{{model}}"
    _, found = models_json_schema([(model, "validation") for model in models], ref_template=template)
    definitions: dict[str, Any] = found.get("$defs", {})
    return definitions


def _add_examples(operation: dict[str, Any]) -> None:
    parts = [operation.get("requestBody", {}), *operation["responses"].values()]
    for content in (part["content"][_JSON] for part in parts if _JSON in part.get("content", {})):
        examples = {name: {"value": EXAMPLES[name]} for name in _names(content["schema"]) if name in EXAMPLES}
        if examples:
            content["examples"] = examples


def _names(schema: dict[str, Any]) -> list[str]:
    """The components that ``schema`` is, or may be."""
    return [one["$ref"].removeprefix(_COMPONENTS) for one in schema.get("anyOf", [schema]) if "$ref" in one]
