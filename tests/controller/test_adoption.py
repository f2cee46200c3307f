"""Judging a hash by sampled records, without a server."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.client.schemas import HashName
from spark_ordered_kafka.controller.topics.adoption import check_fit, fit_of
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.sampling import KeyedRecord, Sample
from spark_ordered_kafka.ordering.hashing import key_hash


def placed(
    hash_name: str, count: int, first: int, records: int, *, newest: bool = False
) -> list[KeyedRecord]:
    keys = [b"%d" % number for number in range(first, first + records)]
    return [
        KeyedRecord(key_hash(hash_name, key) % count, offset, key, newest) for offset, key in enumerate(keys)
    ]


def refusal(hash_name: HashName, records: list[KeyedRecord], count: int) -> str:
    with pytest.raises(RequestError) as caught:
        check_fit("t", hash_name, Sample(tuple(records), complete=True), count)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    return caught.value.message


@pytest.mark.parametrize("hash_name", ["murmur2", "crc32", "murmur3"])
def test_only_the_right_hash_fits(hash_name: HashName) -> None:
    records = placed(hash_name, 7, 0, 100)
    check_fit("t", hash_name, Sample(tuple(records), complete=True), 7)
    others: list[HashName] = ["murmur2", "crc32", "murmur3"]
    for other in others:
        if other != hash_name:
            told = refusal(other, records, 7)
            assert f"{hash_name} 100 of 100" in told
            assert f"What fits is {hash_name};" in told


def test_one_misrouted_record_is_enough_and_is_named() -> None:
    records = placed("murmur2", 4, 0, 50)
    right = key_hash("murmur2", b"stray") % 4
    misrouted = KeyedRecord((right + 1) % 4, 77, b"stray", newest=True)
    told = refusal("murmur2", [*records, misrouted], 4)
    assert "murmur2 50 of 51" in told
    assert f"offset 77 of partition {(right + 1) % 4}, for example, has a key of partition {right}." in told
    assert "No hash fits all: its producers choose partitions in another way" in told


def test_another_partition_count_before_is_recognised() -> None:
    records = placed("crc32", 3, 0, 50) + placed("crc32", 4, 50, 50, newest=True)
    assert "No hash fits all, but crc32 all that was sampled near the ends of the logs" in refusal(
        "crc32", records, 4
    )


def test_empty_keys_prove_nothing_to_crc32_only() -> None:
    records = [KeyedRecord(partition, 0, b"", newest=False) for partition in range(3)]
    assert (fit_of("crc32", records, 3).judged, fit_of("murmur2", records, 3).judged) == (0, 3)
    check_fit("t", "crc32", Sample(tuple(records), complete=True), 3)
    assert "crc32 0 of 0" in refusal("murmur2", records, 3)


def test_nothing_found_is_fine_only_when_all_was_looked_at() -> None:
    check_fit("t", "crc32", Sample((), complete=True), 3)
    with pytest.raises(UnavailableError, match="use force"):
        check_fit("t", "crc32", Sample((), complete=False), 3)
    check_fit("t", "crc32", Sample(tuple(placed("crc32", 3, 0, 5)), complete=False), 3)
