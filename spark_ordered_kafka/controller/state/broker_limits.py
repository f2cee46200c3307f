"""Limits of brokers in ZooKeeper: ``/brokers/ids/<id>``, in the format of KIP-578."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kazoo.client import TransactionRequest
from pydantic import BaseModel, Field

from spark_ordered_kafka.controller.placement.guards import UNLIMITED
from spark_ordered_kafka.controller.zk.records import OPEN, Record, dump, number, owned, parse
from spark_ordered_kafka.controller.zk.session import ROOT, Session
from spark_ordered_kafka.updates import updated

BROKERS = f"{ROOT}/brokers/ids"


class GuardRails(BaseModel):
    """Limits of a broker."""

    model_config = OPEN

    max_partitions: int = Field(ge=0, le=UNLIMITED)


class BrokerRecord(Record):
    """``/brokers/ids/<id>``; ``rack`` is the broker's when the limit was set."""

    version: int = 5
    rack: str | None = None
    guard_rails: GuardRails


@dataclass(frozen=True)
class Limits:
    """``max_partitions`` of brokers: the ``default``, and the ``records`` of brokers with their own."""

    default: int
    records: Mapping[int, BrokerRecord]

    @property
    def unlimited(self) -> bool:
        """Whether no broker has a limit; the number of hosted replicas is then not needed."""
        return self.default == UNLIMITED and not self.records

    def of(self, broker: int) -> int:
        """The limit of one broker."""
        record = self.records.get(broker)
        return self.default if record is None else record.guard_rails.max_partitions


class BrokerLimits:
    """Reads and guarded writes of the limits; ``default`` is ``max.broker.partitions``. Safe to share between threads.

    Raises UnavailableError when ZooKeeper does not answer, and DeposedError when this controller does not lead
    any more.
    """

    def __init__(self, session: Session, default: int) -> None:
        self._session = session
        self.default = default

    def read(self) -> Limits:
        """The limits as they are now; a linearizable read."""
        self._session.sync()
        records = {
            number(broker, f"{BROKERS}/{broker}"): parse(BrokerRecord, data, f"{BROKERS}/{broker}")
            for broker, data in self._session.children(BROKERS).items()
        }
        return Limits(self.default, records)

    def set(self, broker: int, rack: str | None, max_partitions: int | None) -> None:
        """Limit a broker to ``max_partitions`` replicas, 0 to 2^31 - 1; None: the default.

        Raises NewerRecordError for a record that only a newer controller understands.
        """
        path = f"{BROKERS}/{broker}"

        def fill(transaction: TransactionRequest) -> None:
            found = self._session.read(path)
            known = None if found is None else owned(parse(BrokerRecord, found[0], path), path)
            if max_partitions is None:
                if found is not None:
                    transaction.delete(path, version=found[1])
            elif known is None or found is None:
                guard_rails = GuardRails(max_partitions=max_partitions)
                transaction.create(path, dump(BrokerRecord(rack=rack, guard_rails=guard_rails)))
            else:
                guard_rails = updated(known.guard_rails, max_partitions=max_partitions)
                transaction.set_data(
                    path, dump(updated(known, rack=rack, guard_rails=guard_rails)), version=found[1]
                )

        self._session.compare_and_set(path, fill)
