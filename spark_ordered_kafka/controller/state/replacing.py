"""Writing a record whose earlier value does not matter."""

from __future__ import annotations

from kazoo.client import TransactionRequest

from spark_ordered_kafka.controller.zk.records import Record, dump, owned, parse
from spark_ordered_kafka.controller.zk.session import Session


def create_or_replace(session: Session, path: str, record: Record) -> None:
    """A guarded write. Raises NewerRecordError where a record is there that only a newer controller understands."""

    def fill(transaction: TransactionRequest) -> None:
        found = session.read(path)
        if found is None:
            transaction.create(path, dump(record))
            return
        owned(parse(type(record), found[0], path), path)
        transaction.set_data(path, dump(record), version=found[1])

    session.compare_and_set(path, fill)
