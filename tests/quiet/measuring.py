"""What processes have: memory, threads, open files and connections, processor time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import psutil

Figures = dict[str, float]


def measured(roots: Mapping[str, int]) -> dict[str, Figures]:
    """The figures of each process and, apart, of its children of one program: ``query``, ``query/java``.

    ``roots``: pids by name. ``processes``: how many there are; ``rss``: bytes; ``cpu``: seconds since their starts.
    """
    found: dict[str, Figures] = {}
    for name, pid in roots.items():
        root = psutil.Process(pid)
        families: dict[str, list[psutil.Process]] = defaultdict(list)
        families[name].append(root)
        for child in root.children(recursive=True):
            families[f"{name}/{child.name().rstrip('0123456789.')}"].append(child)
        for family, members in families.items():
            found[family] = _sum(members)
    return found


def _sum(processes: list[psutil.Process]) -> Figures:
    total: Figures = defaultdict(float)
    for one in processes:
        # A child may end meanwhile.
        try:
            with one.oneshot():
                own = {
                    "processes": 1,
                    "rss": one.memory_info().rss,
                    "threads": one.num_threads(),
                    "files": one.num_fds(),
                    "connections": len(one.net_connections("inet")),
                    "cpu": sum(one.cpu_times()[:2]),
                }
        except psutil.NoSuchProcess:
            continue
        for what, value in own.items():
            total[what] += value
    return dict(total)
