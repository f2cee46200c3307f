"""Idle clients are kept for the next task, for a bounded time and in a bounded number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.kafka.idle import IdlePool
from tests.servers import TIMEOUT, await_true

KEYS = st.integers(0, 4)
STEPS = st.lists(st.tuples(st.sampled_from(["take", "put", "wait"]), KEYS, st.floats(0.1, 9.0)), max_size=30)


@given(st.integers(0, 3), STEPS)
def test_the_pool_keeps_what_the_model_keeps(capacity: int, steps: list[tuple[str, int, float]]) -> None:
    now = 0.0
    closed: list[int] = []
    pool = IdlePool[int, int](closed.append, capacity=capacity, max_idle=10.0, clock=lambda: now)
    idle: list[tuple[float, int, int]] = []
    made = 0
    gone: list[int] = []
    for step, key, seconds in steps:
        if step == "wait":
            now += seconds
            continue
        gone += [client for since, _, client in idle if since + 10.0 <= now]
        idle = [one for one in idle if one[0] + 10.0 > now]
        if step == "take":
            expected = next((client for _, name, client in idle if name == key), None)
            assert pool.take(key) == expected
            idle = [one for one in idle if one[1] != key]
        else:
            made += 1
            pool.put(key, made)
            gone += [client for _, name, client in idle if name == key]
            idle = [*(one for one in idle if one[1] != key), (now, key, made)]
            gone += [client for _, _, client in idle[: max(0, len(idle) - capacity)]]
            idle = idle[max(0, len(idle) - capacity) :]
        assert len(pool) == len(idle)
        assert sorted(closed) == sorted(gone)


def test_what_nobody_asks_for_again_is_closed_too_and_then_no_thread_is_left() -> None:
    closed: list[str] = []
    pool = IdlePool[str, str](closed.append, max_idle=0.05)
    for round_ in range(2):
        pool.put("key", f"client {round_}")
        thread = pool._closer
        await_true(lambda: len(pool) == 0, "the client is closed")
        if thread is not None:
            thread.join(TIMEOUT)
            assert not thread.is_alive()
    assert closed == ["client 0", "client 1"]
