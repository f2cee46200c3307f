"""A file lock between processes."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from spark_ordered_kafka.errors import LocalClusterError


@contextmanager
def file_lock(path: Path, *, timeout: float, what: str) -> Iterator[None]:
    """Hold an exclusive ``flock`` on ``path`` while the block runs; the kernel frees it when the process dies.

    Args:
        path: the lock file; it is made, with its parents, and stays.
        timeout: seconds to wait for another holder.
        what: what the lock guards, for the error message.

    Raises:
        LocalClusterError: another process still holds the lock after ``timeout`` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        acquire = Retrying(
            retry=retry_if_exception_type(BlockingIOError),
            stop=stop_after_delay(timeout),
            wait=wait_fixed(0.1),
        )
        try:
            acquire(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except RetryError:
            raise LocalClusterError(
                f"{what} is in use by another process, which did not finish within {timeout:g} s (lock {path})"
            ) from None
        yield
