from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.ordering import HASH_NAMES, bucket, key_hash, key_hashes
from spark_ordered_kafka.ordering.routing import known_hash


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"a", 1009084850), (b"key-1", 2561742240), (b"order-42", 1259446670), (b"", 0)],
)
def test_murmur3_facts(key: bytes, expected: int) -> None:
    assert key_hash("murmur3", key) == expected


@pytest.mark.parametrize(
    ("key", "signed"),
    # org.apache.kafka.common.utils.UtilsTest.testMurmur2
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafka_with_the_sign_cleared(key: bytes, signed: int) -> None:
    assert key_hash("murmur2", key) == signed & 0x7FFFFFFF


def test_crc32_check_value() -> None:
    # The check value of CRC-32/ISO-HDLC, which librdkafka's rd_crc32 implements.
    assert key_hash("crc32", b"123456789") == 0xCBF43926


def test_murmur3_is_unsigned() -> None:
    assert mmh3.hash(b"key-1", signed=True) < 0 <= key_hash("murmur3", b"key-1")


def test_an_empty_key_is_a_key() -> None:
    assert bucket(key_hash("murmur3", b""), 3, 3) == 0
    assert key_hash("murmur2", b"") == 275646681


@pytest.mark.parametrize("key", [None, "text", 5])
def test_only_bytes_have_a_hash(key: object) -> None:
    with pytest.raises(ConfigError, match=r"key .*must be bytes"):
        key_hash("murmur3", key)  # type: ignore[arg-type]


def test_bulk_refuses_text() -> None:
    for name in HASH_NAMES:
        with pytest.raises(TypeError):
            key_hashes(name, ["text"] * 20)  # type: ignore[list-item]


def test_an_unknown_hash_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"hash has the value 'md5': must be one of murmur3, murmur2, crc32"
    ):
        key_hash("md5", b"")
    with pytest.raises(ConfigError, match="md5"):
        key_hashes("md5", [])


def test_the_hash_of_a_later_version_is_named_with_its_topic() -> None:
    assert known_hash("orders", "crc32") == "crc32"
    with pytest.raises(
        ConfigError, match="hash of topic 'orders' has the value 'md5': this version knows murmur3"
    ):
        known_hash("orders", "md5")


@pytest.mark.parametrize("name", HASH_NAMES)
@given(keys=st.lists(st.none() | st.binary(max_size=11), max_size=60))
@example(keys=[bytes([n]) * length for length in range(13) for n in range(9)])
@example(keys=[b"\xff" * 1_000, b"\x80" * 1_001] * 10)
@example(keys=[])
def test_bulk_agrees_with_one_at_a_time(name: str, keys: list[bytes | None]) -> None:
    hashes = key_hashes(name, keys)
    assert hashes.dtype == np.uint32
    assert hashes.shape == (len(keys),)
    for key, found in zip(keys, hashes.tolist(), strict=True):
        if key is not None:
            assert found == key_hash(name, key)
