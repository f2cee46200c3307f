"""What processes have: memory, threads, open files and connections, processor time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import psutil

Figures = dict[str, float]


def measured(roots: Mapping[str, int]) -> dict[str, Figures]:
    """The figures of each process and, apart, of its children of one program: ``query``, ``query/java``.

    ``roots``: pids by name. ``processes``: how many there are; ``rss``: bytes; ``cpu``: seconds since their starts.
    """
    found: dict[str, Figures] = {}
    for name, pid in roots.items():
        root = psutil.Process(pid)
        found[name] = _figures(root)
        for child in root.children(recursive=True):
            # It may end meanwhile.
            with suppress(psutil.NoSuchProcess):
                own = _figures(child)
                family = found.setdefault(
                    f"{name}/{child.name().rstrip('0123456789.')}", dict.fromkeys(own, 0.0)
                )
                for what, value in own.items():
                    family[what] += value
    return found


def _figures(process: psutil.Process) -> Figures:
    with process.oneshot():
        return {
            "processes": 1,
            "rss": process.memory_info().rss,
            "threads": process.num_threads(),
            "files": process.num_fds(),
            "connections": len(process.net_connections("inet")),
            "cpu": sum(process.cpu_times()[:2]),
        }
