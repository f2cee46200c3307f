"""Columns as the kernel takes them: slices of Arrow arrays of both widths, and lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from spark_ordered_kafka.native.contents import Contents

Texts = list[bytes | None]
Headers = list[list[dict[str, Any]] | None]

# The fixture changes nothing between the examples; a busy machine may be slow in making the first ones.
both_ways = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
texts = st.lists(st.none() | st.binary(max_size=40), max_size=20)
# confluent-kafka ends a header's key at a zero byte.
header_keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
header = st.fixed_dictionaries({"key": header_keys, "value": st.none() | st.binary(max_size=5)})


def headers_type(large: bool = False) -> pa.DataType:
    text, binary = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    entry = pa.struct([("key", text), ("value", binary)])
    return pa.large_list(entry) if large else pa.list_(entry)


@st.composite
def columns(draw: st.DrawFn) -> tuple[Contents, Texts]:
    """A column, and what is in it."""
    written = draw(texts)
    kind = draw(st.sampled_from([None, pa.binary(), pa.large_binary()]))
    if kind is None:
        return written, written
    start, length = draw(st.integers(0, 5)), draw(st.integers(0, 20))
    return pa.array(written, kind).slice(start, length), written[start : start + length]


@st.composite
def row_columns(draw: st.DrawFn) -> tuple[Contents, Contents, pa.Array | None]:
    """Keys, values and headers of as many rows."""
    count, start = draw(st.integers(0, 8)), draw(st.integers(0, 3))
    size = start + count + draw(st.integers(0, 3))

    def column(elements: st.SearchStrategy[Any], kind: pa.DataType | None) -> Any:
        written = draw(st.lists(elements, min_size=size, max_size=size))
        return written[start : start + count] if kind is None else pa.array(written, kind).slice(start, count)

    kinds = st.sampled_from([None, pa.binary(), pa.large_binary()])
    content = st.none() | st.binary(max_size=70)
    keys, values = column(content, draw(kinds)), column(content, draw(kinds))
    if draw(st.booleans()):
        return keys, values, None
    of_rows = st.none() | st.lists(header, max_size=3)
    return keys, values, column(of_rows, headers_type(large=draw(st.booleans())))
