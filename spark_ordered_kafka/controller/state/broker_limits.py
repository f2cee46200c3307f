"""Limits of brokers in ZooKeeper: ``/brokers/ids/<id>``, in the format of KIP-578."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from spark_ordered_kafka.controller.placement.guards import UNLIMITED
from spark_ordered_kafka.controller.zk.records import Record, dump, parse
from spark_ordered_kafka.controller.zk.session import ROOT, ConflictError, Session

BROKERS = f"{ROOT}/brokers/ids"
_CAS_ATTEMPTS = 5


class GuardRails(BaseModel):
    """What a broker may be asked for."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    max_partitions: int = Field(ge=0, le=UNLIMITED)


class BrokerRecord(Record):
    """``/brokers/ids/<id>``; ``rack`` is the broker's when the limit was set."""

    version: int = 5
    rack: str | None = None
    guard_rails: GuardRails


@dataclass(frozen=True)
class Limits:
    """``max_partitions`` of brokers: the ``default``, and of those that have one of their own, their ``records``."""

    default: int
    records: Mapping[int, BrokerRecord]

    @property
    def unlimited(self) -> bool:
        """Whether no broker has a limit, so that nobody need know what they host."""
        return self.default == UNLIMITED and not self.records

    def of(self, broker: int) -> int:
        """The limit of one broker."""
        record = self.records.get(broker)
        return self.default if record is None else record.guard_rails.max_partitions


class BrokerLimits:
    """Reads and guarded writes of the limits; ``default`` is ``max.broker.partitions``. Safe to share between threads.

    Raises UnavailableError when ZooKeeper does not answer, and DeposedError when a write is not this controller's to
    make.
    """

    def __init__(self, session: Session, default: int) -> None:
        self._session = session
        self.default = default

    def read(self) -> Limits:
        """The limits as they are now; a linearizable read."""
        self._session.sync()
        records = {
            int(broker): parse(BrokerRecord, data, f"{BROKERS}/{broker}")
            for broker, data in self._session.children(BROKERS).items()
        }
        return Limits(self.default, records)

    def set(self, broker: int, rack: str | None, max_partitions: int | None) -> None:
        """Limit a broker to ``max_partitions`` replicas, 0 to 2^31 - 1; None takes it back to the default."""
        path = f"{BROKERS}/{broker}"
        for _ in range(_CAS_ATTEMPTS):
            found = self._session.read(path)
            if found is None and max_partitions is None:
                return
            transaction = self._session.transaction()
            if max_partitions is None:
                transaction.delete(path, version=-1 if found is None else found[1])
            else:
                data = dump(BrokerRecord(rack=rack, guard_rails=GuardRails(max_partitions=max_partitions)))
                if found is None:
                    transaction.create(path, data)
                else:
                    transaction.set_data(path, data, version=found[1])
            try:
                self._session.commit(transaction, path)
            except ConflictError:
                continue
            return
        raise ConflictError(path)
