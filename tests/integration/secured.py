"""A controller of a secured cluster, in the process of the tests, that knows a token for whoever is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from spark_ordered_kafka.controller.access.tokens import hashed
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    ControllerSettings,
)
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.integration.keepers import with_sasl
from tests.servers import TIMEOUT, await_true

Kafka = dict[str, str]
# Of a controller in the test's process, whose clients do not log in.
EVERYBODY = AuthorizationSettings(super_users=frozenset({"User:ANONYMOUS"}))


@dataclass
class Service:
    http: TestClient
    tokens: Path
    controller: ControllerService

    def token(self, principal: str) -> dict[str, str]:
        """The header of a caller; the token is made of the name."""
        token = re.sub(r"[^A-Za-z0-9._~-]", "_", principal).ljust(40, "-")
        entry = f"{hashed(token, principal)}\n"
        if entry not in self.tokens.read_text():
            with self.tokens.open("a") as file:
                file.write(entry)
        return {"Authorization": f"Bearer {token}"}

    def ask(self, principal: str, method: str, path: str, **more: Any) -> httpx2.Response:
        answer: httpx2.Response = self.http.request(method, path, headers=self.token(principal), **more)
        return answer


@contextmanager
def controller(
    cluster: LocalCluster,
    tokens: Path,
    mechanism: str = "SCRAM-SHA-512",
    *,
    request_timeout: float = TIMEOUT,
    **more: Any,
) -> Iterator[Service]:
    tokens.touch()
    settings = ControllerSettings(
        kafka=cluster.kafka_properties(CONTROLLER),
        zookeeper=with_sasl(cluster),
        url="http://in-process",
        request_timeout=request_timeout,
        authentication=AuthenticationSettings(
            required=True, kafka_mechanism=mechanism, tokens_file=str(tokens)
        ),
        authorization=AuthorizationSettings(super_users=frozenset({"User:admin"})),
        **more,
    )
    service = ControllerService(settings)
    http = TestClient(create_app(service))
    service.start()
    try:
        await_true(lambda: service.active, "the controller leads")
        yield Service(http, tokens, service)
    finally:
        service.stop()


def credentials(cluster: LocalCluster, user: str, **changes: str | None) -> ControllerCredentials:
    given: dict[str, str | None] = {
        "username": user,
        "password": cluster.secrets.password(user),
        "ca_location": str(cluster.secrets.ca),
    }
    return ControllerCredentials(**{**given, **changes})
