"""What ``kafka-log-dirs.sh --describe`` prints (``org.apache.kafka.tools.LogDirsCommand`` of Kafka 4.3), in a plain order. PURE."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_ordered_kafka.errors import ErrorCode

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import BrokerLogDirs, LogDirView

QUERYING: Final = "Querying brokers for log directories information"
"""Its first line, printed before any broker has answered."""

# Classes of org.apache.kafka.common.errors.
_EXCEPTIONS: dict[int, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.LOG_DIR_NOT_FOUND: "LogDirNotFoundException",
}
_OTHER_EXCEPTION = "UnknownServerException"


def answered(
    brokers: Iterable[BrokerLogDirs], topics: Collection[str], paths: Collection[str] = ()
) -> list[str]:
    """The other lines: which brokers answered, and a JSON document with the members and values of Kafka's.

    Brokers are in the order of their ids, log directories of their paths, replicas of topic and partition; Kafka's tool has
    all three in the order of Java's hash maps.

    Args:
        brokers: all that were asked.
        topics: of ``--topic-list``; empty: all.
        paths: log directories that are not left out, which Kafka's tool has no option for; empty: all.
    """
    rows = sorted(brokers, key=lambda row: row.broker)
    printed = [{"broker": row.broker, "logDirs": _log_dirs(row, topics, paths)} for row in rows]
    return [
        f"Received log directory information from brokers {','.join(str(row.broker) for row in rows)}",
        json.dumps({"brokers": printed, "version": 1}, separators=(",", ":"), ensure_ascii=False),
    ]


def _log_dirs(broker: BrokerLogDirs, topics: Collection[str], paths: Collection[str]) -> list[dict[str, Any]]:
    return [
        {"partitions": _partitions(row, topics), "error": _error(row), "logDir": row.path}
        for row in sorted(broker.log_dirs, key=lambda row: row.path)
        if not paths or row.path in paths
    ]


def _partitions(log_dir: LogDirView, topics: Collection[str]) -> list[dict[str, Any]]:
    return [
        {
            "partition": f"{row.topic}-{row.partition}",
            "size": row.size,
            "offsetLag": row.offset_lag,
            "isFuture": row.is_temporary,
        }
        for row in sorted(log_dir.partitions, key=lambda row: (row.topic, row.partition))
        if not topics or row.topic in topics
    ]


def _error(log_dir: LogDirView) -> str | None:
    if log_dir.error_code == ErrorCode.NONE:
        return None
    name = _EXCEPTIONS.get(log_dir.error_code, _OTHER_EXCEPTION)
    return f"org.apache.kafka.common.errors.{name}"
