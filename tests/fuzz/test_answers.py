"""Answers of a controller, or of whatever else answers at its address, as clients read them."""

from __future__ import annotations

import json
from typing import Any

import httpcore
from hypothesis import example, given
from hypothesis import strategies as st

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.layout_answers import LayoutHistoryView, Truncations, WriterLayoutView
from spark_ordered_kafka.client.layouts import reader
from spark_ordered_kafka.client.paths import topic_path
from spark_ordered_kafka.client.responses import NoAnswerError, Request, Response, error_of, redirected
from spark_ordered_kafka.credentials import NO_CREDENTIALS
from spark_ordered_kafka.errors import ConfigError, LayoutChangingError, OrderedKafkaError
from spark_ordered_kafka.ordering.layout import Layout, LayoutHistory
from tests.fuzz.hostile import accepted, contents, fuzzed, names, texts

LAYOUT = {
    "epoch": 0,
    "undeleted_partition_count": 1,
    "starts": [0],
    "leader_epochs": [0],
    "committed_at": 1.0,
}
HISTORY = {
    "topic": "orders", "topic_id": "i", "cluster_id": "c", "hash": "murmur3", "ordered_delivery": True,
    "initial_partition_count": 1, "changing": False, "layouts": [
        LAYOUT, {**LAYOUT, "epoch": 1, "undeleted_partition_count": 2, "starts": [3, 0], "leader_epochs": [0, 0]}
    ],
}  # fmt: skip
WRITERS: dict[str, Any] = {
    name: value for name, value in HISTORY.items() if name not in ("layouts", "changing")
} | {
    "undeleted_partition_count": 1,
    "layout_epoch": 0,
}
RESULT = {"error_code": 42, "error": "INVALID_REQUEST", "error_message": "x"}
REVIEW = {"review_id": 3, "status": "pending"}
URL = "http://h:8090/v1/topics/orders/layout?writer=true"


@fuzzed
@given(contents([HISTORY]))
def test_a_history_of_layouts(content: bytes) -> None:
    view = accepted(reader(LayoutHistoryView), content, errors=ValueError)
    if view is not None:
        made = accepted(
            lambda: LayoutHistory(
                view.initial_partition_count,
                [Layout(one.epoch, one.undeleted_partition_count, one.starts) for one in view.layouts],
            ),
            errors=OrderedKafkaError,
        )
        assert made is None or made.current.count >= 1


@fuzzed
@given(contents([WRITERS]))
def test_a_writers_layout(content: bytes) -> None:
    accepted(reader(WriterLayoutView), content, errors=ValueError)
    accepted(reader(Truncations), content, errors=ValueError)


def response(status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> Response:
    request = Request(
        "GET", "http://h:8090", httpcore.URL(URL), "/v1/topics/orders/layout?writer=true", None, {}, {}
    )
    return Response(request, status, body, headers)


@fuzzed
@given(
    st.sampled_from([200, 202, 301, 307, 400, 401, 404, 408, 413, 500, 502, 503, 504]),
    contents([RESULT, REVIEW]),
    texts | st.sampled_from(["0.5", "1e300", "nan", "inf", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"]),
)
def test_an_answer_that_is_no_success(status: int, body: bytes, retry_after: str) -> None:
    headers = [(b"Retry-After", retry_after.encode("latin-1", "replace"))]
    error = error_of(response(status, body, headers), "orders", NO_CREDENTIALS)
    assert isinstance(error, (OrderedKafkaError, NoAnswerError))
    assert str(error)
    if isinstance(error, LayoutChangingError):
        assert 0 <= error.retry_after < float("inf")


@fuzzed
@given(
    st.one_of(
        texts, texts.map(lambda text: f"http://h:1/{text}"), texts.map(lambda text: f"https://{text}/v1")
    )
)
@example("http://\0")
@example("http://a\x7f/v1")
def test_a_redirect(location: str) -> None:
    answer = response(307, b"", [(b"location", location.encode("latin-1", "replace"))])
    found = accepted(redirected, answer, errors=NoAnswerError)
    if found is not None:
        assert found.url.scheme in (b"http", b"https")
        assert str(found.headers["host"]).isprintable()


@fuzzed
@given(names)
def test_a_name_in_a_path(name: str) -> None:
    path = accepted(topic_path, name, errors=ConfigError)
    assert path is None or (path.isascii() and path.count("/") == 3)


MODELS: list[Any] = [
    getattr(schemas, name)
    for name in dir(schemas)
    if isinstance(getattr(schemas, name), type) and issubclass(getattr(schemas, name), schemas.Answer)
]


@fuzzed
@given(st.sampled_from(MODELS), contents([RESULT, REVIEW, {"topics": [RESULT]}, {"partitions": [RESULT]}]))
def test_other_answers(model: Any, content: bytes) -> None:
    found = accepted(model.model_validate_json, content, errors=ValueError)
    if found is not None:
        json.loads(found.model_dump_json())
