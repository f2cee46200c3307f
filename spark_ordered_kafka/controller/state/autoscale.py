"""What automatic partition counts have decided and requested, in ZooKeeper: ``/autoscale/<topic>``."""

from __future__ import annotations

import logging

from kazoo.client import TransactionRequest
from pydantic import BaseModel, Field

from spark_ordered_kafka.client.schemas.autoscale import AutoscaleChange, AutoscaleDecision
from spark_ordered_kafka.controller.state.replacing import create_or_replace
from spark_ordered_kafka.controller.zk.records import OPEN, Record, UnreadableRecordError, parse
from spark_ordered_kafka.controller.zk.session import ROOT, Session

AUTOSCALE = f"{ROOT}/autoscale"

_log = logging.getLogger(__name__)


class DecisionEntry(AutoscaleDecision):
    """A decision, with what a newer controller says of it."""

    model_config = OPEN


class ChangeEntry(AutoscaleChange):
    """A change that was requested, with what a newer controller says of it."""

    model_config = OPEN


class ReadingEntry(BaseModel):
    """Records per second that a group which was behind read of its busiest partition."""

    model_config = OPEN

    at: float
    rate: float


class AutoscaleRecord(Record):
    """``/autoscale/<topic>``. ``changes`` are written before they are requested, so that another controller counts them.

    ``decisions`` are the last ones, the newest first. ``review_id``: the review that the last change waits in, or waited in.
    """

    topic_id: str
    changes: tuple[ChangeEntry, ...] = ()
    decisions: tuple[DecisionEntry, ...] = ()
    readings: dict[str, ReadingEntry] = Field(default_factory=dict)
    review_id: int | None = None


class AutoscaleStore:
    """Reads and guarded writes. Safe to share between threads.

    Raises ZooKeeperError when ZooKeeper does not answer, and DeposedError when this controller does not lead any more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def all(self) -> dict[str, AutoscaleRecord]:
        """The record of every topic that has one; what cannot be read is left out."""
        self._session.sync()
        found = {}
        for topic, data in self._session.children(AUTOSCALE).items():
            try:
                found[topic] = parse(AutoscaleRecord, data, f"{AUTOSCALE}/{topic}")
            except UnreadableRecordError as error:
                _log.warning("topic %s: %s", topic, error.message)
        return found

    def write(self, topic: str, record: AutoscaleRecord) -> None:
        """Create or replace a topic's record. Raises NewerRecordError for one that only a newer controller understands."""
        create_or_replace(self._session, f"{AUTOSCALE}/{topic}", record)

    def delete(self, topic: str) -> None:
        """Delete the record of a topic that is no longer under management."""
        path = f"{AUTOSCALE}/{topic}"

        def fill(transaction: TransactionRequest) -> None:
            found = self._session.read(path)
            if found is not None:
                transaction.delete(path, version=found[1])

        self._session.compare_and_set(path, fill)
