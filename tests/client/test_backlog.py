"""The queues of a producer: exact bounds, whether callers take the lock or not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.client.backlog import SMALL_BYTES, Backlog, Chunk, Extra, Queue
from spark_ordered_kafka.kafka.producer import Row


@dataclass
class Model:
    """What a caller does, and what must come of it."""

    backlog: Backlog
    waiting: dict[int, list[tuple[bytes | None, bytes | None]]]
    taken: list[Chunk]
    unlocked: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.taken)) + sum(map(len, self.waiting.values()))

    @property
    def size(self) -> int:
        rows = [row for rows in self.waiting.values() for row in rows]
        return sum(chunk.size for chunk in self.taken) + sum(len(k or b"") + len(v or b"") for k, v in rows)

    def produce(self, number: int, key: bytes | None, value: bytes | None, wanted: int) -> None:
        queue, size = self.backlog.queues[number], len(key or b"") + len(value or b"")
        fits = self.count < self.backlog.max_messages and (
            self.count == 0 or self.size + size <= self.backlog.max_bytes
        )
        if size <= SMALL_BYTES and queue.limit:
            assert fits, "granted without room"
            queue.records += (key, value)
            self.unlocked += 1
            if len(queue.records) >= queue.limit:
                self.backlog.grant(queue, wanted)
        else:
            assert self.backlog.has_room(size) == fits
            if not fits:
                return
            queue.put(key, value, 0.0)
            self.backlog.grant(queue, wanted)
        self.waiting[number].append((key, value))

    def take(self, number: int) -> None:
        chunk = self.backlog.take(self.backlog.queues[number])
        assert list(zip(chunk.keys, chunk.values, strict=True)) == self.waiting[number]
        assert chunk.size == sum(len(k or b"") + len(v or b"") for k, v in self.waiting[number])
        self.waiting[number] = []
        self.taken.append(chunk)


contents = st.sampled_from([None, b"", b"k", b"x" * 100, b"x" * (SMALL_BYTES - 50), b"x" * (SMALL_BYTES + 1)])
steps = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, 2), contents, contents),
    st.tuples(st.sampled_from(["take", "settle"]), st.integers(0, 2)),
)


@given(
    st.integers(1, 30),
    st.sampled_from([1, 5_000, 50_000, 10**9]),
    st.integers(1, 10),
    st.lists(steps, max_size=100),
)
def test_bounds_are_exact(
    max_messages: int, max_bytes: int, wanted: int, plan: list[tuple[object, ...]]
) -> None:
    backlog = Backlog(max_messages, max_bytes, manual=False, queues=[Queue() for _ in range(3)])
    model = Model(backlog, {number: [] for number in range(3)}, [])
    for step in plan:
        match step:
            case ("produce", int(number), key, value):
                model.produce(number, key, value, wanted)  # type: ignore[arg-type]
            case ("take", int(number)):
                model.take(number)
            case _:
                with backlog.lock:
                    backlog.settle(model.taken)
                model.taken = []
        assert (backlog.count, backlog.size) == (model.count, model.size)


def test_most_records_need_no_lock() -> None:
    backlog = Backlog(100_000, 10**9, manual=False, queues=[Queue()])
    model = Model(backlog, {0: []}, [])
    for _ in range(3_000):
        model.produce(0, b"k", b"v", 5_000)
    assert model.unlocked > 2_900


def test_extras_keep_their_place() -> None:
    queue = Queue()
    queue.put(b"a", b"1", 7.0)
    queue.put(b"b", Extra(None, {"timestamp": 5}, 0), 8.0)
    queue.put(b"c", Extra(b"3", {"headers": [("h", b"xy")]}, 3), 9.0)
    queue.put(None, b"4", 9.0)
    assert queue.size == 3 + 3 + 3
    chunk = queue.take(10.0)
    assert (chunk.keys, chunk.values) == ([b"a", b"b", b"c", None], [b"1", None, b"3", b"4"])
    assert chunk.extras == {1: {"timestamp": 5}, 2: {"headers": [("h", b"xy")]}}
    assert (chunk.size, chunk.since) == (9, 7.0)
    assert (len(queue), queue.size, queue.limit) == (0, 0, 0)


@pytest.mark.parametrize("manual", [True, False])
def test_a_refusal_says_what_is_full(manual: bool) -> None:
    backlog = Backlog(5, 2048, manual=manual, queues=[Queue()])
    backlog.queues[0].put(b"k", b"v", 0.0)
    remedy = "commit" if manual else "poll"
    assert "1 records of 2 bytes wait for their commit" in str(backlog.refusal())
    assert f"call {remedy}()" in str(backlog.refusal())


@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.booleans()), min_size=2, max_size=9))
def test_halves_of_a_chunk_have_its_records_in_order(records: list[tuple[bytes | None, bool]]) -> None:
    extras: dict[int, Row] = {at: {"timestamp": at + 1} for at, (_, more) in enumerate(records) if more}
    keys = [key for key, _ in records]
    chunk = Chunk(keys, [b"%d" % at for at in range(len(keys))], extras, 100, 7.0)
    halves = chunk.halves()
    rows = [row for half in halves for row in half.rows(range(len(half)))]
    # A half without headers and timestamps is sent by another call.
    assert [{"headers": [], **row} for row in rows] == [
        {"headers": [], **row} for row in chunk.rows(range(len(chunk)))
    ]
    assert [half.since for half in halves] == [7.0, 7.0]
    assert sum(half.size for half in halves) == 100
    assert abs(len(halves[0]) - len(halves[1])) <= 1
