"""Arrays of any type and messages that are none, handed to the kernel: an answer as Python's own, or a refusal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering import HASH_NAMES, key_hash
from tests.fuzz.hostile import accepted, fuzzed, texts

REFUSED = (TypeError, ValueError, OverflowError, AttributeError)

KINDS: list[pa.DataType] = [
    pa.null(), pa.bool_(), pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
    pa.binary(3), pa.binary_view(), pa.string_view(), pa.timestamp("us"), pa.decimal128(9, 2), pa.list_(pa.binary()),
    pa.large_list(pa.string()), pa.struct([("key", pa.string()), ("value", pa.binary())]), pa.map_(pa.string(), pa.binary()),
    pa.dictionary(pa.int32(), pa.binary()), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])), pa.list_(pa.struct([("value", pa.binary())])),
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary()), ("more", pa.int8())])), pa.run_end_encoded(pa.int32(), pa.binary()),
]  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(KINDS))
    size, start, length = draw(st.integers(0, 6)), draw(st.integers(0, 6)), draw(st.integers(0, 6))
    if kind in (pa.binary(), pa.large_binary()) and draw(st.booleans()):
        made = pa.array(draw(st.lists(st.none() | st.binary(max_size=9), max_size=6)), kind)
    else:
        made = pa.nulls(size, kind)
    return made.slice(min(start, len(made)), length)


class Capsules:
    """Gives something else than Arrow's pair of capsules."""

    def __init__(self, given: object) -> None:
        self.given = given

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def crossed(one: pa.Array, other: pa.Array) -> Capsules:
    """The type of one array with the buffers of none: a struct of others, and the capsules in the wrong order."""
    schema, array = one.__arrow_c_array__()
    return Capsules((array, schema)) if len(other) % 2 else Capsules((schema, schema))


anything = st.one_of(
    arrays(),
    st.lists(st.none() | st.binary(max_size=9), max_size=6),
    st.lists(st.one_of(texts, st.integers(), st.binary(max_size=9), st.none()), max_size=4),
    st.sampled_from([None, 1, "x", b"x", (b"x",), {}, object(), pa.chunked_array([pa.array([b"x"])])]),
    st.sampled_from([None, (), (1, 2), (None, None), ValueError("x")]).map(Capsules),
    st.builds(crossed, arrays(), arrays()),
)
NATIVE = kernel()
needs_the_kernel = pytest.mark.skipif(NATIVE is None, reason="the kernel is not built")


def is_binary(column: Any) -> bool:
    if isinstance(column, list):
        return all(one is None or isinstance(one, bytes) for one in column)
    return isinstance(column, pa.Array) and column.type in (pa.binary(), pa.large_binary())


@needs_the_kernel
@fuzzed
@given(st.sampled_from(HASH_NAMES) | texts, anything)
def test_hashes(name: str, keys: Any) -> None:
    found = accepted(NATIVE.key_hashes, name, keys, errors=REFUSED)
    if found is not None:
        assert name in HASH_NAMES
        written = keys if isinstance(keys, list) else keys.to_pylist()
        hashes = [int.from_bytes(found[at : at + 4], "little") for at in range(0, len(found), 4)]
        assert hashes == [key_hash(name, key or b"") for key in written]
    else:
        assert name not in HASH_NAMES or not is_binary(keys)


@needs_the_kernel
@fuzzed
@given(st.sampled_from(HASH_NAMES) | texts, st.integers(), st.integers(), anything)
def test_partitions(name: str, initial: int, count: int, keys: Any) -> None:
    found = accepted(NATIVE.partitions, name, initial, count, keys, errors=REFUSED)
    if found is not None:
        rows = [int.from_bytes(found[at : at + 4], "little", signed=True) for at in range(0, len(found), 4)]
        assert all(-1 <= row < count for row in rows)


@needs_the_kernel
@fuzzed
@given(anything, anything, anything)
def test_fingerprints(keys: Any, values: Any, headers: Any) -> None:
    found = accepted(NATIVE.fingerprint, keys, values, headers, errors=REFUSED)
    assert found is None or 0 <= found < 2**64


@needs_the_kernel
@fuzzed
@given(st.one_of(anything, st.lists(anything, max_size=3)))
def test_messages_that_are_none(messages: Any) -> None:
    accepted(NATIVE.runs, messages, errors=REFUSED)
    accepted(NATIVE.misrouted, "murmur3", 1, 2, 0, messages, errors=REFUSED)


@needs_the_kernel
@fuzzed
@given(anything, texts, st.integers(), st.integers(), st.floats())
def test_what_is_no_client(client: Any, topic: str, partition: int, most: int, wait: float) -> None:
    accepted(NATIVE.open_partition, client, topic, partition, errors=REFUSED)
    accepted(NATIVE.fetch, client, most, wait, errors=REFUSED)
    accepted(NATIVE.drain, client, 0, partition, most, most, 0, False, errors=REFUSED)
