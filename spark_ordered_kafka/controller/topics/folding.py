"""Folding: drops layouts that all logs have outlived, so that a history stays bounded.

**Which layouts.** A history may begin at epoch k once the log of every partition begins at or behind ``start_k``. Then no
record of an earlier epoch is left, and a reader at or behind the log starts has met every condition of the gate for those
epochs, so the gate answers as before. Other readers do not exist: records below a log start are lost to a reader that
lags behind it, with layouts or without, and clients never read below the first layout they know. Epochs keep their numbers.

**Unfenced writers** (``ordered_delivery=false``) may write under an old count until the next ordered epoch begins.
Tombstones of compacted topics depend on that, so no history begins between two unordered epochs (D-010).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.kafka.admin import KafkaAdmin

_log = logging.getLogger(__name__)

MIN_FOLDABLE = 16
"""Minimum number of foldable layouts: fewer are not worth reading every log and invalidating clients' caches (D-009)."""

SETTLED = 300.0
"""Seconds between the two checks that must find a layout foldable.

After a crash a broker has the log starts of its last checkpoint (``log.flush.start.offset.checkpoint.interval.ms``, 60 s
by default), and shows deleted records again.
"""


def foldable(layouts: Mapping[int, LayoutRecord], log_starts: Mapping[int, int]) -> int:
    """The latest epoch that the history may begin at. PURE.

    Args:
        layouts: all existing ones, by epoch, without a gap.
        log_starts: by partition; one that is missing counts as 0.
    """
    first = min(layouts)
    begin = np.zeros(1 + max(log_starts, default=0), dtype=np.int64)
    begin[list(log_starts.keys())] = list(log_starts.values())
    for epoch in range(max(layouts), first, -1):
        layout = layouts[epoch]
        starts = np.array(layout.starts, dtype=np.int64)
        known = starts[: begin.size]
        outlived = bool((begin[: known.size] >= known).all()) and not starts[begin.size :].any()
        if outlived and (layout.ordered_delivery or layouts[epoch - 1].ordered_delivery):
            return epoch
    return first


@dataclass(frozen=True)
class _Check:
    management: int
    at: float
    first_epoch: int


class Folding:
    """Folds the layouts of topics that are not being changed; for one thread.

    Args:
        clock: seconds.
        least: layouts that must be foldable.
        settled: seconds between the two checks, and between any two checks of a topic.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        znodes: Znodes,
        clock: Callable[[], float],
        *,
        least: int = MIN_FOLDABLE,
        settled: float = SETTLED,
    ) -> None:
        self._admin = admin
        self._znodes = znodes
        self._clock = clock
        self._least = least
        self._settled = settled
        self._checks: dict[str, _Check] = {}

    def fold(self, topic: str, record: TopicRecord) -> None:
        """Fold the foldable layouts of the topic, whose record was just read, if they are at least ``least``.

        Raises ConflictError when the topic is being changed, and what Kafka or ZooKeeper refuse.
        """
        if record.deleting_since is not None or record.is_newer:
            return
        before = self._checks.get(topic)
        if before is not None and before.management != record.management:
            before = None
        now = self._clock()
        if record.change is not None or record.layout_epoch - record.first_layout_epoch < self._least:
            return
        if before is not None and now < before.at + self._settled:
            return
        epoch = self._foldable(topic, record)
        self._checks[topic] = _Check(record.management, now, epoch)
        settled = record.first_layout_epoch if before is None else min(before.first_epoch, epoch)
        if settled - record.first_layout_epoch >= self._least:
            self._znodes.fold(topic, record.management, settled)
            folded = settled - record.first_layout_epoch
            _log.info("topic %s: %d layouts folded, the history begins at epoch %d", topic, folded, settled)

    def _foldable(self, topic: str, record: TopicRecord) -> int:
        partitions = [row.partition for row in described(self._admin, topic, record.topic_id).partitions]
        log_starts = self._admin.log_starts(topic, partitions)
        layouts = self._znodes.layouts(topic, record)
        return foldable(dict(enumerate(layouts, record.first_layout_epoch)), log_starts)
