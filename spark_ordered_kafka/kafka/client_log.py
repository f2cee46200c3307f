"""What librdkafka's clients log."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

LOG = logging.getLogger("spark_ordered_kafka.librdkafka")
_FENCE_FACILITIES = frozenset({"TXNERR", "FATAL", "ADDPARTS", "ADDOFFSETS", "GETPID", "PRODUCE", "TERMINATE"})
_REPEATED_WITHIN = 30.0
"""Seconds within which librdkafka itself says the same of a connection only once."""
_DURATION = re.compile(r"\(after .*")
_OF_OTHERS = re.compile(r"property \S+ is a \w+ property and will be ignored by this \w+ instance")
# Of clients that only judge properties: what they log, the clients that follow log as well.
SILENT = logging.getLogger("spark_ordered_kafka.librdkafka.judge")
# Not `disabled`, which anybody's logging.config.dictConfig takes back.
SILENT.addFilter(lambda _: False)


class NoiseFilter(logging.Filter):
    """Leaves out what librdkafka logs of a fenced producer, since every change fences some and it is raised as well; that a
    property is not for this kind of client, since a reader's options are those of its admin client, too; and what a
    client has logged in the last 30 seconds: while no broker answers, every attempt has a connection of its own.

    All is let through at DEBUG.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # With the time of each, in this order.
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record; confluent-kafka's have librdkafka's facility as the first argument."""
        if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        facility = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if facility in _FENCE_FACILITIES:
            return False
        text = record.getMessage()
        return _OF_OTHERS.search(text) is None and self._is_new(_DURATION.sub("", text))

    def _is_new(self, text: str) -> bool:
        now = self._clock()
        while self._said and now - next(iter(self._said.values())) >= _REPEATED_WITHIN:
            del self._said[next(iter(self._said))]
        is_new = text not in self._said
        if is_new:
            self._said[text] = now
        return is_new


LOG.addFilter(NoiseFilter())
