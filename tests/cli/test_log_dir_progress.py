"""What is said of replicas that are to be in certain log directories."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from spark_ordered_kafka.cli.lists import parse_ids, parse_texts
from spark_ordered_kafka.cli.log_dir_progress import Placement, follow_moves
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import ReplicaLogDir, ReplicaLogDirList, ReplicaLogDirView
from spark_ordered_kafka.errors import ConfigError, UnavailableError


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


GONE = {
    "error_code": 56,
    "error": "KAFKA_STORAGE_ERROR",
    "error_message": "offline: /a",
}
AT_B = AT_A | {"current_replica_log_dir": "/b"}


class Scripted(ControllerClient):
    """Answers about one replica, one after the other; None: no controller."""

    def __init__(self, *views: dict[str, Any] | None) -> None:
        super().__init__("http://nobody")
        self.left = list(views)

    def replica_log_dirs(self, **_: Any) -> ReplicaLogDirList:
        view = self.left.pop(0)
        if view is None:
            raise UnavailableError("nobody answers")
        return ReplicaLogDirList(replicas=[placement(**view).view])


@pytest.mark.parametrize(
    ("views", "status"),
    [
        ([AT_B, AT_B], "completed"),
        # It has taken its place between two looks at the directories.
        ([AT_A | TO_B, AT_A, AT_B], "completed"),
        ([AT_A | TO_B, None, AWAY, AWAY, AWAY, AT_A | TO_B, AT_B], "completed"),
        ([AT_A | TO_B, AT_A, AT_A], "differs"),
        ([AT_A | TO_B, GONE, GONE], "unknown"),
    ],
)
def test_a_move_is_followed_to_its_end(views: list[dict[str, Any] | None], status: str) -> None:
    client = Scripted(*views)
    (end,) = follow_moves(client, [placement(**AT_A).wanted], sleep=lambda _: None)
    assert (end.status, client.left) == (status, [])


def test_nobody_waits_for_ever() -> None:
    clock = itertools.count(step=100)
    with pytest.raises(UnavailableError, match="nothing has changed for 600 s"):
        follow_moves(
            Scripted(*[AT_A | TO_B] * 20),
            [placement(**AT_A).wanted],
            clock=lambda: float(next(clock)),
            sleep=lambda _: None,
        )


def test_lists_leave_out_empty_items_as_kafkas_tools_do() -> None:
    assert parse_texts("") == parse_texts(",,") == []
    assert parse_texts("b,,a,b,") == ["b", "a"]
    assert parse_ids("--broker-list", "3,1,3,") == [3, 1]


@pytest.mark.parametrize("value", ["x", "1,-1", "1 ,2", "1_0", "2147483648", "9" * 400, "٣"])
def test_what_is_no_id_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="--broker-list has the value"):
        parse_ids("--broker-list", value)
