"""Threads by kind of work, so that blocked or open-to-all work cannot delay other work (D-131)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

_Params = ParamSpec("_Params")
_ResultT = TypeVar("_ResultT")


class ThreadPool:
    """Threads for one kind of work; they are made when they are needed first.

    Everything else that may wait for a server runs in the one pool of the framework, which slow servers can fill.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(
        self, function: Callable[_Params, _ResultT], *args: _Params.args, **named: _Params.kwargs
    ) -> _ResultT:
        """What ``function`` returns or raises; it runs in a thread, in the caller's context."""
        work = partial(contextvars.copy_context().run, partial(function, *args, **named))
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


RIGHTS: Final = ThreadPool("rights", 40)
"""Waits for Kafka while its ACLs are not known."""
LAYOUTS: Final = ThreadPool("layouts", 40)
"""What writers wait for in each transaction."""
AUDIT: Final = ThreadPool("audit", 1)
"""Lines are written one after another anyway, and a disk may be slow."""
BODIES: Final = ThreadPool("bodies", 1)
"""One large body is parsed at a time: parsing takes many times its size in memory."""
