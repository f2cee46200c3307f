"""What Spark says of the micro-batches of a query."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_AFTER_BEGIN = ("addBatch", "commitBatch", "commitOffsets")


def batch_milliseconds(query: StreamingQuery) -> list[float]:
    """How long each micro-batch with rows took, from looking for new records to the commit, in order."""
    return [report["durationMs"]["triggerExecution"] for report in _with_rows(query)]


def first_batch_begun(query: StreamingQuery) -> float:
    """When the tasks of the first micro-batch with rows began, in seconds since 1970."""
    report = _with_rows(query)[0]
    durations = report["durationMs"]
    looked = durations["triggerExecution"] - sum(durations.get(name, 0) for name in _AFTER_BEGIN)
    began: str = report["timestamp"]
    return datetime.fromisoformat(began).timestamp() + float(looked) / 1000


def _with_rows(query: StreamingQuery) -> list[dict[str, Any]]:
    # A micro-batch may be reported more than once.
    reports = {report["batchId"]: report for report in query.recentProgress if report["numInputRows"] > 0}
    return [reports[batch] for batch in sorted(reports)]
