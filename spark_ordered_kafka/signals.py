"""Handlers of signals for the time of a block."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Signals go to ``handler``, and after the block where they went before. For the main thread, unless there are none."""
    before = {one: signal.signal(one, handler) for one in numbers}
    try:
        yield
    finally:
        for one, former in before.items():
            signal.signal(one, former)
