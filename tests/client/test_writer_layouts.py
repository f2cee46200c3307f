"""The layout that a writer is told, read without the models of the other answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from spark_ordered_kafka.client.writer_layouts import WriterLayoutView, parse_writer_layout
from spark_ordered_kafka.controller.api.examples import EXAMPLES

EXAMPLE: dict[str, Any] = EXAMPLES["WriterLayoutView"]
MODEL = TypeAdapter(WriterLayoutView)

numbers = st.integers(-(2**70), 2**70)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("crc32"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["undeleted_partition_count", "ends", "x"]), inner)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from([*EXAMPLE, "more"]), anything, max_size=3),
    st.sets(st.sampled_from([*EXAMPLE])),
)
def test_an_answer_is_taken_as_its_model_takes_it(changed: dict[str, Any], missing: set[str]) -> None:
    body = {
        name: value for name, value in (EXAMPLE | changed).items() if name not in missing or name in changed
    }
    content = json.dumps(body).encode()
    try:
        expected = MODEL.validate_json(content, strict=True)
    except ValidationError as error:
        named = {str(one["loc"][0]) for one in error.errors()}
        with pytest.raises(ValueError, match=r"^a WriterLayoutView: ") as refused:
            parse_writer_layout(content)
        assert named & ({str(refused.value).split(": ")[1]} | {"earlier"})
    else:
        assert parse_writer_layout(content) == expected


@pytest.mark.parametrize("content", [b"", b"<html>", b"\xff\xfe", b"[]", b"null", b'"text"', b"[" * 100_000])
def test_what_is_no_layout(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^a WriterLayoutView: "):
        parse_writer_layout(content)
