"""The files of the web page: how they are served, and what must not be in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from spark_ordered_kafka.controller import web
from spark_ordered_kafka.controller.access.authenticator import Authenticator
from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.routes.web_page import POLICY
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import (
    AuthenticationSettings,
    ControllerSettings,
    ZooKeeperSettings,
)

DIRECTORY = Path(web.__file__).parent
SOURCES = sorted(DIRECTORY.glob("*.*s"))
MAX_LINES = 400
# Each takes text for HTML or for a program.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\(|new Function|localStorage|document\.cookie|new EventSource|https?://(?!www\.w3\.org/2000/svg)[a-z]"
)


@pytest.fixture(scope="module")
def http() -> TestClient:
    """A controller that demands credentials, and was never started."""
    settings = ControllerSettings(
        {"bootstrap.servers": "localhost:1"},
        ZooKeeperSettings("localhost:1"),
        "http://localhost:1",
        authentication=AuthenticationSettings(required=True),
    )
    service = ControllerService(settings)
    service.authenticator = Authenticator(settings.authentication, None, {}, 1.0)
    return TestClient(create_app(service), base_url="http://localhost")


@pytest.mark.parametrize("path", web.FILES)
def test_a_file_is_served_without_credentials_and_with_its_policy(http: TestClient, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 200
    assert answer.content == web.FILES[path].content
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-cache"
    tag = answer.headers["ETag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}'):
        again = http.get(path, headers={"If-None-Match": given})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert http.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    assert http.head(path).status_code == 200
    assert http.post(path, json={}).status_code == 405


def test_every_file_of_the_directory_is_served_and_no_other(http: TestClient) -> None:
    there = {path.name for path in DIRECTORY.iterdir() if path.suffix in (".html", ".js", ".css", ".svg")}
    assert {"index.html" if path == "/" else path.removeprefix("/web/") for path in web.FILES} == there
    for path in ("/web/", "/web/__init__.py", "/web/../__init__.py", "/web/%2e%2e/service.py", "/index.html"):
        assert http.get(path).status_code in (401, 404), path


def test_answers_of_the_api_are_still_not_cached(http: TestClient) -> None:
    assert http.get("/healthz").headers["Cache-Control"] == "no-store"
    assert http.get("/v1/topics").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_nothing_in_the_page_makes_markup_of_data_or_leaves_its_origin(source: Path) -> None:
    text = source.read_text()
    assert FORBIDDEN.findall(text) == []
    assert len(text.splitlines()) < MAX_LINES


def test_what_a_file_names_is_there() -> None:
    for source in SOURCES:
        for name in re.findall(r'from "\./([\w.]+)"', source.read_text()):
            assert (DIRECTORY / name).is_file(), f"{source.name} imports {name}"
    for name in re.findall(r'(?:src|href)="web/([\w.]+)"', (DIRECTORY / "index.html").read_text()):
        assert (DIRECTORY / name).is_file(), name
