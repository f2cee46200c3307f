"""What the processes of a query are told, read without the models of the other answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from spark_ordered_kafka.client.layout_answers import LayoutHistoryView, Truncations, WriterLayoutView
from spark_ordered_kafka.client.layouts import reader
from spark_ordered_kafka.controller.api.examples import EXAMPLES

ANSWERS: tuple[type[Any], ...] = (WriterLayoutView, LayoutHistoryView, Truncations)

# Offsets have 64 bits.
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.just("crc32"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["undeleted_partition_count", "ends", "epoch", "starts", "x"]), inner
        )
    ),
    max_leaves=5,
)


def changed(value: Any) -> st.SearchStrategy[Any]:
    """``value`` with anything in the place of some part of it, or a part left out, or one more."""
    if isinstance(value, dict):
        return st.one_of(
            st.just(value),
            anything,
            st.sampled_from(sorted(value)).flatmap(
                lambda name: changed(value[name]).map(lambda other: {**value, name: other})
            ),
            st.sampled_from(sorted(value)).map(lambda name: {k: v for k, v in value.items() if k != name}),
            anything.map(lambda other: {**value, "more": other}),
        )
    if isinstance(value, list) and value:
        return st.one_of(anything, changed(value[0]).map(lambda other: [other, *value[1:]]))
    return anything


@pytest.mark.parametrize("answer", ANSWERS)
@given(st.data())
def test_an_answer_is_taken_as_its_model_takes_it(answer: type[Any], data: st.DataObject) -> None:
    content = json.dumps(data.draw(changed(EXAMPLES[answer.__name__]))).encode()
    try:
        expected = TypeAdapter(answer).validate_json(content, strict=True)
    except ValidationError:
        with pytest.raises(ValueError, match=f"^a {answer.__name__}: "):
            reader(answer)(content)
    else:
        assert reader(answer)(content) == expected


def test_what_is_wrong_is_named() -> None:
    wrong = {**EXAMPLES["WriterLayoutView"], "layout_epoch": True}
    with pytest.raises(ValueError, match=r"^a WriterLayoutView: .*int.*bool.*layout_epoch"):
        reader(WriterLayoutView)(json.dumps(wrong).encode())


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("content", [b"", b"<html>", b"\xff\xfe", b"[]", b"null", b'"text"', b"[" * 100_000])
def test_what_is_no_answer(answer: type[Any], content: bytes) -> None:
    with pytest.raises(ValueError, match=f"^a {answer.__name__}: "):
        reader(answer)(content)
