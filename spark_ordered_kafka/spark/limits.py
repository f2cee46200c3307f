"""How much of what may be read a micro-batch takes: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from spark_ordered_kafka.ordering.offsets import Range, TopicPartition, admit
from spark_ordered_kafka.spark.options import Limits


class Admission:
    """Admits offsets to micro-batches, one after another. ``clock`` gives seconds that never run backwards.

    As in Spark, a batch with fewer than ``min_offsets`` is held back until ``max_delay`` has passed since the one
    before, and the first one of a run never is.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._last: float | None = None

    def default(self) -> ReadLimit:
        """The limit for Spark to hand back. PySpark has none for the minimum together with its delay."""
        limit = self._limits.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def admit(
        self, ranges: Mapping[TopicPartition, Range], available: int, limit: ReadLimit, *, at_once: bool
    ) -> dict[TopicPartition, int]:
        """End offsets of the next micro-batch; the positions themselves if it is held back.

        ``ranges`` maps (topic, partition) to (position, readable end). ``available`` counts all offsets there are, also
        those that the gate holds back (D-051). ``at_once`` leaves the minimum out (``Trigger.AvailableNow``).
        """
        if not any(end > start for start, end in ranges.values()) or (not at_once and self._waits(available)):
            return {key: start for key, (start, _) in ranges.items()}
        self._last = self._clock()
        return admit(ranges, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def _waits(self, available: int) -> bool:
        if self._limits.min_offsets is None or self._last is None:
            return False
        return available < self._limits.min_offsets and self._clock() - self._last < self._limits.max_delay
