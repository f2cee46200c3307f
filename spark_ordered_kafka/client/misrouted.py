"""Reports of misrouted records: in the task's log, and to the controller, which counts them for its metrics (D-062)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.kafka.misrouted import MisroutedFilter, MisroutedRecords

_LOG = logging.getLogger(__name__)
_REPORT_TIMEOUT = 2.0
_REPORT_INTERVAL = 60.0


class MisroutedReports:
    """What the ``filter`` of a consumer finds, reported once a minute. ``clock``: seconds, monotonic."""

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        self.filter = MisroutedFilter("warn")
        self._connection = connection
        self._clock = clock
        self._report_at = clock() + _REPORT_INTERVAL

    def report_if_due(self) -> None:
        """Report what was found, once a minute."""
        if self._clock() >= self._report_at:
            self.report()

    def report(self) -> None:
        """Report what was found since the last report."""
        self._report_at = self._clock() + _REPORT_INTERVAL
        report_misrouted(self._connection, self.filter.take())


def report_misrouted(connection: Connection, found: Sequence[MisroutedRecords]) -> None:
    """Warn of what a task found, a line per partition, and let the controller count it.

    An unreachable controller does not delay records: then only the log has the number.
    """
    records: Counter[str] = Counter()
    for one in found:
        records[one.topic] += one.count
        _LOG.warning(
            "%s-%d: misrouted records: %d, the first at offset %d. Their keys do not belong to this partition, so"
            " something that is no ordered writer wrote them, and they have no order",
            one.topic,
            one.partition,
            one.count,
            one.first,
        )
    if not records:
        return
    # Here, since few tasks find any.
    from spark_ordered_kafka.client.controller import ControllerClient

    with ControllerClient.of(connection, timeout=_REPORT_TIMEOUT, retry_for=0.0) as controller:
        for topic, count in records.items():
            try:
                controller.report_misrouted(topic, count)
            except OrderedKafkaError as error:
                _LOG.warning(
                    "%s: %d misrouted records are not counted in the metrics: %s", topic, count, str(error)
                )
