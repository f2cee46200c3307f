"""Orders of Java's hash maps, against what OpenJDK 17 said."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest

from spark_ordered_kafka.cli.java_maps import integer_order, map_order, partition_hash, string_hash


def digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("".join(f"{key}\n" for key in keys).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("/data/kafka-logs", 3707242348),
        ("orders.eu_1-x", 1194346742),
        ("größe/\U0001f600", 175618593),
    ],
)
def test_hash_codes_of_strings(text: str, code: int) -> None:
    assert string_hash(text) == code


@pytest.mark.parametrize(
    ("count", "capacity", "expected"),
    [
        (1, 16, "79a49def164db39f"),
        (3, 3, "c130889686b56248"),
        (12, 16, "7e80078080a33b97"),
        (13, 16, "eaff5e8ed3997447"),
        (20, 1, "ffa57f6eaa62864a"),
        (100, 16, "5fbb8ff65e4fcb47"),
        (1000, 16, "f6db70ab818756cb"),
        (5000, 7, "2c0787ffc2810bcf"),
    ],
)
def test_order_of_strings(count: int, capacity: int, expected: str) -> None:
    keys = [f"key-{number * 7919}" for number in range(count)]
    assert digest(map_order(keys, list(map(string_hash, keys)), capacity)) == expected


@pytest.mark.parametrize(
    ("topics", "partitions", "expected"),
    [
        (3, 4, "38d9fb1e087ae063"),
        (40, 5, "516c434f72d41449"),
        (300, 3, "21779292a605caf9"),
        (1, 2000, "1fc7ca066aaaad9c"),
    ],
)
def test_order_of_partitions(topics: int, partitions: int, expected: str) -> None:
    keys = [(f"topic-{topic}", partition) for topic in range(topics) for partition in range(partitions)]
    order = map_order(keys, [partition_hash(*key) for key in keys])
    assert digest(f"{topic}-{partition}" for topic, partition in order) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (8, [4, 5, 37, 69, 101, 133, 165, 197, 229, 37000111]),
        (9, [4, 5, 37, 69, 101, 133, 165, 197, 229, 261, 37000111]),
        (10, [4, 5, 69, 133, 197, 261, 37000111, 37, 101, 165, 229, 293]),
        (11, [4, 5, 69, 133, 197, 261, 325, 37000111, 37, 101, 165, 229, 293]),
    ],
)
def test_a_full_bin_doubles_a_small_table(count: int, expected: list[int]) -> None:
    assert integer_order([*(5 + 32 * number for number in range(count)), 37000111, 4]) == expected


def test_an_empty_map() -> None:
    assert integer_order([], 0) == []
