"""What ``kafka-log-dirs.sh --describe`` prints (``org.apache.kafka.tools.LogDirsCommand`` of Kafka 4.3), byte for byte. PURE."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from spark_ordered_kafka.cli.java_maps import integer_order, map_order, partition_hash, string_hash
from spark_ordered_kafka.errors import ErrorCode

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import BrokerLogDirs, LogDirReplica, LogDirView

QUERYING: Final = "Querying brokers for log directories information"
"""Its first line, printed before any broker has answered."""

# Classes of org.apache.kafka.common.errors.
_EXCEPTIONS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.LOG_DIR_NOT_FOUND: "LogDirNotFoundException",
}
_OTHER_EXCEPTION = "UnknownServerException"


def answered(
    brokers: Sequence[BrokerLogDirs], topics: Collection[str], paths: Collection[str] = ()
) -> list[str]:
    """The other lines.

    Args:
        brokers: all that were asked, in the order of ``--broker-list``, with all log directories and replicas in the order of
            their answers: what is left out would change the order of the rest.
        topics: of ``--topic-list``; empty: all.
        paths: log directories that are not left out, which Kafka's tool has no option for; empty: all.
    """
    ids = [row.broker for row in brokers]
    # The set of --broker-list, and a copy, which has a table of at least 16.
    existing = integer_order(integer_order(ids), max(16, _copied(len(ids))))
    # Through the AdminClient's map of futures and a copy of that.
    futures = integer_order(integer_order(existing, len(ids)), _copied(len(ids)))
    by_id = {row.broker: row for row in brokers}
    printed = [
        {"broker": broker, "logDirs": _log_dirs(by_id[broker], topics, paths)}
        for broker in integer_order(futures, len(ids))
    ]
    document = {"brokers": printed, "version": 1}
    return [
        f"Received log directory information from brokers {','.join(map(str, existing))}",
        json.dumps(document, separators=(",", ":"), ensure_ascii=False),
    ]


def _copied(count: int) -> int:
    """The capacity of a ``HashMap`` or ``HashSet`` that is made as a copy, in Java up to 18."""
    return int(count / 0.75 + 1)


def _log_dirs(broker: BrokerLogDirs, topics: Collection[str], paths: Collection[str]) -> list[dict[str, Any]]:
    codes = [string_hash(row.path) for row in broker.log_dirs]
    rows = map_order(broker.log_dirs, codes, len(codes))
    return [
        {"partitions": _partitions(row, topics), "error": _error(row), "logDir": row.path}
        for row in rows
        if not paths or row.path in paths
    ]


def _partitions(log_dir: LogDirView, topics: Collection[str]) -> list[dict[str, Any]]:
    # From a map with all of them into one with those that are asked for.
    answered = _in_order(log_dir.partitions)
    rows = _in_order([row for row in answered if not topics or row.topic in topics])
    return [
        {
            "partition": f"{row.topic}-{row.partition}",
            "size": row.size,
            "offsetLag": row.offset_lag,
            "isFuture": row.is_temporary,
        }
        for row in rows
    ]


def _in_order(rows: Sequence[LogDirReplica]) -> list[LogDirReplica]:
    return map_order(rows, [partition_hash(row.topic, row.partition) for row in rows])


def _error(log_dir: LogDirView) -> str | None:
    if log_dir.error_code == ErrorCode.NONE:
        return None
    name = _EXCEPTIONS.get(ErrorCode(log_dir.error_code), _OTHER_EXCEPTION)
    return f"org.apache.kafka.common.errors.{name}"
