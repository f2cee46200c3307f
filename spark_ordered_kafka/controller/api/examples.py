"""An example of every body, for the OpenAPI document. A test checks each against its model."""

from __future__ import annotations

from typing import Any, Final

_TOPIC_ID: Final = "hM3vQb0oTnG0y1dJcZ2a5w"
_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
_DONE: Final = {"error_code": 0, "error": "NONE", "error_message": None}
_REFUSED: Final = {
    "error_code": 37,
    "error": "INVALID_PARTITIONS",
    "error_message": "partition_count has the value 1: topic 'orders' began with 2 partitions, and cannot go below",
}
_CHANGE: Final = {
    "id": "4f1c0a9be2d7",
    "kind": "expand",
    "source": 4,
    "target": 8,
    "step": "fencing",
    "force": False,
    "started_at": 1767225600.0,
    "closing_at": 1767225601.2,
    "fenced": 3,
    "total_fences": 12,
    "cancel_requested": False,
}
_ENDED: Final = {
    "id": "9a07c3d1b6f4",
    "kind": "expand",
    "source": 2,
    "target": 4,
    "outcome": "done",
    "started_at": 1767222000.0,
    "finished_at": 1767222001.6,
    "writer_pause_seconds": 0.21,
    "fenced": 7,
    "error": None,
}
_SUMMARY: Final = {
    "topic": "orders",
    "topic_id": _TOPIC_ID,
    "initial_partition_count": 2,
    "undeleted_partition_count": 4,
    "layout_epoch": 1,
    "hash": "murmur3",
    "ordered_delivery": True,
    "change": None,
}
_LAYOUTS: Final = [
    {
        "epoch": 0,
        "undeleted_partition_count": 2,
        "starts": [0, 0],
        "leader_epochs": [0, 0],
        "committed_at": 1767139200.0,
        "ordered_delivery": True,
    },
    {
        "epoch": 1,
        "undeleted_partition_count": 4,
        "starts": [1204, 1187, 0, 0],
        "leader_epochs": [3, 2, 0, 0],
        "committed_at": 1767222001.6,
        "ordered_delivery": True,
    },
]
_BROKER: Final = {
    **{"id": 1, "rack": "a", "hosted": 812, "max_partitions": 1000, "capacity": 188},
    **{"alive": True, "excess": 0},
}
_COUNTS: Final = {
    "topics": [{"topic": "orders", "partition_count": 8}],
    "force": False,
    "validate_only": False,
}
_REVIEW: Final = {
    "review_id": 12,
    "status": "pending",
    "method": "POST",
    "path": "/v1/partition-counts",
    "query": "reason=more+partitions+for+the+evening",
    "reason": "more partitions for the evening",
    "requested_by": "User:alice",
    "requested_at": 1767225600.0,
    "expires_at": 1767312000.0,
    "decided_by": None,
    "decided_at": None,
    "answer_status": None,
}
_SUMMARY_OF_REQUEST: Final = {
    **{"request_id": 7, "complete": False, "state": "running", "principal": "User:alice"},
    **{"numerator": 734003200, "denominator": 1073741824, "rate": 52428800.0, "eta_seconds": 6.5},
    **{"created_at": 1767225600.0, "ended_at": None, "rollback_of": None},
    **{"throttle": 52428800, "replica_alter_log_dirs_throttle": None},
    **{"waiting": 4, "moving": 2, "done": 10, "failed": 0, "cancelled": 0, "warnings": []},
}
_ROWS: Final = [
    {"topic": "orders", "partition": 0, "replicas": [2, 3], "log_dirs": ["any", "/data/2"]},
    {"topic": "orders", "partition": 1, "replicas": [3, 1]},
]

EXAMPLES: Final[dict[str, Any]] = {
    # -- requests -----------------------------------------------------------------------------------------------
    "CreateTopicRequest": {
        "topic": "orders",
        "partitions": 4,
        "replication_factor": 3,
        "hash": "murmur3",
        "ordered_delivery": True,
        "configs": {"retention.ms": "604800000"},
        "validate_only": False,
    },
    "CreateTopicsRequest": {
        "topics": [
            {"topic": "orders", "partitions": 4, "replication_factor": 3},
            {"topic": "payments", "assignments": {"0": [1, 2, 3], "1": [2, 3, 1]}},
        ],
        "validate_only": True,
        "timeout_ms": 30000,
    },
    "DeleteTopicsRequest": {"topics": ["orders"], "validate_only": False, "timeout_ms": 30000},
    "AdoptTopicRequest": {"hash": "murmur2", "force": False, "validate_only": True},
    "AlterTopicRequest": {
        "ordered_delivery": True,
        "configs": {"retention.ms": "86400000", "segment.ms": None},
    },
    "DeleteRecordsRequest": {"partitions": [6, 7], "force": False, "validate_only": False},
    "GuardRailsRequest": {"max_partitions": 1000, "validate_only": False},
    "MisroutedReport": {"records": 3},
    "WriterNameRequest": {"topic": "orders"},
    "WriterName": {"writer": "5f1c7a90b2d34e68-4", "nonce": "9d0c5f3b7a1e2468"},
    "WriterNameRelease": {"topic": "orders", "writer": "5f1c7a90b2d34e68-4", "nonce": "9d0c5f3b7a1e2468"},
    "TruncationsRequest": {"positions": [{"partition": 0, "offset": 1500, "leader_epoch": 3}]},
    "PartitionCountsRequest": _COUNTS,
    "ReplicationFactorsRequest": {
        "topics": [
            {"topic": "orders", "replication_factor": 3},
            {"topic": "payments", "assignments": {"0": [1, 2], "1": [2, 3]}},
        ],
        "validate_only": False,
    },
    "ReassignmentRequest": {
        "version": 1,
        "partitions": _ROWS,
        "throttle": 52428800,
        "additional": False,
        "allow_replication_factor_change": False,
        "elect_leaders": True,
        "validate_only": False,
    },
    "ReassignmentThrottleRequest": {"throttle": None, "validate_only": False},
    "ReassignmentPlanRequest": {"goal": "drain", "brokers": [1], "topics": ["orders"]},
    "VerifyRequest": {"version": 1, "partitions": _ROWS},
    "ReplicaLogDirsRequest": {
        "replicas": [
            {"topic": "orders", "partition": 0, "broker": 1, "log_dir": "/data/2"},
            {"topic": "orders", "partition": 1, "broker": 1, "log_dir": "/data/2"},
        ],
        "validate_only": False,
    },
    # -- answers ------------------------------------------------------------------------------------------------
    "Result": _DONE,
    "Readiness": {**_DONE, "role": "leader", "leader": "https://controller-1.example.com:8090", "epoch": 17},
    "ControllerList": {
        "controllers": [
            {"id": "controller-1-5e2f", "url": "https://controller-1.example.com:8090", "role": "leader"},
            {"id": "controller-2-91ac", "url": "https://controller-2.example.com:8090", "role": "follower"},
        ],
        "leader": "https://controller-1.example.com:8090",
        "epoch": 17,
    },
    "TopicResult": {**_DONE, "topic": "orders", "change_id": "4f1c0a9be2d7"},
    "TopicResults": {
        "topics": [
            {**_DONE, "topic": "orders", "change_id": "4f1c0a9be2d7"},
            {**_REFUSED, "topic": "payments", "change_id": None},
        ]
    },
    "TopicList": {"topics": [_SUMMARY]},
    "TopicView": {
        **_SUMMARY,
        "cluster_id": _CLUSTER_ID,
        "last_change": _ENDED,
        "partitions": [
            {"partition": 0, "status": "live", "leader": 1, "replicas": [1, 2, 3], "isr": [1, 2, 3]},
            {
                **{"partition": 4, "status": "marked", "leader": 2, "replicas": [2, 3, 1], "isr": [2, 3, 1]},
                **{"log_start": 0, "log_end": 841, "size": 65536},
                "waiting_groups": [{"group": "billing", "offset": 620}],
            },
        ],
    },
    "DeletedRecords": {
        "topic": "orders",
        "partitions": [{**_DONE, "partition": 4, "log_start": 841, "waiting_groups": []}],
    },
    "TopicChange": {"topic": "orders", "change": _CHANGE, "last_change": _ENDED},
    "LayoutHistoryView": {
        "topic": "orders",
        "topic_id": _TOPIC_ID,
        "cluster_id": _CLUSTER_ID,
        "hash": "murmur3",
        "ordered_delivery": True,
        "initial_partition_count": 2,
        "layouts": _LAYOUTS,
        "changing": False,
    },
    "WriterLayoutView": {
        "topic": "orders",
        "topic_id": _TOPIC_ID,
        "cluster_id": _CLUSTER_ID,
        "hash": "murmur3",
        "ordered_delivery": True,
        "initial_partition_count": 2,
        "undeleted_partition_count": 4,
        "layout_epoch": 1,
        "earlier": [{"undeleted_partition_count": 2, "ends": [1204, 1187]}],
    },
    "LeaderEpochsView": {
        "topic": "orders",
        "topic_id": _TOPIC_ID,
        "partitions": [
            {
                "partition": 2,
                "leader_epoch_after_creation": {"0": 3, "1": 2},
                "leader_epoch_before_deletion": {},
            }
        ],
    },
    "Truncations": {
        "topic": "orders",
        "topic_id": _TOPIC_ID,
        "truncations": [
            {"partition": 0, "offset": 1500, "leader_epoch": 3, "end_offset": 1431, "layout_epoch": None}
        ],
    },
    "BrokerList": {
        "brokers": [_BROKER, {**_BROKER, "id": 2, "rack": "b", "hosted": 1012, "capacity": 0, "excess": 12}]
    },
    "BrokerView": _BROKER,
    "GroupPositions": {
        "group": "billing",
        "state": "Stable",
        "topics": [
            {
                "topic": "orders",
                "topic_id": _TOPIC_ID,
                "layout_epoch": 1,
                "ordered_delivery": True,
                "partitions": [
                    {
                        "partition": 2,
                        "status": "live",
                        "position": 0,
                        "log_end": 96,
                        "lag": 96,
                        "member": {"consumer_id": "c-1", "client_id": "billing-1", "host": "/10.0.0.7"},
                        "waits_for": [{"partition": 0, "offset": 1204}],
                    }
                ],
            }
        ],
    },
    "ReassignmentResult": {
        "request_id": 7,
        "partitions": [
            {**_DONE, "topic": "orders", "partition": 0},
            {**_DONE, "topic": "orders", "partition": 1},
        ],
        "warnings": [],
    },
    "ReassignmentPlan": {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 4], "log_dirs": ["any", "any"]}],
        "current": {
            "version": 1,
            "partitions": [
                {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
            ],
        },
        **{"bytes_to_move": 67108864, "replicas_to_move": 1, "leaders_to_move": 1},
        "brokers": [
            {
                "broker": 1,
                "before": {"replicas": 1, "leaders": 1, "bytes": 67108864},
                "after": {"replicas": 0, "leaders": 0, "bytes": 0},
            }
        ],
        "warnings": ["left out, since without a leader: orders-3"],
    },
    "ReassignmentSummary": _SUMMARY_OF_REQUEST,
    "ReassignmentView": {
        **_SUMMARY_OF_REQUEST,
        "replicas": [
            {
                **{"topic": "orders", "partition": 0, "broker": 3, "log_dir": "/data/2"},
                **{"numerator": 41943040, "denominator": 67108864},
                **{"error_code": 60, "error": "REASSIGNMENT_IN_PROGRESS", "error_message": None},
            }
        ],
    },
    "ReassignmentList": {
        "requests": [_SUMMARY_OF_REQUEST],
        "ongoing": [
            {
                **{"topic": "orders", "partition": 0, "replicas": [3, 2, 1]},
                **{"adding_replicas": [3], "removing_replicas": [1], "request_id": 7},
            }
        ],
    },
    "Verification": {
        "complete": False,
        "partitions": [
            {
                **{"topic": "orders", "partition": 0, "status": "in_progress"},
                **{"replicas": [3, 2, 1], "target": [2, 3]},
                "log_dirs": [
                    {
                        **{"broker": 3, "status": "completed", "log_dir": "/data/2"},
                        **{"current_log_dir": "/data/2", "future_log_dir": None},
                    }
                ],
            }
        ],
    },
    "LogDirList": {
        "version": 1,
        "brokers": [
            {
                **_DONE,
                "broker": 1,
                "log_dirs": [
                    {
                        **_DONE,
                        **{"path": "/data/1", "is_live": True},
                        **{"total_bytes": 1099511627776, "usable_bytes": 824633720832},
                        "partitions": [
                            {
                                **{"topic": "orders", "partition": 0, "size": 1073741824},
                                **{"offset_lag": 0, "is_temporary": False},
                            }
                        ],
                    },
                    {
                        **{"error_code": 56, "error": "KAFKA_STORAGE_ERROR"},
                        "error_message": "log directory /data/2 of broker 1: disk error",
                        **{"path": "/data/2", "is_live": False, "total_bytes": None, "usable_bytes": None},
                        "partitions": [],
                    },
                ],
            }
        ],
    },
    "ReplicaLogDirList": {
        "replicas": [
            {
                **_DONE,
                **{"topic": "orders", "partition": 0, "broker": 1},
                **{"current_replica_log_dir": "/data/1", "current_replica_size": 1073741824},
                **{"temporary_replica_log_dir": "/data/2", "temporary_replica_size": 734003200},
                "temporary_replica_offset_lag": 338104,
            }
        ]
    },
    "ReplicaLogDirsResult": {
        "replicas": [
            {**_DONE, "topic": "orders", "partition": 0, "broker": 1},
            {**_DONE, "topic": "orders", "partition": 1, "broker": 1},
        ]
    },
    "ReplicaStatusList": {
        "status_time": 1767225600000,
        "lag": 1200,
        "replicas": [
            {
                **_DONE,
                **{"topic": "orders", "partition": 0, "broker": 2},
                **{"status_time": 1767225600000, "lag": 1200},
            }
        ],
    },
    "ReviewList": {"reviews": [_REVIEW]},
    "ReviewView": {**_REVIEW, "body": _COUNTS, "answer": None},
}
"""By the name of the model."""
