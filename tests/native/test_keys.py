"""Hashes and partitions of Arrow arrays, against those of one key at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.native.contents import Contents
from spark_ordered_kafka.native.keys import key_hashes, partitions
from spark_ordered_kafka.ordering import HASH_NAMES, bucket, key_hash
from spark_ordered_kafka.ordering.routing import Routing
from tests.native.columns import Texts, both_ways, columns


@pytest.mark.usefixtures("native")
@both_ways
@given(st.sampled_from(HASH_NAMES), columns())
def test_arrays_are_hashed_like_single_keys(name: str, keys: tuple[Contents, Texts]) -> None:
    array, written = keys
    found = key_hashes(name, array)
    assert found.dtype == np.uint32
    assert found.tolist() == [key_hash(name, key or b"") for key in written]


@pytest.mark.usefixtures("native")
@both_ways
@given(st.sampled_from(HASH_NAMES), st.binary(max_size=3000))
def test_keys_of_any_length(name: str, key: bytes) -> None:
    assert key_hashes(name, pa.array([key])).tolist() == [key_hash(name, key)]


@pytest.mark.usefixtures("native")
@both_ways
@given(st.sampled_from(HASH_NAMES), st.integers(1, 2**30), st.integers(0, 2**30 - 1), columns())
def test_partitions_are_those_of_linear_hashing(
    name: str, initial: int, more: int, keys: tuple[Contents, Texts]
) -> None:
    array, written = keys
    found = partitions(Routing(name, initial, initial + more), array)
    assert found.dtype == np.int32
    assert found.tolist() == [
        -1 if key is None else bucket(key_hash(name, key), initial, initial + more) for key in written
    ]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("count", [1, 2**31 - 1])
def test_extreme_counts(count: int) -> None:
    keys: Texts = [b"%d" % n for n in range(100)]
    assert partitions(Routing("murmur3", 1, count), pa.array(keys)).tolist() == [
        bucket(key_hash("murmur3", key or b""), 1, count) for key in keys
    ]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("array", [pa.nulls(3, pa.binary()), pa.array([b"", b""]), pa.array([], pa.binary())])
def test_arrays_without_a_byte(array: pa.Array) -> None:
    written = array.to_pylist()
    assert partitions(Routing("crc32", 1, 1), array).tolist() == [-1 if key is None else 0 for key in written]


class Broken:
    """Gives something else than a pair of capsules."""

    def __init__(self, given: object) -> None:
        self._given = given

    def __arrow_c_array__(self, schema: object = None) -> object:
        return self._given


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (pa.array([1]), "keys must be of Arrow's format z or Z, not l"),
        (pa.array(["text"]), "format z or Z, not u"),
        (pa.array([b"x"]).dictionary_encode(), "format z or Z, not i"),
        ((b"x",), "keys must be an Arrow array, not <class 'tuple'>"),
        ([b"x", "text"], "keys must hold bytes and None, not <class 'str'>"),
        (Broken(None), "keys gives no pair of capsules"),
        (Broken((1, 2)), "PyCapsule_GetPointer"),
    ],
)
def test_the_kernel_refuses_what_it_does_not_know(the_kernel: Any, keys: object, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        the_kernel.key_hashes("murmur3", keys)


def test_the_kernel_refuses_bad_layouts(the_kernel: Any) -> None:
    keys = pa.array([b"x"])
    for arguments in [("murmur3", 0, 1), ("murmur3", 2, 1), ("murmur3", 1, 2**31), ("md5", 1, 1)]:
        with pytest.raises(ValueError, match=r"make no layout|hash must be"):
            the_kernel.partitions(*arguments, keys)
