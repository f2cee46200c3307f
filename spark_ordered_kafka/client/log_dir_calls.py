"""Calls of the controller's HTTP API about log directories (KIP-113) and the status of replicas (KIP-179)."""

from __future__ import annotations

from collections.abc import Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.typed import Calls
from spark_ordered_kafka.client.waits import DRAIN_TIMEOUT

_REPLICAS = "/v1/replica-log-dirs"


class LogDirCalls(Calls):
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise.

    An empty filter stands for all. What a filter names and does not exist is refused. ``timeout_ms`` is what brokers have to
    answer: the rows of those that do not have their error.
    """

    def log_dirs(
        self,
        *,
        brokers: Sequence[int] = (),
        log_dirs: Sequence[str] = (),
        topics: Sequence[str] = (),
        timeout_ms: int | None = None,
    ) -> schemas.LogDirList:
        """Log directories with their replicas (describeLogDirs); one that a broker has not is there, LOG_DIR_NOT_FOUND."""
        return self._get(
            schemas.LogDirList,
            "/v1/log-dirs",
            broker=brokers,
            log_dir=log_dirs,
            topic=topics,
            timeout_ms=timeout_ms,
            extra_timeout=_patience(timeout_ms),
        )

    def replica_log_dirs(
        self,
        *,
        topics: Sequence[str] = (),
        partitions: Sequence[int] = (),
        brokers: Sequence[int] = (),
        timeout_ms: int | None = None,
    ) -> schemas.ReplicaLogDirList:
        """Where replicas are, and where they are being moved to (describeReplicaLogDirs).

        ``partitions`` are those of each of ``topics``.
        """
        return self._get(
            schemas.ReplicaLogDirList,
            _REPLICAS,
            topic=topics,
            partition=partitions,
            broker=brokers,
            timeout_ms=timeout_ms,
            extra_timeout=_patience(timeout_ms),
        )

    def alter_replica_log_dirs(self, request: schemas.ReplicaLogDirsRequest) -> schemas.ReplicaLogDirsResult:
        """Begin to move replicas to other log directories of their brokers, all or none (alterReplicaLogDirs).

        They are a request to reassign partitions, which :meth:`reassignment` shows and :meth:`cancel_reassignment` takes back.
        A replica that is named with the directory in which it is stays there: a move of it ends.
        """
        return self._post(schemas.ReplicaLogDirsResult, _REPLICAS, request, repeatable=True)

    def replica_status(
        self, *, topics: Sequence[str] = (), partitions: Sequence[int] = (), brokers: Sequence[int] = ()
    ) -> schemas.ReplicaStatusList:
        """How many records replicas are behind their leaders (replicaStatus); filters as of :meth:`replica_log_dirs`."""
        wanted = {"topic": topics, "partition": partitions, "broker": brokers}
        return self._get(
            schemas.ReplicaStatusList, "/v1/replica-status", **wanted, extra_timeout=DRAIN_TIMEOUT
        )


def _patience(timeout_ms: int | None) -> float:
    """Topics and brokers are looked up before; brokers then have their own time."""
    return DRAIN_TIMEOUT + (0 if timeout_ms is None else timeout_ms / 1000)
