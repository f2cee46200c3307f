"""One confirmation serves all who asked before it began, and nobody who asked later."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from spark_ordered_kafka.controller.zk import single_flight as single_flight_module
from spark_ordered_kafka.controller.zk.single_flight import SingleFlight
from tests.servers import await_true

_PATIENCE = 60.0


class Quorum:
    """Counts what has begun and ended; each confirmation waits for :meth:`answer`."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self._answers = threading.Semaphore(0)
        self.error: Exception | None = None

    def confirm(self) -> None:
        self.begun += 1
        assert self._answers.acquire(timeout=_PATIENCE)
        self.ended += 1
        if self.error is not None:
            raise self.error

    def answer(self, times: int = 1) -> None:
        self._answers.release(times)


def test_who_asks_during_a_confirmation_waits_for_the_next_and_shares_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared: list[None] = []

    class Shared(Future[None]):
        """Tells who waits for it: that is a caller who will not ask for another one."""

        def result(self, timeout: float | None = None) -> None:
            shared.append(None)
            super().result(timeout)

    monkeypatch.setattr(single_flight_module, "Future", Shared)
    quorum = Quorum()
    single_flight = SingleFlight(quorum.confirm)
    with ThreadPoolExecutor(101) as pool:
        first = pool.submit(single_flight.confirm)
        await_true(lambda: quorum.begun == 1, "the first confirmation")
        started = threading.Barrier(101)

        def ask() -> None:
            started.wait(_PATIENCE)
            single_flight.confirm()

        later = [pool.submit(ask) for _ in range(100)]
        started.wait(_PATIENCE)
        quorum.answer()
        first.result(_PATIENCE)
        # All but the first one, the one who makes the second confirmation, and at most one who is to make a third.
        await_true(
            lambda: len(shared) >= 99 and quorum.begun == 2,
            "all have come to the second confirmation",
            _PATIENCE,
        )
        assert not any(one.done() for one in later)
        # Some may have come when the second one had begun.
        quorum.answer(100)
        for one in later:
            one.result(_PATIENCE)
    assert quorum.begun == quorum.ended <= 3


def test_an_error_is_everybody_s_who_waited_and_nobody_s_after() -> None:
    quorum = Quorum()
    single_flight = SingleFlight(quorum.confirm)
    quorum.error = RuntimeError("no quorum")
    quorum.answer()
    with pytest.raises(RuntimeError, match="no quorum"):
        single_flight.confirm()
    quorum.error = None
    quorum.answer()
    single_flight.confirm()
    assert quorum.ended == 2


def test_random_askers_are_never_served_by_a_confirmation_that_began_before() -> None:
    clock = threading.Lock()
    ticks = [0]
    begins: list[int] = []

    def tick() -> int:
        with clock:
            ticks[0] += 1
            return ticks[0]

    def confirm() -> None:
        begins.append(tick())

    single_flight = SingleFlight(confirm)
    wrong: list[tuple[int, int]] = []

    def ask() -> None:
        for _ in range(200):
            asked = tick()
            single_flight.confirm()
            if not any(asked < begun for begun in begins):
                wrong.append((asked, begins[-1]))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert len(begins) <= 16 * 200
