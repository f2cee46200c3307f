"""What is shown of a reassignment while it goes on, and of its end."""

from __future__ import annotations

import io
import itertools
from typing import Any, Literal

import pytest
from rich.console import Console

from spark_ordered_kafka.cli.reassign_outcomes import failures, refusals
from spark_ordered_kafka.cli.reassign_progress import (
    Bars,
    Copied,
    by_broker,
    counts,
    follow_request,
    line,
    overall,
)
from spark_ordered_kafka.cli.units import shown_bytes, shown_rate, shown_seconds
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.schemas import PartitionResult, ReassignmentView, ReplicaProgress
from spark_ordered_kafka.errors import UnavailableError

KIB = 1024


def replica(broker: int, numerator: int, denominator: int, **more: Any) -> ReplicaProgress:
    fields = {"topic": "t", "partition": 0, "error_code": 60, "error": "REASSIGNMENT_IN_PROGRESS"} | more
    return ReplicaProgress.model_validate(
        {"broker": broker, "numerator": numerator, "denominator": denominator, **fields}
    )


def view(*replicas: ReplicaProgress, **more: Any) -> ReassignmentView:
    known = all(row.denominator >= 0 for row in replicas)
    fields = {
        "request_id": 7,
        "complete": False,
        "state": "running",
        "numerator": sum(row.numerator for row in replicas),
        "denominator": sum(row.denominator for row in replicas) if known else -1,
        "rate": 2.5 * KIB,
        "eta_seconds": None,
        "created_at": 0.0,
        "moving": 1,
    }
    return ReassignmentView.model_validate({**fields, **more, "replicas": replicas})


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (KIB**2, "1.0 MiB"), (10 * KIB**3, "10.0 GiB"), (2**63 - 1, "8.0 EiB"), (1000 * KIB, "1,000.0 KiB"),
    ],
)  # fmt: skip
def test_bytes_are_shown_in_units_of_1024(count: int, shown: str) -> None:
    assert shown_bytes(count) == shown


def test_rates_and_times() -> None:
    assert (shown_rate(None), shown_rate(1536.4)) == ("none", "1.5 KiB/s")
    assert (shown_seconds(0.4), shown_seconds(90.0), shown_seconds(86400.0)) == (
        "0:00:00",
        "0:01:30",
        "1 day, 0:00:00",
    )


def test_brokers_are_summed_up_and_what_is_not_known_stays_so() -> None:
    rows = view(
        replica(3, 1, 4), replica(1, 2, 2), replica(3, 2, 4, partition=1), replica(2, 5, -1), replica(2, 1, 9)
    )
    assert by_broker(rows) == {1: Copied(2, 2), 2: Copied(6, None), 3: Copied(3, 8)}
    assert list(by_broker(rows)) == [1, 2, 3]
    assert (overall(rows).percent, Copied(3, 8).percent, Copied(0, 0).percent) == (None, 37.5, 0.0)


def test_counts_name_what_there_is() -> None:
    assert counts(view(moving=0, done=1)) == "1 of 1 partition done"
    assert counts(view(waiting=12, moving=1, done=3, failed=2)) == (
        "3 of 18 partitions done, 1 moving, 12 waiting, 2 failed"
    )


def test_a_line_has_all_of_it() -> None:
    assert line(view(replica(1, KIB, 3 * KIB), eta_seconds=61.0)) == (
        "request 7: 0 of 1 partition done, 1 moving; 1.0 KiB of 3.0 KiB (33 %), 2.5 KiB/s, about 0:01:01 left"
    )
    assert line(view(replica(1, KIB, -1))) == (
        "request 7: 0 of 1 partition done, 1 moving; 1.0 KiB of ?, 2.5 KiB/s"
    )


def test_of_a_request_that_has_ended_no_time_is_left_to_tell() -> None:
    ended = view(replica(1, 1, 2), state="failed", complete=True, moving=0, failed=1, eta_seconds=0.0)
    assert line(ended) == "request 7: 0 of 1 partition done, 1 failed; 1 byte of 2 bytes (50 %)"


def test_the_last_bytes_do_not_show_as_all() -> None:
    assert "(99 %)" in line(view(replica(1, 999, 1000)))


def drawn(bars: Bars) -> list[str]:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(bars.renderable)
    return console.export_text().splitlines()


def test_bars_of_brokers_that_are_done_give_way_where_there_is_no_room() -> None:
    bars = Bars(most_brokers=2)
    assert drawn(bars)[0] == "waiting for a controller"
    rows = [replica(broker, 10 if broker == 1 else 5, 10) for broker in (1, 2, 3, 4)]
    bars.show(view(*rows[:3]))
    first = drawn(bars)
    assert first[0] == "request 7: 0 of 1 partition done, 1 moving"
    assert first[1] == "2.5 KiB/s; brokers not shown: 1"
    assert [text.split()[0:2] for text in first[3:]] == [["broker", "2"], ["broker", "3"]]
    assert first[2].startswith("all")
    assert first[2].split("━")[-1].split() == ["66", "%", "20", "bytes", "of", "30", "bytes"]
    bars.show(None)
    assert drawn(bars)[0] == "waiting for a controller"
    bars.show(view(*[replica(row.broker, 10, 10) for row in rows], eta_seconds=0.0))
    assert [text.split()[0:2] for text in drawn(bars)[3:]] == [["broker", "1"], ["broker", "2"]]


def test_each_partition_that_failed_has_one_line() -> None:
    failed = {"error_code": 8, "error": "BROKER_NOT_AVAILABLE", "error_message": "broker 2 is away"}
    rows = [replica(2, 1, 2, **failed), replica(3, 1, 2, **failed), replica(2, 1, 2, **failed, partition=1)]
    rows += [replica(3, 2, 2, partition=2, error_code=0, error="NONE"), replica(3, 1, 2, partition=3)]
    assert failures(view(*rows)) == [
        "t-0: BROKER_NOT_AVAILABLE: broker 2 is away",
        "t-1: BROKER_NOT_AVAILABLE: broker 2 is away",
    ]


def test_refusals_that_are_alike_are_told_once_and_many_are_counted() -> None:
    def row(number: int, message: str | None, code: int = 42) -> PartitionResult:
        error = "NONE" if code == 0 else "INVALID_REQUEST"
        return PartitionResult(
            topic="t", partition=number, error_code=code, error=error, error_message=message
        )

    assert refusals([row(0, None, 0)]) == []
    assert refusals([row(0, None, 0), row(1, "bad"), row(2, "not started"), row(3, "not started")]) == [
        "INVALID_REQUEST: bad",
        "INVALID_REQUEST: not started",
    ]
    told = refusals([row(number, f"bad {number}") for number in range(25)])
    assert (len(told), told[-1]) == (21, "5 more, which --output json has")


class Scripted(ControllerClient):
    """Answers about a request, one after the other."""

    def __init__(self, *answers: ReassignmentView) -> None:
        super().__init__("http://nobody")
        self.left = list(answers)
        self.asked: list[int | str] = []

    def reassignment(self, request_id: int | Literal["latest"] = "latest") -> ReassignmentView:
        self.asked.append(request_id)
        return self.left.pop(0)


def test_the_latest_request_is_followed_through_hours_without_progress() -> None:
    moving, done = (
        view(replica(1, 1, 2)),
        view(replica(1, 2, 2), state="done", complete=True, moving=0, done=1),
    )
    client = Scripted(*[moving] * 20, done)
    pauses: list[float] = []
    assert follow_request(client, "latest", lambda: 3600.0 * len(pauses), pauses.append) == done
    assert client.asked == ["latest", *[7] * 20]


def test_controllers_that_stay_away_are_given_up_after_10_minutes() -> None:
    now = itertools.count(0.0, 60.0)
    pauses: list[float] = []
    with (
        ControllerClient("http://127.0.0.1:1", retry_for=0.0) as client,
        pytest.raises(UnavailableError, match="request 7 is still in progress"),
    ):
        follow_request(client, 7, lambda: next(now), pauses.append)
    assert 2 < len(pauses) < 12
