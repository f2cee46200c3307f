"""What becomes of clients that are open when their process forks, or ends."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import weakref
from typing import NoReturn

from spark_ordered_kafka.errors import ClosedError

_LOG = logging.getLogger(__name__)
_OPEN: weakref.WeakSet[OpenClient] = weakref.WeakSet()


class OpenClient:
    """A client that is closed in every process that is forked while it lives; in its own nothing changes (D-322)."""

    # Why it is closed.
    _closed: str | None = None

    def _opened(self) -> None:
        _OPEN.add(self)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(self._closed)

    def _end_in_child(self) -> None:
        """Refuse all calls. Takes no lock, since a thread of the parent may have held it."""
        self._closed = f"this {type(self).__name__} belongs to process {os.getppid()}, which has forked this one: make a new one here"

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"an {kind} can neither be pickled nor copied: make one in the process that uses it")

    def _uncommitted(self) -> int:
        """Records that would be lost now."""
        return 0


def _after_fork() -> None:
    for client in tuple(_OPEN):
        # Never freed: librdkafka would wait for its threads, and abort the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dict(vars(client))))
        client._end_in_child()


def _at_exit() -> None:
    for client in tuple(_OPEN):
        # A closed one has committed or dropped its records.
        if client._closed is None and (count := client._uncommitted()) > 0:
            kind = type(client).__name__
            _LOG.warning("an open %s ends with %d uncommitted records: call flush() or close()", kind, count)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
