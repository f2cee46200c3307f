"""Fingerprints of rows: the kernel's and Python's are the same, and those of earlier versions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from spark_ordered_kafka.native.contents import Contents
from spark_ordered_kafka.native.fingerprints import fingerprint
from spark_ordered_kafka.native.loading import VARIABLE, kernel
from tests.native.columns import both_ways, headers_type, row_columns

KEYS = [b"key", None, b"", b"k" * 40]
VALUES = [b"value", b"x" * 33, None, b""]
HEADERS = pa.array(
    [
        [{"key": "a", "value": b"1"}, {"key": "\u00e9", "value": None}],
        [{"key": "", "value": b""}],
        [],
        None,
    ],
    headers_type(),
)


@pytest.mark.parametrize(
    ("headers", "expected"), [(None, 0xD3B8A67D4E90FE3A), (HEADERS, 0x4464E74114C2A762)], ids=["none", "some"]
)
def test_what_earlier_versions_noted_in_ledgers(native: str, headers: pa.Array | None, expected: int) -> None:
    assert fingerprint(KEYS, VALUES, headers) == expected
    assert fingerprint(pa.array(KEYS), pa.array(VALUES), headers) == expected


@both_ways
@given(row_columns())
def test_the_kernel_and_python_agree(rows: tuple[Contents, Contents, pa.Array | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for mode in ("require", "off"):
            patch.setenv(VARIABLE, mode)
            kernel.cache_clear()
            found.append(fingerprint(*rows))
    kernel.cache_clear()
    assert found[0] == found[1]


def test_a_large_value(native: str) -> None:
    half = fingerprint([b"k"], [b"v" * 10_000_000])
    assert fingerprint([b"k", b"k"], pa.array([b"v" * 10_000_000] * 2)) == 2 * half % 2**64


@pytest.mark.parametrize("columns", [([b"k"], []), ([], [b"v"])])
def test_columns_of_different_lengths(native: str, columns: tuple[Contents, Contents]) -> None:
    with pytest.raises(ValueError, match=r"of one length|argument 2 is"):
        fingerprint(*columns)


REVERSED = pa.struct({"value": pa.binary(), "key": pa.string()})


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (pa.array([[b"a"]]), "list<struct<key: utf8, value: binary>>"),
        (pa.array([[{"key": "a"}]]), "list<struct<key: utf8, value: binary>>"),
        (
            pa.array([[{"value": b"a", "key": "a"}]], pa.list_(REVERSED)),
            "list<struct<key: utf8, value: binary>>",
        ),
        (pa.array([[{"key": b"a", "value": b"a"}]]), "headers' key must be of Arrow's format u or U, not z"),
        (pa.array([[{"key": "a", "value": "a"}]]), "headers' value must be of Arrow's format z or Z, not u"),
        ([[]], "headers must be an Arrow array"),
    ],
)
def test_the_kernel_refuses_other_headers(the_kernel: Any, headers: object, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        the_kernel.fingerprint([b"k"], [b"v"], headers)
