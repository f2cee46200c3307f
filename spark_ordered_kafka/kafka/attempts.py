"""Steps that may fail and start over, whose errors are looked at outside of their handlers.

confluent-kafka 2.16 never frees an exception during whose handling one of its calls fails, nor the producer that its
traceback leads to (D-120).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spark_ordered_kafka.errors import OrderedKafkaError

_LONGEST_PAUSE = 2.0

_ErrorT = TypeVar("_ErrorT", bound=BaseException)


def retriable_failure(step: Callable[[], object]) -> OrderedKafkaError | None:
    """The retriable error that ended ``step``; every other one is raised."""
    try:
        step()
    except OrderedKafkaError as error:
        if error.retriable:
            return error
        raise
    return None


def failure_of(step: Callable[[], object]) -> Exception | None:
    """The error that ended ``step``, for another thread to raise."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - the caller raises it
        return without_frames(error)
    return None


def interrupt_of(error: BaseException) -> BaseException:
    """KeyboardInterrupt for the SystemError that confluent-kafka (2.16) makes of Ctrl-C, every other error as it is.

    Where Ctrl-C comes upon a callback, the exception is lost before Python 3.12, since it has no value; where it comes upon
    a call that has a result, that is returned all the same (D-459).
    """
    if not isinstance(error, SystemError):
        return error
    is_lost = "without setting an exception" in str(error)
    return KeyboardInterrupt() if is_lost or isinstance(error.__cause__, KeyboardInterrupt) else error


def without_frames(error: _ErrorT) -> _ErrorT:
    """The error without the frames it came through, which would keep producer instances alive."""
    links: list[BaseException] = [error]
    # An error may have both a cause and a context. Python breaks cycles of them, apart from those that code makes itself.
    for link in links:
        link.__traceback__ = None
        links += [
            before
            for before in (link.__cause__, link.__context__)
            if before is not None and before not in links
        ]
    return error


def pause_before(restart: int) -> float:
    """Seconds to wait before the ``restart``-th attempt in a row to start over.

    The first follows a partition change at once; later ones give a struggling broker time.
    """
    return min(_LONGEST_PAUSE, 0.05 * 2**restart) if restart > 1 else 0.0
