"""The lines of ``kafka-reassign-partitions``, byte for byte; tests/integration/test_reassign_tools.py asks the tool itself."""

from __future__ import annotations

from typing import get_args

import pytest

from spark_ordered_kafka.cli.reassign_texts import current_assignment, ongoing, started, verification
from spark_ordered_kafka.client.schemas import (
    OngoingReassignment,
    PartitionAssignment,
    Verification,
    VerifiedPartition,
    VerifiedReplica,
)
from spark_ordered_kafka.client.schemas.reassignments import VerifiedStatus


def partition(
    topic: str, number: int, status: str, replicas: list[int], *dirs: VerifiedReplica
) -> VerifiedPartition:
    assert status in get_args(VerifiedStatus)
    return VerifiedPartition.model_validate(
        {"topic": topic, "partition": number, "status": status, "replicas": replicas, "target": [1, 2],
         "log_dirs": dirs}
    )  # fmt: skip


def replica(broker: int, current: str | None, future: str | None) -> VerifiedReplica:
    return VerifiedReplica(
        broker=broker, status="differs", log_dir="/d/a", current_log_dir=current, future_log_dir=future
    )


def test_the_current_assignment_is_in_order() -> None:
    rows = [
        PartitionAssignment(topic="b", partition=0, replicas=[3], log_dirs=["any"]),
        PartitionAssignment(topic="a", partition=10, replicas=[1], log_dirs=["/d/1"]),
        PartitionAssignment(topic="a", partition=9, replicas=[2, 1], log_dirs=["/d/2", "any"]),
    ]
    assert current_assignment(rows) == (
        "Current partition replica assignment\n\n"
        '{"version":1,"partitions":['
        '{"topic":"a","partition":9,"replicas":[2,1],"log_dirs":["/d/2","any"]},'
        '{"topic":"a","partition":10,"replicas":[1],"log_dirs":["/d/1"]},'
        '{"topic":"b","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
        "\n\nSave this to use as the --reassignment-json-file option during rollback"
    )


def test_what_was_started_is_named_in_order() -> None:
    assert started([("a", 10)]) == "Successfully started partition reassignment for a-10"
    assert started([("b", 0), ("a", 10), ("a", 9)]) == (
        "Successfully started partition reassignments for a-9,a-10,b-0"
    )


def test_list() -> None:
    assert ongoing([]) == "No partition reassignments found."
    rows = [
        OngoingReassignment(
            topic="b", partition=0, replicas=[1, 2, 3], adding_replicas=[], removing_replicas=[3]
        ),
        OngoingReassignment(
            topic="a", partition=10, replicas=[1, 2], adding_replicas=[2], removing_replicas=[]
        ),
        OngoingReassignment(
            topic="a", partition=9, replicas=[4, 5, 1, 2], adding_replicas=[4, 5], removing_replicas=[1, 2]
        ),
        OngoingReassignment(
            topic="c", partition=0, replicas=[1, 2], adding_replicas=[], removing_replicas=[]
        ),
    ]
    assert ongoing(rows) == (
        "Current partition reassignments:\n"
        "a-9: replicas: 4,5,1,2. adding: 4,5. removing: 1,2.\n"
        "a-10: replicas: 1,2. adding: 2.\n"
        "b-0: replicas: 1,2,3. removing: 3.\n"
        "c-0: replicas: 1,2."
    )


def test_verified_partitions_end_with_an_empty_line_where_no_directory_is_named() -> None:
    rows = [
        partition("b", 0, "differs", [3]),
        partition("a", 10, "in_progress", [1, 2, 3]),
        partition("a", 9, "completed", [1, 2]),
        partition("gone", 0, "unknown", []),
    ]
    assert verification(Verification(complete=False, partitions=rows)) == (
        "Status of partition reassignment:\n"
        "Reassignment of partition a-9 is completed.\n"
        "Reassignment of partition a-10 is still in progress.\n"
        "There is no active reassignment of partition b-0, but replica set is 3 rather than 1,2.\n"
        "There is no active reassignment of partition gone-0, but replica set is  rather than 1,2.\n"
    )


def test_verified_replicas_are_ordered_by_broker_first() -> None:
    rows = [
        partition("b", 0, "completed", [1, 2], replica(1, "/d/a", None), replica(2, "/d/b", "/d/a")),
        partition("a", 0, "completed", [1, 2], replica(1, "/d/b", None), replica(2, None, None)),
        partition("a", 1, "completed", [1, 2], replica(10, "/d/b", "/d/c"), replica(2, "/d/b", None)),
    ]
    told = verification(Verification(complete=False, partitions=rows)).split("\n")
    assert told[4:] == [
        "Partition a-0 on broker 1 is not being moved from log dir /d/b to /d/a.",
        "Reassignment of replica b-0-1 completed successfully.",
        "Partition a-0 is not found in any live log dir on broker 2. There is likely an offline log directory on the "
        "broker.",
        "Partition a-1 on broker 2 is not being moved from log dir /d/b to /d/a.",
        "Reassignment of replica b-0-2 is still in progress.",
        "Partition a-1 on broker 10 is being moved to log dir /d/c instead of /d/a.",
    ]


@pytest.mark.parametrize("status", get_args(VerifiedStatus))
def test_every_status_has_a_line(status: str) -> None:
    told = verification(Verification(complete=False, partitions=[partition("a", 0, status, [3])]))
    assert told.split("\n")[1].endswith(".")
