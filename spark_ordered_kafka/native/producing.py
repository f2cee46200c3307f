"""Queueing records of one topic in librdkafka, each in the partition of its key.

The kernel does so for whole columns without Python's lock; Python gives confluent-kafka a dict per record (D-109), also
where records have timestamps (D-267).
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from spark_ordered_kafka.native.contents import Records, objects
from spark_ordered_kafka.native.loading import kernel
from spark_ordered_kafka.ordering.routing import Routing, rows_by_partition

# What is made of them for librdkafka fits into the processor's cache: with 5,000 sending takes a tenth longer.
_PART_ROWS = 2_000


class Headroom(NamedTuple):
    """How much may be queued."""

    rows: int
    size: int


class Queued(NamedTuple):
    """What was queued: records, their bytes, those of the largest; and whose turn it is after that."""

    rows: int
    size: int
    largest: int
    turn: int


def produce(
    producer: Producer,
    topic: str,
    routing: Routing,
    turn: int,
    records: Records,
    start: int,
    headroom: Headroom,
) -> Queued:
    """Queue records from the ``start``-th on, as many as there is room for, and at least one.

    Those of one partition keep their order. Null keys take turns over all partitions, of which the next is ``turn``.
    None and empty keys and values stay different. The delivery of such records is not reported; the producer must have
    no default delivery callback.

    Raises KafkaException when a record is refused, because the queue is full, say. Others may have been queued by then,
    also later ones of its partition, so the transaction must be given up.
    """
    native = kernel()
    if native is None or records.timestamps is not None:
        return _produce(producer, topic, routing, turn, records, start, headroom)
    rows, size, largest, turn, error, _ = native.produce(
        producer,
        topic,
        (routing.hash, routing.initial_count, routing.count),
        turn,
        records.keys,
        records.values,
        records.headers,
        start,
        *headroom,
    )
    if error:
        raise KafkaException(KafkaError(error))
    return Queued(rows, size, largest, turn)


def queue_rows(producer: Producer, topic: str, partition: int, rows: list[dict[str, Any]]) -> None:
    """Queue rows of confluent-kafka's field names for one partition, in order; all of them have headers, or none.

    Raises KafkaException when one is refused; others may have been queued by then.
    """
    if not rows or "headers" not in rows[0]:
        # A partition named in a row would be ignored: confluent-kafka passes one for the whole call (D-111).
        if producer.produce_batch(topic, rows, partition) < len(rows):
            raise KafkaException(next(row["_error"] for row in rows if "_error" in row))
        return
    send = producer.produce
    try:
        for row in rows:
            send(topic, partition=partition, **row)
    except BufferError as error:
        raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from error


def _produce(
    producer: Producer,
    topic: str,
    routing: Routing,
    turn: int,
    records: Records,
    start: int,
    headroom: Headroom,
) -> Queued:
    part = slice(start, start + max(1, min(headroom.rows, _PART_ROWS)))
    rows = _rows(records, part)
    sizes = list(map(_size, rows))
    count = max(1, sum(total <= headroom.size for total in accumulate(sizes)))
    rows, sizes = rows[:count], sizes[:count]
    partitions, turn = routing.partitions_in_turn([row["key"] for row in rows], turn)
    for partition, indices in rows_by_partition(partitions):
        queue_rows(producer, topic, partition, [rows[index] for index in indices.tolist()])
    return Queued(count, sum(sizes), max(sizes), turn)


def _rows(records: Records, part: slice) -> list[dict[str, Any]]:
    rows = [
        {"key": key, "value": value}
        for key, value in zip(objects(records.keys[part]), objects(records.values[part]), strict=True)
    ]
    if records.headers is not None:
        for row, headers in zip(rows, objects(records.headers[part]), strict=True):
            row["headers"] = [(header["key"], header["value"]) for header in headers or ()]
    if records.timestamps is not None:
        for row, timestamp in zip(rows, objects(records.timestamps[part]), strict=True):
            # 0 is the time of sending; below it are records that have none.
            row["timestamp"] = max(timestamp or 0, 0)
            # confluent-kafka's batches take no timestamps; rows with headers go one by one.
            row.setdefault("headers", [])
    return rows


def _size(row: dict[str, Any]) -> int:
    texts = [row["key"], row["value"]]
    for key, value in row.get("headers", ()):
        texts += (key.encode(), value)
    return sum(len(text) for text in texts if text is not None)
