"""Looking for what an earlier attempt of a micro-batch has written where this one does not: it was distributed otherwise.

A task compares its rows with what it has committed itself. What other tasks have committed, of which there may have been
more, what it has committed to topics that it has no rows for now, and what the query has committed under another writer
name, is looked for once per run of a query, in its first micro-batch: a run writes each batch once, so that only that one
can be a replay. What shows by itself that the batch is not to be written stops every task before it commits (D-310); what
only all tasks together show, the driver finds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from spark_ordered_kafka.client.writer_names import is_one_off
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import ReplayMismatchError
from spark_ordered_kafka.kafka.ids import WriterTask
from spark_ordered_kafka.kafka.ledger import LedgerEntry, all_ledgers, entries_of, ledgers_of
from spark_ordered_kafka.kafka.replay import (
    ACCEPT_OPTION,
    Claim,
    complaint,
    entries_of_others,
    refusal,
    renaming,
)

_LOG = logging.getLogger(__name__)
_TIMEOUT = 60.0


@dataclass
class TaskReport(WriterCommitMessage):
    """What a task did: rows given, and restarts by partition changes.

    ``topics``: those whose ledgers it wrote or compared. ``settled``: see TaskTransaction.
    """

    task: int
    rows: int
    replays: int
    claim: Claim
    topics: frozenset[str]
    settled: bool


class _Look(NamedTuple):
    """``entries``: what was found at those of the ``ledgers`` that were asked for; None: nothing."""

    run: str
    first: int
    execution: str
    ledgers: frozenset[WriterTask]
    entries: dict[WriterTask, LedgerEntry | None]


class TaskLook:
    """How the tasks of a worker process look for what was written otherwise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._looks: dict[str, _Look] = {}

    def check(self, claim: Claim, task: int, topics: Collection[str]) -> None:
        """Raises ReplayMismatchError if the task has committed rows of the batch to other topics than ``topics``."""
        own = [
            ledger
            for ledger in self._ledgers(claim)
            if (ledger.writer, ledger.task) == (claim.writer, task) and ledger.topic not in topics
        ]
        _check(self._connection, claim, own, topics)

    def check_others(self, claim: Claim, task: int, topics: Collection[str], *, is_only_write: bool) -> None:
        """Raises ReplayMismatchError if what any task has committed to one of ``topics`` shows that none may write this
        batch: a later batch, or one of another query (D-310).

        ``is_only_write``: of the query, so that its batch under another writer name shows that, too (D-276). Queries with
        several writes may have a name for each.
        """
        if not topics:
            return
        ledgers = [ledger for ledger in self._ledgers(claim) if ledger.topic in topics]
        own = [ledger for ledger in ledgers if ledger.writer == claim.writer and ledger.task != task]
        for ledger, entry in sorted(self._entries(claim, own).items()):
            if (why := refusal(entry, ledger.name, claim)) is not None:
                raise ReplayMismatchError(why)
        # One-off writes leave many ledgers, so those are looked at by the task of their number alone.
        others = [
            ledger
            for ledger in ledgers
            if ledger.writer != claim.writer and (ledger.task == task or not is_one_off(ledger.writer))
        ]
        for ledger, entry in sorted(self._entries(claim, others if is_only_write else ()).items()):
            if (why := renaming(ledger, entry, claim)) is not None:
                raise ReplayMismatchError(why)

    def _entries(self, claim: Claim, ledgers: Collection[WriterTask]) -> dict[WriterTask, LedgerEntry]:
        """The entries of some of :meth:`_ledgers`; each is read once in this process."""
        if not ledgers:
            return {}
        known = self._looks[claim.writer].entries
        asked = [ledger for ledger in ledgers if ledger not in known]
        known.update(dict.fromkeys(asked) | entries_of(self._connection, asked, _TIMEOUT))
        return {ledger: entry for ledger in ledgers if (entry := known[ledger]) is not None}

    def _ledgers(self, claim: Claim) -> frozenset[WriterTask]:
        """The ledgers that there are in the first batch of a run; none in a later one, which cannot be a replay."""
        origin, look = claim.origin, self._looks.get(claim.writer)
        # Without a run's id it is not known which batch is the first (D-069).
        same_run = look is not None and look.run == origin.run != ""
        first = look.first if look is not None and same_run else claim.sequence
        if claim.sequence != first:
            if look is not None and look.ledgers:
                self._looks[claim.writer] = look._replace(ledgers=frozenset(), entries={})
            return frozenset()
        if look is None or look.execution != origin.execution:
            ledgers = all_ledgers(self._connection, _TIMEOUT)
            look = self._looks[claim.writer] = _Look(origin.run, first, origin.execution, ledgers, {})
        return look.ledgers


def check_attempt(connection: Connection, reports: Sequence[TaskReport]) -> None:
    """Raises ReplayMismatchError if tasks that are not among ``reports`` have committed rows of the same batch, or those
    that are to other topics.
    """
    if not reports or not reports[0].claim.replayable or any(report.settled for report in reports):
        return
    claim = reports[0].claim
    topics = {topic for report in reports for topic in report.topics}
    covered = {WriterTask(topic, claim.writer, report.task) for report in reports for topic in report.topics}
    _check(connection, claim, ledgers_of(connection, claim.writer, _TIMEOUT) - covered, topics)


def _check(
    connection: Connection, claim: Claim, ledgers: Collection[WriterTask], topics: Collection[str]
) -> None:
    if not claim.origin.by_column:
        ledgers = [ledger for ledger in ledgers if ledger.topic in topics]
    for ledger, entry in sorted(
        entries_of_others(entries_of(connection, ledgers, _TIMEOUT), topics, claim).items()
    ):
        if (why := refusal(entry, ledger.name, claim)) is not None:
            raise ReplayMismatchError(why)
        if not claim.accepted:
            raise ReplayMismatchError(complaint(ledger, entry, claim))
        _LOG.warning(
            "%s: batch %d of task %s: the %d rows committed before stay, this attempt has none for it",
            ACCEPT_OPTION,
            claim.sequence,
            ledger.name,
            entry.fingerprint.rows,
        )
