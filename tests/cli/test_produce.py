"""``ordered-kafka produce``: what is written where Ctrl-C comes while the queue is full, or the input has ended."""

from __future__ import annotations

from typing import Any, cast

from spark_ordered_kafka.cli.produce import _produce
from spark_ordered_kafka.cli.record_lines import Line


class FullQueue:
    """Has room for one record between two calls of ``poll`` that wait; Ctrl-C comes at the first of these."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.flushed = 0
        self._has_room = True
        self._pressed = False

    def produce(self, _: str, value: bytes, *__: object, **___: object) -> None:
        if not self._has_room:
            raise BufferError
        self._has_room = False
        self.written.append(value)

    def poll(self, timeout: float) -> None:
        if timeout:
            self._has_room = True
            if not self._pressed:
                self._pressed = True
                raise KeyboardInterrupt

    def flush(self) -> None:
        self.flushed = len(self.written)


def test_a_record_that_waits_for_room_is_written_and_counted() -> None:
    producer = FullQueue()
    records = (Line(None, value, []) for value in (b"1", b"2", b"3"))
    assert _produce(cast("Any", producer), "t", records) == 2
    assert (producer.written, producer.flushed) == ([b"1", b"2"], 2)


class SlowFlush(FullQueue):
    """Has room; Ctrl-C comes while it writes."""

    def produce(self, _: str, value: bytes, *__: object, **___: object) -> None:
        self.written.append(value)

    def flush(self) -> None:
        if not self._pressed:
            self._pressed = True
            raise KeyboardInterrupt
        super().flush()


def test_what_was_read_is_written_where_ctrl_c_comes_behind_the_input() -> None:
    producer = SlowFlush()
    records = (Line(None, value, []) for value in (b"1", b"2"))
    assert _produce(cast("Any", producer), "t", records) == 2
    assert producer.flushed == 2
