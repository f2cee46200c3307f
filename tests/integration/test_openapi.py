"""schemathesis puts made-up requests, right and wrong ones, to a controller on real servers, by its own OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.routes.events import MAX_DURATION
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, ZooKeeperSettings
from tests.integration.controllers import InProcess, free_port, served
from tests.seeds import examples
from tests.servers import TIMEOUT

# Of schemathesis itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
load_all_checks()
# What answers must be like whatever was asked.
CHECKED: list[Any] = [
    CHECKS.get_one(name)
    for name in (
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "unsupported_method",
        "allow_header_conformance",
    )
]
# Another method finds the route of an id there, and hears that this is none: 400 instead of 405.
LIKE_AN_ID = frozenset({"/v1/reassignments/plan", "/v1/reassignments/verify"})
OF_METHODS: list[Any] = [CHECKS.get_one("unsupported_method"), CHECKS.get_one("allow_header_conformance")]
made_up = settings(
    max_examples=examples(16),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


def document() -> dict[str, Any]:
    """The same for every controller with these settings; one that was never started can tell it."""
    never_started = ControllerSettings(
        {"bootstrap.servers": "localhost:1"}, ZooKeeperSettings("localhost:1"), "http://localhost:1"
    )
    return create_app(ControllerService(never_started)).openapi()


def loaded(openapi: dict[str, Any]) -> Any:
    generation = GenerationConfig(deterministic=True)
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=generation)))
    return schemathesis.openapi.from_dict(openapi, config=config)


any_request = loaded(document())
of_a_topic = any_request.include(path_regex=r"/\{topic\}").exclude(method="DELETE", path_regex=r"\{topic\}$")


@pytest.fixture(scope="module")
def url(running_controller: InProcess) -> Iterator[str]:
    """Of the controller, behind its real HTTP server."""
    port = free_port()
    with served(running_controller, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def topic(running_controller: InProcess) -> str:
    return running_controller.create(2)


def end_soon(case: schemathesis.Case[Any]) -> None:
    """The stream of events is answered as long as is asked for."""
    if case.path == "/v1/events":
        # A number, or its text, by version of schemathesis.
        given = str(case.query.get("timeout_ms", MAX_DURATION))
        if given.isdecimal() and 0 < int(given) <= MAX_DURATION:
            case.query["timeout_ms"] = min(int(given), 50)


def judge(case: schemathesis.Case[Any], url: str) -> None:
    end_soon(case)
    # Longer than schemathesis waits by itself, and than any request that gives itself no time.
    answer = case.call(base_url=url, timeout=4 * TIMEOUT)
    where = f"{case.method} {case.formatted_path} {case.query} {case.body!r}: {answer.text}"
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # Of a request that gives itself a millisecond or so.
        assert answer.json()["error"] == "REQUEST_TIMED_OUT", where
        assert "timeout_ms" in where, where
    if answer.status_code >= HTTPStatus.BAD_REQUEST:
        error = answer.json()
        assert error["error_code"] != 0, where
        assert error["error_message"], where
    checks = [one for one in CHECKED if one not in OF_METHODS or case.path not in LIKE_AN_ID]
    case.validate_response(answer, checks=checks)


def test_the_running_controller_s_document_is_the_one_that_is_tested(url: str, controller: InProcess) -> None:
    assert controller.http.get("/openapi.json").json() == document()


# First, while no limit that was made up keeps topics from being created.
@of_a_topic.parametrize()  # type: ignore[untyped-decorator]
@made_up
def test_any_request_about_a_topic_is_answered_as_documented(
    case: schemathesis.Case[Any], url: str, topic: str
) -> None:
    case.path_parameters["topic"] = topic
    judge(case, url)


@pytest.mark.long
@any_request.parametrize()  # type: ignore[untyped-decorator]
@made_up
def test_any_request_is_answered_as_documented(case: schemathesis.Case[Any], url: str) -> None:
    judge(case, url)
