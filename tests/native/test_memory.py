"""What the kernel takes it gives back, on every way out of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from tests.native.columns import headers_type

ROWS = 2_000
ROUNDS = 300
KEYS: list[bytes | None] = [b"key-%d" % n for n in range(ROWS)]
ARRAY = pa.array(KEYS)
HEADERS = pa.array([[{"key": "h", "value": b"x" * 20}] * 3] * ROWS, headers_type())
NAMELESS = pa.array(
    [*[[{"key": "h", "value": b"1"}]] * (ROWS - 1), [{"key": None, "value": b"1"}]], headers_type()
)
LAYOUT = ("murmur3", 1, 1)


@pytest.fixture(scope="module")
def producer() -> Producer:
    """Of a broker that there is not: what is queued is purged."""
    return Producer(
        {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "queue.buffering.max.messages": 5_000}
    )


def refused(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        call()


def purged(kernel: Any, producer: Producer, headers: pa.Array | None, expected: int) -> None:
    """Queue rows: a first time all of them, then until one is refused."""
    *_, error, _ = kernel.produce(producer, "t", LAYOUT, 0, KEYS, ARRAY, headers, 0, ROWS, 1 << 30)
    assert error == expected
    producer.purge()
    producer.poll(0)


WAYS: dict[str, Callable[[Any, Producer], object]] = {
    "hashes": lambda kernel, _: kernel.key_hashes("crc32", KEYS),
    "partitions": lambda kernel, _: kernel.partitions(*LAYOUT, ARRAY),
    "fingerprint": lambda kernel, _: kernel.fingerprint(KEYS, ARRAY, HEADERS),
    "a text in a list": lambda kernel, _: refused(partial(kernel.key_hashes, "crc32", [*KEYS, "text"])),
    "other lengths": lambda kernel, _: refused(partial(kernel.fingerprint, KEYS, ARRAY.slice(1), HEADERS)),
    "other headers": lambda kernel, _: refused(partial(kernel.fingerprint, KEYS, KEYS, ARRAY)),
    "no such row": lambda kernel, producer: refused(
        partial(kernel.produce, producer, "t", LAYOUT, 0, KEYS, KEYS, None, ROWS, 1, 1)
    ),
    "queued": lambda kernel, producer: purged(kernel, producer, None, 0),
    "queued with headers": lambda kernel, producer: purged(kernel, producer, HEADERS, 0),
    "a header without a key": lambda kernel, producer: purged(kernel, producer, NAMELESS, -186),
}


@pytest.mark.parametrize("way", WAYS)
def test_memory_is_flat(the_kernel: Any, producer: Producer, way: str) -> None:
    process = psutil.Process()
    for _ in range(ROUNDS // 3):
        WAYS[way](the_kernel, producer)
    references = [sys.getrefcount(one) for one in (KEYS, KEYS[0], ARRAY, HEADERS)]
    arrow = pa.total_allocated_bytes()

    def growth() -> int:
        before = process.memory_info().rss
        for _ in range(ROUNDS):
            WAYS[way](the_kernel, producer)
        return process.memory_info().rss - before

    # The least that a round could lose is a column of a list, 32 kB: 9 MB. The process does other things, too, but a leak
    # shows in every part.
    assert any(growth() < 4 << 20 for _ in range(3))
    assert [sys.getrefcount(one) for one in (KEYS, KEYS[0], ARRAY, HEADERS)] == references
    assert pa.total_allocated_bytes() == arrow
