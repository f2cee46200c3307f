"""What self-healing has seen, decided and requested, in ZooKeeper: ``/healing``."""

from __future__ import annotations

from pydantic import BaseModel, Field

from spark_ordered_kafka.client.schemas import Open
from spark_ordered_kafka.client.schemas.healing import HealingAction, HealingKind, HealingOutcome, HealingRule
from spark_ordered_kafka.controller.state.replacing import create_or_replace
from spark_ordered_kafka.controller.zk.records import OPEN, Record, parse
from spark_ordered_kafka.controller.zk.session import ROOT, Session

HEALING = f"{ROOT}/healing"


class ConditionEntry(BaseModel):
    """Something that has not been as it should be since ``since``."""

    model_config = OPEN

    kind: Open[HealingKind]
    subject: str
    since: float


class HealingRequestEntry(BaseModel):
    """An action that was requested."""

    model_config = OPEN

    at: float
    action: Open[HealingAction]


class HealingEntry(BaseModel):
    """What became of a proposal, as the API shows it."""

    model_config = OPEN

    at: float
    action: Open[HealingAction]
    brokers: tuple[int, ...]
    outcome: Open[HealingOutcome]
    held_by: Open[HealingRule] | None = None
    reason: str
    partitions: int | None = None
    bytes_to_move: int | None = None
    request_id: int | None = None


class HealingRecord(Record):
    """``/healing``. ``requests`` are written before they are made, so that another controller counts them.

    ``observed_at``: about when ``conditions`` were last seen, 0 if it was never stored. ``tried``: when an action was last
    planned without anything to request. ``history`` has the last decisions, the newest first.
    ``standing``: the last decision about each proposal that stands. ``request_id`` and ``review_id``: the reassignment and the
    review that the last request became, until they have ended.
    """

    conditions: tuple[ConditionEntry, ...] = ()
    observed_at: float = 0.0
    requests: tuple[HealingRequestEntry, ...] = ()
    tried: dict[str, float] = Field(default_factory=dict)
    standing: tuple[HealingEntry, ...] = ()
    history: tuple[HealingEntry, ...] = ()
    request_id: int | None = None
    review_id: int | None = None


class HealingStore:
    """Reads and guarded writes. Safe to share between threads.

    Raises ZooKeeperError when ZooKeeper does not answer, and DeposedError when this controller does not lead any more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self) -> HealingRecord:
        """The record, or an empty one. Raises UnreadableRecordError."""
        self._session.sync()
        found = self._session.read(HEALING)
        return HealingRecord() if found is None else parse(HealingRecord, found[0], HEALING)

    def write(self, record: HealingRecord) -> None:
        """Create or replace it. Raises NewerRecordError for one that only a newer controller understands."""
        create_or_replace(self._session, HEALING, record)
