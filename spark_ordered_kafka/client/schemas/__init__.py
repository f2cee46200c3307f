"""Bodies of the controller's HTTP API (``/v1``), shared by the service and its clients.

Names follow the proposals (KIP-253, KIP-179, KIP-578) and Kafka's own tools. Requests refuse unknown fields; answers
ignore them, so that a newer controller may say more than an older client knows.
"""

from __future__ import annotations

from spark_ordered_kafka.client.schemas.base import (
    Answer,
    ChangeKind,
    ChangeOutcome,
    ChangeStep,
    HashName,
    Request,
    Result,
)
from spark_ordered_kafka.client.schemas.brokers import BrokerList, BrokerView
from spark_ordered_kafka.client.schemas.changes import (
    ChangeView,
    FinishedChangeView,
    PartitionCountsRequest,
    TopicChange,
    TopicPartitionCount,
    TopicResult,
    TopicResults,
)
from spark_ordered_kafka.client.schemas.groups import (
    GroupMember,
    GroupPositions,
    PartitionPosition,
    RequiredPosition,
    TopicPositions,
)
from spark_ordered_kafka.client.schemas.layouts import (
    EarlierLayout,
    LayoutHistoryView,
    LayoutView,
    LeaderEpochsView,
    PartitionLeaderEpochs,
    PositionCheck,
    Truncations,
    TruncationsRequest,
    TruncationView,
    WriterLayoutView,
)
from spark_ordered_kafka.client.schemas.topics import (
    AdoptTopicRequest,
    AlterTopicRequest,
    CreateTopicRequest,
    DeletedRecords,
    DeleteRecordsRequest,
    GroupPosition,
    MisroutedReport,
    PartitionRecords,
    PartitionView,
    TopicList,
    TopicSummary,
    TopicView,
)

__all__ = [
    "AdoptTopicRequest",
    "AlterTopicRequest",
    "Answer",
    "BrokerList",
    "BrokerView",
    "ChangeKind",
    "ChangeOutcome",
    "ChangeStep",
    "ChangeView",
    "CreateTopicRequest",
    "DeleteRecordsRequest",
    "DeletedRecords",
    "EarlierLayout",
    "FinishedChangeView",
    "GroupMember",
    "GroupPosition",
    "GroupPositions",
    "HashName",
    "LayoutHistoryView",
    "LayoutView",
    "LeaderEpochsView",
    "MisroutedReport",
    "PartitionCountsRequest",
    "PartitionLeaderEpochs",
    "PartitionPosition",
    "PartitionRecords",
    "PartitionView",
    "PositionCheck",
    "Request",
    "RequiredPosition",
    "Result",
    "TopicChange",
    "TopicList",
    "TopicPartitionCount",
    "TopicPositions",
    "TopicResult",
    "TopicResults",
    "TopicSummary",
    "TopicView",
    "TruncationView",
    "Truncations",
    "TruncationsRequest",
    "WriterLayoutView",
]
