"""A client of this version reads the answers of a later controller."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from spark_ordered_kafka.client import layout_answers, schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.layouts import reader
from spark_ordered_kafka.errors import ConfigError, RequestError, UnavailableError
from spark_ordered_kafka.ordering.routing import known_hash
from tests.client.playing import Answer, played
from tests.newer import MEMBER, WORD, assert_told, closed, newer, roots

ANSWERS = [
    kind for kind in vars(schemas).values() if isinstance(kind, type) and issubclass(kind, schemas.Answer)
]
MODELS = [kind for kind in roots(ANSWERS) if kind is not schemas.Answer]
LAYOUTS = [layout_answers.WriterLayoutView, layout_answers.LayoutHistoryView, layout_answers.Truncations]
EXAMPLES = settings(max_examples=10)


def test_no_answer_is_closed() -> None:
    assert [f"{kind.__name__}: {closed(kind)}" for kind in ANSWERS if closed(kind)] == []


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@EXAMPLES
def test_whatever_is_new_in_an_answer_is_read(kind: type[BaseModel], data: st.DataObject) -> None:
    written = data.draw(newer(kind))
    read = kind.model_validate_json(json.dumps(written))
    assert_told(written, json.loads(read.model_dump_json()))


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@EXAMPLES
def test_whatever_is_new_in_a_layout_is_read(kind: type[Any], data: st.DataObject) -> None:
    written = data.draw(newer(kind))
    assert_told(written, msgspec.to_builtins(reader(kind)(json.dumps(written).encode())))


def test_a_hash_that_is_not_known_is_refused_before_a_key_is_placed() -> None:
    layout = {"topic": "t", "topic_id": "i", "cluster_id": "c", "hash": WORD, "ordered_delivery": True}
    counts = {"initial_partition_count": 1, "undeleted_partition_count": 2, "layout_epoch": 1}
    read = reader(layout_answers.WriterLayoutView)(json.dumps(layout | counts).encode())
    with pytest.raises(
        ConfigError, match=f"hash of topic 't' has the value '{WORD}': .* a newer one is needed"
    ):
        known_hash("t", read.hash)


def test_requests_stay_closed() -> None:
    """What a user writes wrongly is refused by its name, and not taken for something of a later version."""
    with pytest.raises(ValidationError, match="goal"):
        schemas.ReassignmentPlanRequest.model_validate({"goal": WORD})
    requests = [
        kind
        for kind in vars(schemas).values()
        if isinstance(kind, type) and issubclass(kind, schemas.Request)
    ]
    assert all(kind.model_config["extra"] == "forbid" for kind in requests)


def test_an_older_controller_is_sent_nothing_that_was_not_asked_for() -> None:
    """It refuses fields that it does not know, also with the value that they have by default."""
    request = schemas.ReassignmentRequest(rollback=3)
    with played(Answer(200, b'{"request_id": 4, "partitions": []}')) as controller:
        with ControllerClient(controller.url) as client:
            client.reassign(request)
        assert controller.bodies == [b'{"rollback":3}']


def test_an_error_code_of_a_later_version_has_its_name_in_the_message() -> None:
    refusal = json.dumps({"error_code": 4711, "error": "FROZEN", "error_message": "wait", MEMBER: 1}).encode()
    with played(Answer(409, refusal)) as controller, ControllerClient(controller.url) as client:
        with pytest.raises(
            RequestError, match=re.escape("UNKNOWN_SERVER_ERROR: FROZEN (4711): wait")
        ) as refused:
            client.topics()
        assert not refused.value.retriable
    with (
        played(Answer(503, refusal)) as controller,
        ControllerClient(controller.url) as client,
        pytest.raises(UnavailableError, match="wait"),
    ):
        client.topics()
