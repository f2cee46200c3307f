"""The address space of Spark's Python workers, which ``spark.executor.pyspark.memory`` limits."""

from __future__ import annotations

import ctypes
import resource

# Of glibc's malloc.h.
_M_ARENA_MAX = -8
_ARENAS = 2


def share_arenas() -> None:
    """Where the address space is limited, keep glibc from reserving 64 MiB of it for each of the first threads.

    librdkafka ends the process when a broker's thread finds no place for its stack (D-321).
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
