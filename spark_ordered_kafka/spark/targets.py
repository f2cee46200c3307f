"""What planning a write asks the controllers and brokers; its tasks need none of it."""

from __future__ import annotations

from functools import lru_cache, partial

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.topics import checked_cluster
from spark_ordered_kafka.client.writer_names import LeasedName, lease_name, return_name
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.property_checks import check_writer
from spark_ordered_kafka.kafka.ranges import LogRanges
from spark_ordered_kafka.spark.options import SinkOptions

# Seconds. Without an answer the write makes a name up (D-075).
_NAME_TIMEOUT = 3.0


def check_target(connection: Connection, topic: str | None, *, once: bool) -> None:
    """Ask for the topic when a write is planned, so that a wrong one, or a controller that does not answer, fails it there
    and not in a task.

    ``once``: in this process; enough where tasks keep their producers, and so their layouts, between micro-batches.
    """
    (_ask_once if once else _ask)(connection, topic)


def leased_name(options: SinkOptions) -> LeasedName:
    """A name for a one-off write."""
    with ControllerClient.of(options.connection, timeout=_NAME_TIMEOUT) as controller:
        return lease_name(controller, options.topic)


def give_back(connection: Connection, name: LeasedName) -> None:
    """Let another write have the name."""
    with ControllerClient.of(connection, timeout=_NAME_TIMEOUT) as controller:
        return_name(controller, name)


def _ask(connection: Connection, topic: str | None) -> None:
    known = _cluster_id(connection)
    with ControllerClient.of(connection) as controller:
        if topic is None:
            controller.topics()
        else:
            managed = controller.topic(topic).cluster_id
            if managed != known:
                _cluster_id.cache_clear()
            checked_cluster(connection, managed, known, partial(_cluster_id, connection))


_ask_once = lru_cache(maxsize=64)(_ask)


@lru_cache(maxsize=64)
def _cluster_id(connection: Connection) -> str:
    check_writer(connection.kafka, "option kafka.")
    with LogRanges(connection) as ranges:
        return ranges.cluster_id()
