"""What a group that reads without transactions was given, beside the log: nothing left out, each key in order.

Pure, and of the code under test it knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tests.nemesis.journal import Event
from tests.nemesis.judge import Records, violation_of

_NEVER = -1


class Log(NamedTuple):
    """All records of a topic, those of a key in the order in which they are due, and where each is."""

    records: Records
    partitions: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


def check_delivered(log: Log, events: Iterable[Event]) -> list[str]:
    """Each record is delivered, after the earlier ones of its key, however often it comes again."""
    turns, strange = _first_turns(log, events)
    # A stable sort keeps the order in which the records of a key are due.
    order = np.argsort(log.records.keys, kind="stable")
    order = order[turns[order] != _NEVER]
    same_key = log.records.keys[order][1:] == log.records.keys[order][:-1]
    early = order[1:][same_key & (turns[order][1:] < turns[order][:-1])]
    return [
        *violation_of("delivered, and in no committed transaction", strange),
        *violation_of("not delivered", _words(log, np.flatnonzero(turns == _NEVER))),
        *violation_of("delivered before an earlier record of the key", _words(log, early)),
    ]


def undelivered(log: Log, events: Iterable[Event]) -> int:
    """How many records the group was not given yet."""
    return int(np.count_nonzero(_first_turns(log, events)[0] == _NEVER))


def _first_turns(log: Log, events: Iterable[Event]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """When each record came first, as its turn among all; and what came that is not in the log."""
    turns = np.full(len(log.offsets), _NEVER, dtype=np.int64)
    rows = {p: _by_offset(log, p) for p in np.unique(log.partitions).tolist()}
    none = np.empty(0, dtype=np.intp)
    offsets = {p: log.offsets[of_partition] for p, of_partition in rows.items()}
    strange = []
    turn = 0
    for event in events:
        if event["action"] != "delivered":
            continue
        for partition, first, last in event["runs"]:
            begin, end = np.searchsorted(offsets.get(partition, none), (first, last + 1))
            found = rows.get(partition, none)[begin:end]
            if len(found) != last + 1 - first:
                strange.append(f"{event['process']}: {partition}@{first}..{last}")
            new = found[turns[found] == _NEVER]
            turns[new] = turn + np.arange(len(new))
            turn += len(new)
    return turns, strange


def _by_offset(log: Log, partition: int) -> npt.NDArray[np.intp]:
    own = np.flatnonzero(log.partitions == partition)
    return own[np.argsort(log.offsets[own])]


def _words(log: Log, rows: npt.NDArray[np.intp]) -> list[str]:
    return [
        f"{log.records.keys[one]}:{log.records.numbers[one]} ({log.partitions[one]}@{log.offsets[one]})"
        for one in rows
    ]
