"""What a program's topics hold, for the judge: read without the clients under test."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import Message

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.topic_layouts import layout_history
from spark_ordered_kafka.local import LocalCluster
from tests.programs import prelude
from tests.programs.books import Record
from tests.streams import raw_records


def read_log(
    cluster: LocalCluster,
    topic: str,
    *,
    deleted: Mapping[tuple[int, int], Record] = MappingProxyType({}),
    decided: bool = True,
) -> list[Record]:
    """What a topic holds, records of a key in the order of writing.

    ``deleted``: what it has held. ``decided``: see :func:`tests.streams.raw_records`.
    """
    with ControllerClient(cluster.controller_url) as controller:
        history = layout_history(controller.layout(topic))
    messages = raw_records(cluster, topic, history.partition_count, decided=decided)
    there = [_record(topic, message) for message in messages]
    found = {(one.partition, one.offset): one for one in there} | dict(deleted)
    return sorted(found.values(), key=lambda one: (history.epoch_of(one.partition, one.offset), one[1:3]))


def _record(topic: str, message: Message) -> Record:
    key: Any = message.key()
    number = prelude.number_of(message)
    # What another tool writes has no order, since it lies anywhere.
    key = None if key is None or number.startswith("f") else key.decode()
    return Record(topic, message.partition() or 0, message.offset() or 0, key, number)
