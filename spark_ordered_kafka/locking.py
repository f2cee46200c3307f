"""A file lock between processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from spark_ordered_kafka.errors import OrderedKafkaError

_POLL_INTERVAL = 0.1


@contextmanager
def file_lock(
    path: Path, *, timeout: float, what: str, error: Callable[[str], OrderedKafkaError] = OrderedKafkaError
) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` while the block runs; the kernel frees it when the process dies.

    Args:
        path: the lock file; it is made, with its parents, and stays.
        timeout: seconds to wait for another holder.
        what: what the lock guards, for the error message.
        error: makes the error of a message.

    Raises:
        OrderedKafkaError: that of ``error``: another process still holds the lock after ``timeout`` seconds, or the file
            cannot be made or locked.
    """
    lock = FileLock(path, timeout=timeout)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(poll_interval=_POLL_INTERVAL)
    except Timeout:
        raise error(
            f"{what} is in use by another process, which did not finish within {timeout:g} s (lock {path})"
        ) from None
    except (OSError, NotImplementedError) as failure:
        # The latter: a file system without locks.
        raise error(f"{what} cannot be used: {failure}") from failure
    try:
        yield
    finally:
        lock.release()
