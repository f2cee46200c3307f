"""Log directories as brokers report them, from what is in them."""

from __future__ import annotations

from collections.abc import Mapping

from spark_ordered_kafka.kafka.values import DirReplica, LogDir, PartitionId


def log_dirs(paths: Mapping[str, int], held: Mapping[PartitionId, str]) -> list[LogDir]:
    """``paths`` has the error codes of the directories, ``held`` the directory of each partition's replica."""
    return [
        LogDir(path, code, tuple(DirReplica(*place, 0, 0, False) for place in held if held[place] == path))
        for path, code in paths.items()
    ]
