"""What right a route needs, declared where the route is, checked before it runs, and shown in the OpenAPI document.

Every route has exactly one declaration among its dependencies. Which rights they are follows Kafka's own requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute

from spark_ordered_kafka.controller.access.acls import (
    CLUSTER,
    Operation,
    Resource,
    ResourceType,
    group_resource,
)
from spark_ordered_kafka.controller.api.http.caller import caller_of
from spark_ordered_kafka.controller.api.http.thread_pools import RIGHTS
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import AuthenticationSettings, TlsSettings

EXTENSION = "x-ordered-kafka-rights"
"""Of an operation in the OpenAPI document: the rights it needs, as text."""


class Right:
    """A route's declaration, and the dependency that checks it. ``text`` is for the documentation."""

    def __init__(
        self,
        service: ControllerService,
        operation: Operation,
        on: Literal["topic", "group", "cluster"],
    ) -> None:
        self._service = service
        self._operation = operation
        self._on = on
        self.text = [f"{operation.value} on the {on}"]

    async def __call__(self, request: Request) -> None:
        """Raises RequestError *_AUTHORIZATION_FAILED; the topic or group is the path's."""
        resource: Resource | str = CLUSTER
        if self._on == "topic":
            resource = request.path_params["topic"]
        elif self._on == "group":
            resource = group_resource(request.path_params["group"])
        await RIGHTS.run(self._service.access.check, caller_of(request), self._operation, resource)

    async def admit(self, request: Request) -> None:
        """As :meth:`check`, before the request's body is read."""
        await self(request)


class CheckedByItem:
    """The route checks each item of the request, and answers per item; ``kinds`` are the rights that it checks."""

    def __init__(
        self, service: ControllerService, text: str, kinds: Sequence[tuple[Operation, ResourceType]]
    ) -> None:
        self._service = service
        self.text = [text]
        self._kinds = kinds

    async def admit(self, request: Request) -> None:
        """Raises RequestError *_AUTHORIZATION_FAILED for a caller without any of them for anything."""
        if self._kinds:
            await RIGHTS.run(self._service.access.check_any, caller_of(request), self._kinds)

    async def __call__(self) -> None:
        """Nothing to do before the route."""


class _Anyone:
    """The route is open, to callers without credentials too."""

    text: tuple[str, ...] = ()

    async def admit(self, _: Request) -> None:
        """Admits every caller."""

    async def __call__(self) -> None:
        """Nothing to do; on the event loop, where no other work keeps it waiting."""


def on_topic(service: ControllerService, operation: Operation) -> Any:
    """A dependency: the caller may do ``operation`` to the topic in the path."""
    return Depends(Right(service, operation, "topic"))


def on_group(service: ControllerService, operation: Operation) -> Any:
    """A dependency: the caller may do ``operation`` to the group in the path."""
    return Depends(Right(service, operation, "group"))


def on_cluster(service: ControllerService, operation: Operation) -> Any:
    """A dependency: the caller may do ``operation`` to the cluster."""
    return Depends(Right(service, operation, "cluster"))


def by_item(service: ControllerService, text: str, *kinds: tuple[Operation, ResourceType]) -> Any:
    """A dependency that declares the rights that the route checks itself, since they depend on the request's content.

    Such a route uses :meth:`~spark_ordered_kafka.controller.access.access.Access.refusals`, ``among`` or ``check``. ``kinds``
    are the rights of which a caller needs one for some resource; none: every caller is admitted.
    """
    return Depends(CheckedByItem(service, text, kinds))


def anyone() -> Any:
    """A dependency that declares that the route needs no right. Its path must be in ``authentication.OPEN_PATHS``, too."""
    return Depends(_Anyone())


def declared(route: APIRoute) -> list[Right | CheckedByItem | _Anyone]:
    """The declarations of a route; a route must have one."""
    calls = (dependency.dependency for dependency in route.dependencies)
    return [call for call in calls if isinstance(call, (Right, CheckedByItem, _Anyone))]


def document(app: FastAPI, authentication: AuthenticationSettings, tls: TlsSettings | None) -> None:
    """Add to the OpenAPI document of ``app`` the right that each operation needs, and the methods of authentication."""
    generated = app.openapi
    schemes = _schemes(authentication, tls) if authentication.required else {}

    def openapi() -> dict[str, Any]:
        schema = generated()
        if schemes:
            schema.setdefault("components", {})["securitySchemes"] = schemes
        for route in app.routes:
            if not isinstance(route, APIRoute) or not route.include_in_schema:
                continue
            for method in route.methods or ():
                operation = schema["paths"][route.path_format][method.lower()]
                operation[EXTENSION] = [line for one in declared(route) for line in one.text]
                if schemes and operation[EXTENSION]:
                    operation["security"] = [{name: []} for name in schemes]
        return schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's documentation says


def _schemes(authentication: AuthenticationSettings, tls: TlsSettings | None) -> dict[str, dict[str, str]]:
    schemes: dict[str, dict[str, str]] = {}
    if authentication.kafka_mechanism is not None:
        schemes["kafkaUser"] = {"type": "http", "scheme": "basic"}
    if authentication.tokens_file is not None:
        schemes["token"] = {"type": "http", "scheme": "bearer"}
    if tls is not None and tls.client_auth != "none":
        schemes["certificate"] = {"type": "mutualTLS"}
    return schemes
