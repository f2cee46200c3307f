"""Where replicas are that are to be in given log directories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from spark_ordered_kafka.cli.units import shown_bytes
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ReplicaLogDir, ReplicaLogDirView
from spark_ordered_kafka.errors import ErrorCode, RequestError

_TOPICS_LENGTH = 30_000
"""Characters of topics' names in one request: a query has room for twice as many."""

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)

Status = Literal["completed", "in_progress", "differs", "unknown"]


@dataclass(frozen=True)
class Placement:
    """A replica with its wanted and its current log directory."""

    wanted: ReplicaLogDir
    view: ReplicaLogDirView

    @property
    def status(self) -> Status:
        """``in_progress``: a temporary replica is in the right directory; ``unknown``: the broker gave no directory."""
        current, temporary = self.view.current_replica_log_dir, self.view.temporary_replica_log_dir
        if temporary is not None:
            return "in_progress" if temporary == self.wanted.log_dir else "differs"
        if current is None:
            return "unknown"
        return "completed" if current == self.wanted.log_dir else "differs"

    @property
    def text(self) -> str:
        """The status in words."""
        view, status = self.view, self.status
        if status == "completed":
            return "is there"
        if status == "unknown":
            return f"not known: {view.error}: {view.error_message}"
        if view.temporary_replica_log_dir is None:
            return f"is in {view.current_replica_log_dir}"
        to = "" if status == "in_progress" else f" to {view.temporary_replica_log_dir}"
        return (
            f"is being moved{to} from {view.current_replica_log_dir}: "
            f"{shown_bytes(view.temporary_replica_size or 0)} of {shown_bytes(view.current_replica_size or 0)}, "
            f"lag {view.temporary_replica_offset_lag}"
        )


def placements(client: ControllerClient, rows: Sequence[ReplicaLogDir]) -> list[Placement]:
    """Current log directories of the replicas. For a missing one, the view has the error."""
    refused: dict[str, RequestError] = {}
    partitions = [row.partition for row in rows] if len(rows) == 1 else []

    def ask(topics: Sequence[str]) -> list[ReplicaLogDirView]:
        """For each topic alone after several were refused."""
        try:
            return client.replica_log_dirs(topics=topics, partitions=partitions).replicas
        except RequestError as error:
            if error.code not in _UNKNOWN:
                raise
            if len(topics) > 1:
                return [view for topic in topics for view in ask([topic])]
            refused[topics[0]] = error
            return []

    chunks = _chunks(list(dict.fromkeys(row.topic for row in rows)))
    found = {(view.topic, view.partition, view.broker): view for topics in chunks for view in ask(topics)}
    return [
        Placement(
            row, found.get((row.topic, row.partition, row.broker)) or _absent(row, refused.get(row.topic))
        )
        for row in rows
    ]


def _chunks(topics: Sequence[str]) -> Iterator[list[str]]:
    """The topics in pieces that a query has room for."""
    some, length = list[str](), 0
    for topic in topics:
        if some and length + len(topic) > _TOPICS_LENGTH:
            yield some
            some, length = [], 0
        some.append(topic)
        length += len(topic) + 1
    yield some


def _absent(row: ReplicaLogDir, error: RequestError | None) -> ReplicaLogDirView:
    if error is None:
        error = RequestError(
            ErrorCode.REPLICA_NOT_AVAILABLE,
            f"partition {row.topic}-{row.partition} has no replica on broker {row.broker}",
        )
    return ReplicaLogDirView(
        topic=row.topic,
        partition=row.partition,
        broker=row.broker,
        error_code=error.code,
        error=error.name,
        error_message=error.message,
        current_replica_log_dir=None,
        temporary_replica_log_dir=None,
        temporary_replica_offset_lag=None,
    )
