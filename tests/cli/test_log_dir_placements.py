"""What `log-dirs move` and `verify` print of replicas."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ordered_kafka.cli.lists import parse_ids, parse_texts
from spark_ordered_kafka.cli.log_dir_placements import Placement
from spark_ordered_kafka.client.schemas import ReplicaLogDir, ReplicaLogDirView
from spark_ordered_kafka.errors import ConfigError


def placement(**view: Any) -> Placement:
    replica: dict[str, Any] = {"topic": "t", "partition": 0, "broker": 1}
    fields = {
        "current_replica_log_dir": None,
        "temporary_replica_log_dir": None,
        "temporary_replica_offset_lag": None,
    }
    return Placement(ReplicaLogDir(**replica, log_dir="/b"), ReplicaLogDirView(**replica, **(fields | view)))


AT_A = {"current_replica_log_dir": "/a", "current_replica_size": 2048}
TO_B = {
    "temporary_replica_log_dir": "/b",
    "temporary_replica_size": 1024,
    "temporary_replica_offset_lag": 7,
}
AWAY = {
    "error_code": 8,
    "error": "BROKER_NOT_AVAILABLE",
    "error_message": "broker 1 is not alive",
}


@pytest.mark.parametrize(
    ("view", "status", "text"),
    [
        (AT_A | {"current_replica_log_dir": "/b"}, "completed", "is there"),
        (AT_A, "differs", "is in /a"),
        (
            AT_A | TO_B,
            "in_progress",
            "is being moved from /a: 1.0 KiB of 2.0 KiB, lag 7",
        ),
        (
            AT_A | TO_B | {"current_replica_log_dir": "/b", "temporary_replica_log_dir": "/c"},
            "differs",
            "is being moved to /c from /b: 1.0 KiB of 2.0 KiB, lag 7",
        ),
        # Records that were deleted from the current one meanwhile.
        (AT_A | TO_B | {"temporary_replica_size": 4096}, "in_progress", "4.0 KiB of 2.0 KiB"),
        (AWAY, "unknown", "not known: BROKER_NOT_AVAILABLE: broker 1 is not alive"),
    ],
)
def test_status(view: dict[str, Any], status: str, text: str) -> None:
    found = placement(**view)
    assert found.status == status
    assert text in found.text


def test_lists_leave_out_empty_items_as_kafkas_tools_do() -> None:
    assert parse_texts("") == parse_texts(",,") == []
    assert parse_texts("b,,a,b,") == ["b", "a"]
    assert parse_ids("--broker-list", "3,1,3,") == [3, 1]


@pytest.mark.parametrize("value", ["x", "1,-1", "1 ,2", "1_0", "2147483648", "9" * 400, "٣"])
def test_what_is_no_id_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="--broker-list has the value"):
        parse_ids("--broker-list", value)
