"""Logs as text and as JSON, with the id of the request."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from kazoo.protocol.serialization import Auth
from starlette.concurrency import run_in_threadpool
from structlog.contextvars import bound_contextvars

from spark_ordered_kafka.controller.monitoring.logs import configure_logging


@pytest.fixture(autouse=True)
def _loggers_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def json_lines(stream: io.StringIO, logger: str) -> list[dict[str, Any]]:
    """The records of one logger: clients of other tests may still have something to say."""
    lines = map(json.loads, stream.getvalue().splitlines())
    return [line for line in lines if line["logger"] == logger]


def test_json_has_one_object_per_record() -> None:
    stream = io.StringIO()
    configure_logging("INFO", "json", stream)
    log = logging.getLogger("some.library")
    log.info("took %d ms\nand more", 5, extra={"status": 200})
    try:
        raise ValueError("wrong")
    except ValueError:
        log.exception("failed")
    first, second = json_lines(stream, "some.library")
    assert (first["event"], first["logger"], first["level"]) == (
        "took 5 ms\nand more",
        "some.library",
        "info",
    )
    assert first["status"] == 200
    assert first["timestamp"].endswith("Z")
    assert "ValueError: wrong" in second["exception"]


def test_a_request_s_id_is_in_every_record_of_it_in_threads_too() -> None:
    stream = io.StringIO()
    configure_logging("INFO", "json", stream)
    log = logging.getLogger("some.route")

    async def request(request_id: str) -> None:
        with bound_contextvars(request_id=request_id):
            log.info("begun")
            await run_in_threadpool(log.info, "in a thread")
            log.info("ended")

    async def requests() -> None:
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(request, f"id-{number}")

    anyio.run(requests)
    log.info("outside")
    found = json_lines(stream, "some.route")
    events = sorted((line["request_id"], line["event"]) for line in found if "request_id" in line)
    assert events == [(f"id-{n}", e) for n in range(5) for e in ("begun", "ended", "in a thread")]
    assert [line["event"] for line in found if "request_id" not in line] == ["outside"]


def test_text_is_a_line_with_fields() -> None:
    stream = io.StringIO()
    configure_logging("INFO", "text", stream)
    with bound_contextvars(request_id="abc"):
        logging.getLogger("spark_ordered_kafka.access").info("GET / 200", extra={"status": 200})
    line = stream.getvalue()
    assert "GET / 200" in line
    assert "[spark_ordered_kafka.access] request_id=abc status=200" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_passwords_that_libraries_tell_in_detail_are_not_logged(log_format: Any) -> None:
    stream = io.StringIO()
    configure_logging("DEBUG", log_format, stream)
    request = Auth(0, "digest", "controller:secret-password")
    # What kazoo logs of every request that it sends.
    logging.getLogger("kazoo.client").debug("Sending request(xid=%s): %s", -4, request)
    logging.getLogger("kazoo.client").warning("Connection dropped")
    assert "secret-password" not in stream.getvalue()
    assert "Connection dropped" in stream.getvalue()


def test_debug_of_our_own_is_told() -> None:
    stream = io.StringIO()
    configure_logging("DEBUG", "json", stream)
    runner = "spark_ordered_kafka.controller.change.runner"
    logging.getLogger(runner).debug("detail")
    configure_logging("WARNING", "json", stream)
    logging.getLogger(runner).info("less")
    assert [line["event"] for line in json_lines(stream, runner)] == ["detail"]
