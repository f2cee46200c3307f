"""What a producer instance remembers of the tombstones it sent."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.kafka.tombstones import KeySet, Tombstones
from spark_ordered_kafka.native.contents import Contents
from spark_ordered_kafka.native.keys import key_hashes
from spark_ordered_kafka.ordering import tombstone_targets

keys = st.binary(max_size=2)


def due(tombstones: Tombstones, written: Contents) -> Counter[tuple[int, bytes]]:
    found = tombstones.due(written, key_hashes("murmur3", written))
    return Counter((partition, key) for partition, sent in found for key in sent)


@given(st.lists(st.lists(keys)))
def test_key_set_is_a_set(batches: list[list[bytes]]) -> None:
    found, known = KeySet(), set[bytes]()
    for batch in batches:
        places = found.add(batch).tolist()
        assert places == [i for i, key in enumerate(batch) if key not in known and key not in batch[:i]]
        known.update(batch)
        assert len(found) == len(known)


def test_key_set_of_many_keys_has_few_runs() -> None:
    found = KeySet()
    for first in range(0, 100_000, 500):
        assert found.add([b"%d" % i for i in range(first - first % 2000, first + 500)]).size == 500
    assert len(found) == 100_000
    assert len(found._runs) <= 17


@given(st.lists(st.lists(st.none() | keys)), st.booleans())
def test_once_per_key_and_partition(batches: list[list[bytes | None]], as_array: bool) -> None:
    tombstones = Tombstones(tombstone_targets(1, 7, [(1, [5]), (2, [9, 9]), (5, [9] * 5)], {}))
    sent: Counter[tuple[int, bytes]] = Counter()
    for batch in batches:
        sent += due(tombstones, pa.array(batch, pa.binary()) if as_array else batch)
        tombstones.committed()
    written = [key for batch in batches for key in batch if key is not None]
    rows, partitions = tombstone_targets(1, 7, [(1, [5]), (2, [9, 9]), (5, [9] * 5)], {}).pairs(
        key_hashes("murmur3", written)
    )
    assert sent == Counter(
        {(q, written[row]): 1 for row, q in zip(rows.tolist(), partitions.tolist(), strict=True)}
    )


def test_null_and_empty_keys() -> None:
    tombstones = Tombstones(tombstone_targets(1, 1, [(2, [9, 9])], {}))
    moved = next(b"%d" % i for i in range(100) if key_hashes("murmur3", [b"%d" % i])[0] % 2 == 1)
    assert due(tombstones, [None, b"", moved, None, moved]) == {(1, moved): 1}
    every = Tombstones(tombstone_targets(1, 2, [(1, [9])], {}))
    assert list(every.due([None, b""], np.array([1, 1], dtype=np.uint32))) == [(0, [b""])], (
        "an empty key is a key"
    )


def test_beyond_the_limit_all_is_forgotten_after_the_commit_only() -> None:
    tombstones = Tombstones(tombstone_targets(1, 1, [(2, [0, 9])], {}), limit=2)
    moved: list[bytes | None] = [
        key for i in range(100) if key_hashes("murmur3", [key := b"%d" % i])[0] % 2 == 1
    ]
    assert due(tombstones, moved[:3]).total() == 3
    assert due(tombstones, moved[:3]).total() == 0, "within a transaction once, however many keys there are"
    tombstones.committed()
    assert due(tombstones, moved[:2]).total() == 2
    tombstones.committed()
    assert due(tombstones, moved[:2]).total() == 0
