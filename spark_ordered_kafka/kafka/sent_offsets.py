"""Offsets that a transaction commits, sent while its records are on their way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer, TopicPartition

from spark_ordered_kafka.errors import UnavailableError

# Seconds until librdkafka is woken for the first time; then twice as many each time, up to the second number: where hundreds of
# instances wait, waking them takes the time that they wait for.
_WAKE_AFTER, _WAKE_AT_LEAST = 0.05, 0.5


@dataclass(frozen=True)
class TransactionOffsets:
    """Offsets of a consumer group that a transaction commits (KIP-98, KIP-447).

    ``offsets``: per partition the next one to read. ``group``: the consumer's ``consumer_group_metadata()``.
    """

    offsets: Sequence[TopicPartition]
    group: Any


class SentOffsets:
    """Offsets on their way into the transaction of the id ``name``, in the order given, while its records are on theirs.

    librdkafka 2.16 ignores the call's timeout and may never return, so a thread makes it, which is left behind with its
    instance if it hangs (D-074).
    """

    def __init__(
        self, producer: Producer, name: str, read: Sequence[TransactionOffsets], timeout: float
    ) -> None:
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._name = name
        self._done: Future[None] = Future()
        self._answered = answered = threading.Event()
        self._done.add_done_callback(lambda _: answered.set())
        arguments = (self._done, producer, read, timeout)
        threading.Thread(target=_send_offsets, args=arguments, name=f"offsets of {name}", daemon=True).start()

    def wait_for(self, seconds: float, wake: Callable[[], object] = lambda: None) -> bool:
        """Whether librdkafka has answered within so many seconds, or when the time is up.

        Until then it takes no other call about the transaction. ``wake`` is called again and again meanwhile.
        """
        until, pause = min(time.monotonic() + seconds, self._deadline), _WAKE_AFTER
        while not self._answered.wait(min(pause, max(0.0, until - time.monotonic()))):
            if time.monotonic() >= until:
                return False
            wake()
            pause = min(2 * pause, _WAKE_AT_LEAST)
        return True

    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline

    def result(self) -> None:
        """Raises what librdkafka said, or UnavailableError where it has not answered."""
        if not self._answered.is_set():
            raise UnavailableError(
                f"the transaction of {self._name!r} took no offsets within {self._timeout:g} s"
            )
        done = self._done
        # It may hold the error whose traceback leads here: a cycle that would keep the producer alive.
        del self._done
        try:
            done.result()
        finally:
            del done


def _send_offsets(
    done: Future[None], producer: Producer, read: Sequence[TransactionOffsets], timeout: float
) -> None:
    try:
        for one in read:
            producer.send_offsets_to_transaction(list(one.offsets), one.group, timeout)
    except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
        done.set_exception(error.with_traceback(None))
    else:
        done.set_result(None)
