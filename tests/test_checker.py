"""The checker must find what it exists for: each kind of damage, planted at random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.checker import check


def exact(counts: list[int], seed: int) -> tuple[list[str], list[int]]:
    """Records of all keys, shuffled together with every key in order."""
    rng = np.random.default_rng(seed)
    keys = [f"k{i}" for i, count in enumerate(counts) for _ in range(count)]
    rng.shuffle(keys)
    seen: dict[str, int] = {}
    sequences = []
    for key in keys:
        sequences.append(seen.get(key, 0))
        seen[key] = sequences[-1] + 1
    return keys, sequences


histories = st.tuples(st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 1000))


@given(histories)
def test_exact_delivery_has_no_violation(history: tuple[list[int], int]) -> None:
    keys, sequences = exact(*history)
    report = check(np.array(keys), np.array(sequences), len(keys))
    assert (report.violations, report.records, report.examples) == (0, len(keys), ())


@given(histories, st.data())
def test_a_lost_record_is_found(history: tuple[list[int], int], data: st.DataObject) -> None:
    keys, sequences = exact(*history)
    gone = data.draw(st.integers(0, len(keys) - 1))
    report = check(np.delete(keys, gone), np.delete(sequences, gone), len(keys))
    assert (report.lost, report.duplicated, report.out_of_order) == (1, 0, 0)


@given(histories, st.data())
def test_a_duplicate_is_found(history: tuple[list[int], int], data: st.DataObject) -> None:
    keys, sequences = exact(*history)
    again = data.draw(st.integers(0, len(keys) - 1))
    report = check(np.array([*keys, keys[again]]), np.array([*sequences, sequences[again]]), len(keys))
    assert (report.lost, report.duplicated) == (0, 1)


@given(histories, st.data())
def test_swapped_records_of_a_key_are_found(history: tuple[list[int], int], data: st.DataObject) -> None:
    keys, sequences = exact(*history)
    key = data.draw(st.sampled_from(sorted(set(keys))))
    places = [i for i, name in enumerate(keys) if name == key]
    if len(places) < 2:
        return
    first, second = sorted(data.draw(st.permutations(places))[:2])
    sequences[first], sequences[second] = sequences[second], sequences[first]
    report = check(np.array(keys), np.array(sequences), len(keys))
    assert report.out_of_order >= 1
    assert (report.lost, report.duplicated) == (0, 0)
    assert report.examples[0].startswith(f"key {key}: ")


def test_empty_delivery() -> None:
    assert check(np.array([]), np.array([]), 3).lost == 3
    assert check(np.array([]), np.array([]), 0).violations == 0


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 keys but 2"):
        check(np.array(["a"]), np.array([1, 2]))
