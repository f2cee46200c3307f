"""Elections of preferred leaders (KIP-460)."""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import Answer, Int32, Many, Request
from spark_ordered_kafka.client.schemas.reassignments import PartitionResult


class ElectionPartition(Request):
    """A partition whose preferred leader is to lead."""

    topic: str
    partition: Int32


class LeaderElectionRequest(Request):
    """``POST /v1/leader-elections``: let the first replica of ``partitions`` lead them.

    None: of all that another replica leads although the first one is in sync.
    """

    partitions: Many[ElectionPartition] | None = None
    validate_only: bool = False


class LeaderElectionResult(Answer):
    """A result per partition; one that its first replica leads already is no error."""

    partitions: list[PartitionResult]
