"""Log directories of brokers (KIP-113)."""

from __future__ import annotations

from pydantic import Field

from spark_ordered_kafka.client.schemas.base import Answer, Int32, Many, Request, Result, TimeoutMs
from spark_ordered_kafka.client.schemas.reassignments import Rate


class LogDirReplica(Answer):
    """A replica in a log directory; ``size`` in bytes. ``is_temporary``: a copy that is to take another's place.

    ``offset_lag``: records behind the high watermark; of a temporary one, behind the replica that it is to replace.
    """

    topic: str
    partition: int
    size: int
    offset_lag: int
    is_temporary: bool


class LogDirView(Result):
    """A log directory; one that is offline says why in ``error``. Bytes are None of brokers before Kafka 3.3.

    One that was asked for and that the broker does not have is not live either: LOG_DIR_NOT_FOUND.
    ``is_cordoned``: it keeps what it has and gets no more replicas (KIP-1066).
    """

    path: str
    is_live: bool
    is_cordoned: bool = False
    total_bytes: int | None = None
    usable_bytes: int | None = None
    partitions: list[LogDirReplica]


class BrokerLogDirs(Result):
    """A broker's log directories; ``error`` when it did not answer."""

    broker: int
    log_dirs: list[LogDirView]


class LogDirList(Answer):
    """``GET /v1/log-dirs``."""

    version: int = 1
    brokers: list[BrokerLogDirs]


class ReplicaLogDir(Request):
    """A replica and the log directory that it is to be in: an absolute path."""

    topic: str
    partition: Int32
    broker: Int32
    log_dir: str


class ReplicaLogDirsRequest(Request):
    """``POST /v1/replica-log-dirs`` (KIP-113 alterReplicaLogDirs). ``timeout_ms``: how long brokers may take to begin.

    ``replica_alter_log_dirs_throttle`` limits what every broker copies between its log directories meanwhile, in bytes per
    second; without it nothing is limited.
    """

    replicas: Many[ReplicaLogDir]
    replica_alter_log_dirs_throttle: Rate | None = None
    validate_only: bool = False
    timeout_ms: TimeoutMs | None = None


class ReplicaResult(Result):
    """Outcome for one replica."""

    topic: str
    partition: int
    broker: int


class ReplicaLogDirsResult(Answer):
    """Answer of ``POST /v1/replica-log-dirs``: each move that has begun or waits for others, or why not.

    ``request_id``: the request to reassign partitions that moves them. None when nothing is moved: all replicas are in place,
    some were refused, or ``validate_only``. ``warnings``: what of the request is not done, as an earlier one moves them already.
    """

    replicas: list[ReplicaResult]
    request_id: int | None = None
    warnings: list[str] = Field(default_factory=list)


class ReplicaLogDirView(ReplicaResult):
    """Where a replica is, and where it is being moved to; ``temporary_replica_offset_lag``: records still to be copied.

    Sizes are in bytes.
    """

    current_replica_log_dir: str | None
    current_replica_size: int | None = None
    temporary_replica_log_dir: str | None
    temporary_replica_size: int | None = None
    temporary_replica_offset_lag: int | None


class ReplicaLogDirList(Answer):
    """``GET /v1/replica-log-dirs`` (KIP-113 describeReplicaLogDirs)."""

    replicas: list[ReplicaLogDirView]


class ReplicaStatus(ReplicaResult):
    """``lag``: records that the replica is behind the leader, as of ``status_time`` (milliseconds since the epoch).

    -1 where it is not known; ``error`` says why.
    """

    status_time: int
    lag: int


class ReplicaStatusList(Answer):
    """``GET /v1/replica-status`` (KIP-179). ``status_time`` is the oldest and ``lag`` the largest of ``replicas``.

    ``lag`` is -1 as soon as that of one replica is not known, or there is none.
    """

    status_time: int
    lag: int
    replicas: list[ReplicaStatus] = Field(default_factory=list)
