"""What a group was given is judged rightly: as a plain loop through it says, and of each violation what is wrong."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nemesis.deliveries import Log, check_delivered, undelivered
from tests.nemesis.journal import Event
from tests.nemesis.judge import Records
from tests.nemesis.reader import runs

# Of key a three records, then two behind a change; of b one of each partition. Offset 2 ends a transaction.
PLACES: list[tuple[str, int, int, int]] = [
    ("a", 0, 0, 0),
    ("a", 1, 0, 1),
    ("b", 0, 0, 3),
    ("a", 2, 0, 4),
    ("a", 3, 1, 0),
    ("b", 1, 1, 1),
    ("a", 4, 1, 2),
]
LOG = Log(
    Records(np.array([key for key, *_ in PLACES]), np.array([number for _, number, *_ in PLACES])),
    np.array([partition for *_, partition, _ in PLACES]),
    np.array([offset for *_, offset in PLACES]),
)


def delivered(*batches: list[list[int]]) -> list[Event]:
    return [{"process": "reader-1.1", "action": "delivered", "runs": batch} for batch in batches]


@pytest.mark.parametrize(
    "batches",
    [
        ([[0, 0, 1], [0, 3, 4]], [[1, 0, 2]]),
        ([[0, 0, 1]], [[0, 0, 1], [0, 3, 3]], [[0, 3, 4], [1, 0, 0]], [[1, 0, 2]]),
    ],
    ids=["once", "again and again"],
)
def test_what_comes_in_order_is_right(batches: tuple[list[list[int]], ...]) -> None:
    assert check_delivered(LOG, delivered(*batches)) == []
    assert undelivered(LOG, delivered(*batches)) == 0


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        (([[0, 0, 1], [0, 3, 4]], [[1, 0, 1]]), "not delivered: 1, such as a:4 (1@2)"),
        (([[0, 0, 1], [0, 3, 3], [1, 0, 2], [0, 4, 4]],), "before an earlier record of the key: 1, such as a:3 (1@0)"),
        (([[1, 0, 2]], [[0, 0, 1], [0, 3, 4]]), "before an earlier record of the key: 2, such as a:3 (1@0), b:1 (1@1)"),
        (([[0, 0, 4]], [[1, 0, 2]]), "in no committed transaction: 1, such as reader-1.1: 0@0..4"),
        (([[0, 0, 1], [0, 3, 4]], [[1, 0, 2], [2, 0, 0]]), "in no committed transaction: 1, such as reader-1.1: 2@0..0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(batches: tuple[list[list[int]], ...], found: str) -> None:
    violations = check_delivered(LOG, delivered(*batches))
    assert len(violations) == 1, violations
    assert found in violations[0]


@given(st.lists(st.lists(st.sampled_from(PLACES), min_size=1), max_size=12))
def test_it_says_what_a_loop_says(batches: list[list[tuple[str, int, int, int]]]) -> None:
    first: dict[tuple[str, int], int] = {}
    for turn, (key, number, *_) in enumerate(one for batch in batches for one in batch):
        first.setdefault((key, number), turn)
    missing = {one[:2] for one in PLACES} - first.keys()
    came = {key: [first[key, number] for number in range(5) if (key, number) in first] for key in "ab"}
    is_early = any(turns != sorted(turns) for turns in came.values())
    events = delivered(*([[partition, offset, offset] for *_, partition, offset in one] for one in batches))
    assert undelivered(LOG, events) == len(missing)
    violations = check_delivered(LOG, events)
    assert [one.partition(":")[0] for one in violations] == [
        *(["not delivered"] if missing else []),
        *(["delivered before an earlier record of the key"] if is_early else []),
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5))))
def test_runs_are_the_records_in_their_order(places: list[tuple[int, int]]) -> None:
    found = runs(places)
    assert [(partition, offset) for partition, a, b in found for offset in range(a, b + 1)] == places
    assert all(one[0] != other[0] or one[2] + 1 != other[1] for one, other in pairwise(found))
