"""Going from Spark's own ``kafka`` source to ours and back: offsets of both, and which order an offset in the logs allows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_ordered_kafka.json_texts import json_value
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.ordering.layout import OPEN_END, LayoutHistory
from spark_ordered_kafka.ordering.linear import buckets, split_base
from spark_ordered_kafka.ordering.routing import NO_PARTITION, Routing

_PARTITION = re.compile(r"0|[1-9][0-9]{0,8}")
_SHOWN = 5

Positions = Mapping[int, int]
"""Partition -> next offset to read."""


def read_kafka_offset(text: str) -> dict[str, dict[int, int]] | None:
    """Positions by topic of an offset of Spark's own source, ``{"topic":{"0":123}}``; None: it is none of those."""
    value = _parsed(text)
    if not isinstance(value, dict) or not value:
        return None
    found: dict[str, dict[int, int]] = {}
    for topic, positions in value.items():
        if not isinstance(positions, dict) or not all(map(_PARTITION.fullmatch, positions)):
            return None
        if not all(type(at) is int and 0 <= at <= OPEN_END for at in positions.values()):
            return None
        found[topic] = {int(partition): at for partition, at in positions.items()}
    return found


def kafka_offset(topics: Mapping[str, Positions]) -> str:
    """The inverse of :func:`read_kafka_offset`, as Spark writes it."""
    value = {
        topic: {str(p): at for p, at in sorted(positions.items())}
        for topic, positions in sorted(topics.items())
    }
    return json.dumps(value, separators=(",", ":"))


def read_ordered_offset(text: str) -> dict[str, Any] | None:
    """The JSON object of an offset of our source; None: it is none of those."""
    value = _parsed(text)
    is_ours = isinstance(value, dict) and "version" in value and isinstance(value.get("topics"), dict)
    return value if is_ours else None


def _parsed(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError:
        return None


def wrong_positions(
    topic: str, history: LayoutHistory, positions: Positions, starts: Positions, ends: Positions
) -> list[str]:
    """What is wrong with the positions of a query that is to read on there; a partition that they lack is at 0.

    ``starts`` and ``ends`` are those of the logs, by partition.
    """
    wrong = []
    unknown = [p for p in positions if p >= history.partition_count]
    if unknown:
        wrong.append(
            f"no layout has {_named(topic, unknown)} yet: the controller covers partitions that another tool has made within"
            " seconds, unless a change of the topic is in progress; try again then"
        )
    for p in sorted(ends):
        at, start, end = positions.get(p, 0), starts[p], ends[p]
        if at < start and p in positions:
            wrong.append(
                f"{topic}-{p} is at offset {at}, and its log begins at {start}: what lay between was deleted before the query"
                " had read it. Run the query once more with failOnDataLoss=false, if it may continue without it"
            )
        if at > end:
            wrong.append(
                f"{topic}-{p} is at offset {at}, and committed records end at {end}: a transaction is open there, and the"
                " query reads uncommitted records (wait for its end, and try again), or the log has lost records, or the"
                " topic was created again"
            )
    return wrong


@dataclass(frozen=True)
class Overtaken:
    """Records of ``partition``, offsets [start, end), that are not read, while later ones of their keys are, in ``by``."""

    partition: int
    start: int
    end: int
    by: int


def overtaken(history: LayoutHistory, positions: Positions) -> list[Overtaken]:
    """One row for each partition with unread records while later ones of their keys are read; a reader with a gate has none.

    Such keys are out of order in what was read so far, whatever reads the rest.
    """
    known = history.partition_count
    pos = np.array([positions.get(p, 0) for p in range(known)], dtype=np.int64)
    bounds = history.bounds
    if (pos >= bounds[-2]).all():
        return []
    residues = np.arange(2 * split_base(history.initial_count, max(history.counts)))
    # By residue: a partition that has unread records of it, and up to where; of several the one that is so since the
    # earliest layout.
    behind = np.full(residues.size, -1, dtype=np.int64)
    until = np.zeros(residues.size, dtype=np.int64)
    found: dict[int, Overtaken] = {}
    for row, count in enumerate(history.counts):
        low, high = bounds[row], bounds[row + 1]
        owner = buckets(residues, history.initial_count, count)
        read = np.minimum(pos, high) > low
        for residue in np.flatnonzero(read[owner] & (behind >= 0)).tolist():
            left, end = int(behind[residue]), int(until[residue])
            if left not in found or found[left].end < end:
                found[left] = Overtaken(left, int(pos[left]), end, int(owner[residue]))
        unread = np.maximum(pos, low) < high
        more = unread[owner] & ((behind < 0) | (behind == owner))
        behind[more], until[more] = owner[more], high[owner[more]]
    return [found[p] for p in sorted(found)]


def unread_layouts(history: LayoutHistory, positions: Positions) -> dict[int, int]:
    """Partition -> offset that it must be read to before only the newest layout is left; empty when that is so."""
    starts = history.current.starts
    return {p: start for p, start in enumerate(starts) if positions.get(p, 0) < start}


@dataclass(frozen=True)
class KeyedRecord:
    """Where a record with a key lies."""

    partition: int
    offset: int
    key: bytes


def misrouted(
    history: LayoutHistory, routing: Callable[[int], Routing | None], records: Sequence[KeyedRecord]
) -> list[KeyedRecord]:
    """Those of the records that lie where their keys do not belong under the layout they were written in; ``routing`` is by
    layout epoch, None where writers were not held to it."""
    by_epoch: dict[int, list[KeyedRecord]] = {}
    for record in records:
        epoch = max(history.epoch_of(record.partition, record.offset), history.first_epoch)
        by_epoch.setdefault(epoch, []).append(record)
    wrong = []
    for epoch, under_epoch in by_epoch.items():
        rule = routing(epoch)
        if rule is None:
            continue
        owners: npt.NDArray[np.int32] = rule.partitions([one.key for one in under_epoch])
        wrong += [
            one
            for one, owner in zip(under_epoch, owners.tolist(), strict=True)
            if owner not in (NO_PARTITION, one.partition)
        ]
    return wrong


def _named(topic: str, partitions: Sequence[int]) -> str:
    return listed(sorted(partitions), _SHOWN, lambda partition: f"{topic}-{partition}")
