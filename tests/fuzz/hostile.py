"""Texts, bytes and JSON documents that break parsers, and how their answers are judged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from spark_ordered_kafka.errors import OrderedKafkaError
from tests.seeds import examples

_ResultT = TypeVar("_ResultT")

fuzzed = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

NUMBERS = (
    "0", "-0", "00", "01", "+1", "1_0", " 1", "1 ", "-1", "1.0", "1e2", "1e999", "-1e999", "NaN", "Infinity", "-Infinity",
    "0x10", "٣", "²", "１", str(2**31), str(2**63), str(-(2**63) - 1), "9" * 19, "9" * 4301, "0." + "0" * 400 + "1",
)  # fmt: skip
"""Texts that one parser or another takes for numbers."""
TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "a\udcff", "\U0001f600", "\r\n", "\x1b[2J", "\u2028", "\u202e", "%00", "%", "%ff", "../..",
    "${env:HOME}", "$(id)", "{}", "[]", "null", "true", ":", "::", ",", ",,", "=", "/", "//", "//[", "http://[", "http://[::1",
    "\\", '"', "'", "(" * 3000, "[" * 3000, "{" * 3000, '{"a":' * 3000, "a{99999999999999999}", "(?P<a>", "x" * 100_000,
    "-----BEGIN CERTIFICATE-----", "P" + "9" * 400 + "D", "PT" + "9" * 5000 + "S", "9999999999999999d", "\ufeff{}",
)  # fmt: skip
"""Other texts with something wrong in them."""

texts = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from(NUMBERS),
    st.text(max_size=40),
    st.text(st.characters(categories=["Cs", "Cc", "Nd", "Nl", "No", "Zs"]), max_size=8),
    st.text("0123456789.:,;=-+_ \"'\\/{}[]()<>eEtTzZPDHMSx%\n", max_size=30),
)
names = st.one_of(st.sampled_from(["orders", "topic-1", "a.b_c", "x" * 249, "x" * 250, ".", ".."]), texts)

_SCALARS = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(["null", "true", "false", '""', '"\\ud800"', '"\\u0000"', "[" * 300 + "]" * 300]),
    texts.map(json.dumps),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
)
tokens = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(names, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"
        ),
    ),
    max_leaves=8,
)
"""JSON values as text, most of them valid."""


class _Raw(str):
    """JSON that stands as it is."""


def _rendered(value: Any) -> str:
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_rendered, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_rendered(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> Any:
    """``value`` with another one at some place in it."""
    if not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 5)) == 0:
        return _Raw(draw(tokens))
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = draw(st.sampled_from(places))
    if draw(st.integers(0, 5)) == 0:
        del copy[place]
    else:
        copy[place] = draw(_changed(value[place]))
    if isinstance(copy, dict) and draw(st.integers(0, 5)) == 0:
        copy[draw(names)] = _Raw(draw(tokens))
    return copy


@st.composite
def documents(draw: st.DrawFn, valid: Sequence[Any]) -> str:
    """JSON texts: one of ``valid`` changed at a place or cut, or something else."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(texts)
    if kind == 1:
        return draw(tokens)
    text = _rendered(draw(_changed(draw(st.sampled_from(valid)))))
    if kind == 2:
        return text[: draw(st.integers(0, len(text)))]
    if kind == 3:  # two members of one name
        return text.replace("{", '{"version":1,"topics":{},"partitions":[],', 1)
    return text


def raw(text: str) -> bytes:
    """A text as bytes, also where it has none in UTF-8."""
    return text.encode("utf-8", "surrogatepass")


@st.composite
def contents(draw: st.DrawFn, valid: Sequence[Any]) -> bytes:
    """The bytes of :func:`documents`, compressed or not, whole or not, or any others."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(st.binary(max_size=200))
    content = raw(draw(documents(valid)))
    if kind == 1:
        packed = gzip.compress(content, 1, mtime=0)
        return packed[: draw(st.integers(0, len(packed)))] if draw(st.booleans()) else packed
    return content


def accepted(
    call: Callable[..., _ResultT],
    *arguments: Any,
    errors: type[Exception] | tuple[type[Exception], ...] = OrderedKafkaError,
) -> _ResultT | None:
    """What the call returns; None for an error of ``errors``, whose text must be there. Any other error fails the test."""
    try:
        return call(*arguments)
    except errors as error:
        if not f"{error}" or not f"{error!r}":
            raise AssertionError("the error has no text") from error
        return None
