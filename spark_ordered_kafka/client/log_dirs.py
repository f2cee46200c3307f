"""Calls of the controller's HTTP API about log directories (KIP-113) and the status of replicas (KIP-179)."""

from __future__ import annotations

from collections.abc import Sequence

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.transport import Transport
from spark_ordered_kafka.client.waits import DRAIN_TIMEOUT, patience_of

_REPLICAS = "/v1/replica-log-dirs"


class LogDirCalls:
    """Part of :class:`~spark_ordered_kafka.client.controller.ControllerClient`, which says what they raise.

    An empty filter stands for all. What a filter names and does not exist is refused.
    """

    _transport: Transport

    def log_dirs(
        self, *, brokers: Sequence[int] = (), log_dirs: Sequence[str] = (), topics: Sequence[str] = ()
    ) -> schemas.LogDirList:
        """Log directories with their replicas (describeLogDirs)."""
        params = _filters(broker=brokers, log_dir=log_dirs, topic=topics)
        return self._transport.ask(
            schemas.LogDirList, "GET", "/v1/log-dirs", params=params, extra_timeout=DRAIN_TIMEOUT
        )

    def replica_log_dirs(
        self, *, topics: Sequence[str] = (), partitions: Sequence[int] = (), brokers: Sequence[int] = ()
    ) -> schemas.ReplicaLogDirList:
        """Where replicas are, and where they are being moved to (describeReplicaLogDirs).

        ``partitions`` are those of each of ``topics``.
        """
        params = _filters(topic=topics, partition=partitions, broker=brokers)
        return self._transport.ask(
            schemas.ReplicaLogDirList, "GET", _REPLICAS, params=params, extra_timeout=DRAIN_TIMEOUT
        )

    def alter_replica_log_dirs(self, request: schemas.ReplicaLogDirsRequest) -> schemas.ReplicaLogDirsResult:
        """Begin to move replicas to other log directories of their brokers, all or none (alterReplicaLogDirs).

        A replica that is named with the directory in which it is stays there: a move of it ends.
        """
        return self._transport.ask(
            schemas.ReplicaLogDirsResult,
            "POST",
            _REPLICAS,
            body=request,
            extra_timeout=patience_of(None),
            repeatable=True,
        )

    def replica_status(
        self, *, topics: Sequence[str] = (), partitions: Sequence[int] = (), brokers: Sequence[int] = ()
    ) -> schemas.ReplicaStatusList:
        """How many records replicas are behind their leaders (replicaStatus); filters as of :meth:`replica_log_dirs`."""
        params = _filters(topic=topics, partition=partitions, broker=brokers)
        return self._transport.ask(
            schemas.ReplicaStatusList, "GET", "/v1/replica-status", params=params, extra_timeout=DRAIN_TIMEOUT
        )


def _filters(**filters: Sequence[object]) -> dict[str, str]:
    return {name: ",".join(map(str, values)) for name, values in filters.items() if values}
