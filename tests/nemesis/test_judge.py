"""The judge, judged: each violation is planted in a history that has none, and found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.nemesis import judge
from tests.nemesis.journal import Event, parse

Records = list[tuple[str, int]]


def event(at: float, process: str, action: str, **more: Any) -> Event:
    return {"at": at, "time": 0.0, "process": process, "action": action, **more}


def arrays(records: Records) -> judge.Records:
    keys, numbers = [key for key, _ in records], [number for _, number in records]
    return judge.Records(np.array(keys, dtype=np.str_), np.array(numbers, dtype=np.int64))


def usage(at: float, of: tuple[str, float] = ("controller", 100.0), /, **more: float) -> Event:
    figures = {"rss": 1e8, "threads": 10, "files": 20, "connections": 5} | more
    role, age = of
    return event(at, "run", "usage", role=role, node=f"{role}-1", age=age, **figures)


RECORDS: Records = [(key, number) for number in range(5) for key in ("writer-1.1-0", "writer-1.1-1")]


def history() -> list[Event]:
    """Of a run without a violation: one member is killed, one loses its partitions, one gives a key up."""
    return [
        event(1, "writer-1.1", "acknowledged", last={"writer-1.1-0": 3, "writer-1.1-1": 4}),
        event(2, "copier-1.1", "hold", places=[["k0", 0], ["k1", 0]]),
        event(3, "copier-1.1", "give up", partitions=[0]),
        event(4, "copier-2.1", "hold", places=[["k0", 1]]),
        event(5, "copier-1.1", "hold", places=[["k1", 0]]),
        event(6, "run", "killed", node="copier-1", number=1),
        event(7, "copier-3.1", "hold", places=[["k1", 0]]),
        # Its process stood still: others had the key before it knew.
        event(8, "copier-1.2", "hold", places=[["k0", 1]]),
        event(9, "copier-2.1", "lost", partitions=[1]),
        event(10, "run", "layout", topic="events", topic_id="a", epoch=0, content="2"),
        event(11, "run", "layout", topic="events", topic_id="a", epoch=1, content="3"),
        event(12, "run", "number", what="request id", value=3),
        event(13, "run", "number", what="request id", value=4),
        event(14, "run", "hosted", broker=1, limit=20, written=7, hosted=22, planned=24),
        event(15, "run", "hosted", broker=1, limit=20, written=7, hosted=24, planned=24),
        event(16, "run", "hosted", broker=1, limit=40, written=8, hosted=30, planned=24),
        # Removed for a while, in which the broker got more.
        event(16.5, "run", "hosted", broker=1, limit=40, written=9, hosted=43, planned=43),
        event(17, "operator-1.1", "operate", what="reassign", about=["events"], errors=["REQUEST_TIMED_OUT"]),
        event(18, "run", "stuck", node="broker-1", number=3),
        event(18, "copier-2.1", "failed", error="UnavailableError: no controller"),
        event(18.2, "run", "replaced", node="copier-3", number=1),
        event(18.4, "copier-3.1", "failed", error="RequestError: UNKNOWN_MEMBER_ID: no place"),
        event(19, "run", "ended", node="controller-1", number=1, code=1, tail="error: ZooKeeper is away"),
        *(usage(20.0 + second) for second in range(30)),
    ]


def test_a_history_without_a_violation_has_none() -> None:
    assert judge.check_history(history()) == []
    assert judge.check_log(arrays(RECORDS), history()) == []
    assert judge.check_copy("copied", arrays(RECORDS), arrays(RECORDS[1::2] + RECORDS[::2])) == []


def _swapped() -> Records:
    return [RECORDS[2], *RECORDS[:2], *RECORDS[3:]]


@pytest.mark.parametrize(
    ("records", "found"),
    [
        (_swapped(), "out_of_order=1"),
        (RECORDS[:4] + RECORDS[5:], "lost=1"),
        (RECORDS[:5] + RECORDS[4:], "duplicated=1"),
        (RECORDS[:-1], "acknowledged and not in the log: 1, such as writer-1.1-1:4"),
        ([], "no records"),
    ],
)
def test_what_is_wrong_with_the_log_is_found(records: Records, found: str) -> None:
    violations = judge.check_log(arrays(records), history())
    assert any(found in one for one in violations), violations


@pytest.mark.parametrize(
    ("copied", "found"),
    [
        (_swapped(), "out_of_order=1"),
        (RECORDS[:-2], "not copied: 2, such as writer-1.1-0:4, writer-1.1-1:4"),
        ([*RECORDS, RECORDS[-1]], "duplicated=1"),
        (
            [*RECORDS, ("writer-1.1-1", 5)],
            "in no committed transaction of the source: 1, such as writer-1.1-1:5",
        ),
    ],
)
def test_what_is_wrong_with_a_copy_is_found(copied: Records, found: str) -> None:
    violations = judge.check_copy("copied", arrays(RECORDS), arrays(copied))
    assert any(found in one for one in violations), violations


def _elected(at: float, seconds: float) -> list[Event]:
    kind = {"kind": "unclean election", "target": "unsafe"}
    return [event(at, "run", "fault", **kind), event(at + seconds, "run", "healed", **kind)]


@pytest.mark.parametrize(
    ("left", "saved", "election", "found"),
    [
        (RECORDS[:4] + RECORDS[6:], RECORDS, (0.5, 1.0), ""),
        # Its writer has noted nothing of the last ones: they may have been lost, if there was an election at all.
        (RECORDS[:4], RECORDS[:4], (0.5, 1.0), ""),
        (RECORDS[:4] + RECORDS[6:], RECORDS, (2.0, 3.0), "lost without an election: 2, such as writer-1.1-0:2"),
        (RECORDS[:4] + RECORDS[6:], RECORDS, None, "saved: not in the log, which has lost nothing: 2"),
        (RECORDS[:4] + RECORDS[6:], RECORDS[:4] + RECORDS[7:], (0.5, 1.0), "saved: not copied: 1"),
        ([*RECORDS[:4], *RECORDS[2:]], RECORDS, (0.5, 1.0), "unsafe: Report(records=12, keys=2, lost=0, duplicated=2"),
        (RECORDS, [*RECORDS, RECORDS[0]], (0.5, 1.0), "saved: Report(records=11, keys=2, lost=0, duplicated=1"),
        (_swapped(), RECORDS, (0.5, 1.0), "out_of_order=1"),
        ([], [], (0.5, 1.0), "unsafe has no records"),
    ],
)  # fmt: skip
def test_only_an_unclean_election_loses_records(
    left: Records, saved: Records, election: tuple[float, float] | None, found: str
) -> None:
    events = _with(*(_elected(*election) if election else []))(history())
    violations = judge.check_losses(arrays(left), arrays(saved), events)
    assert any(found in one for one in violations) if found else not violations, violations


@pytest.mark.parametrize(
    ("at", "lost"),
    [(0.5, []), (61.5, ["lost without an election: 2, such as writer-1.1-0:2, writer-1.1-1:2"])],
)
def test_an_unclean_election_that_brokers_tell_of_loses_records(at: float, lost: list[str]) -> None:
    """They were acknowledged in the first second."""
    events = _with(event(at, "run", "unclean"))(history())
    assert judge.check_losses(arrays(RECORDS[:4] + RECORDS[6:]), arrays(RECORDS), events) == lost


def _without(action: str, process: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [one for one in events if (one["action"], one["process"]) != (action, process)]


def _with(*more: Event) -> Callable[[list[Event]], list[Event]]:
    return lambda events: sorted([*events, *more], key=lambda one: one["at"])


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (
            _without("give up", "copier-1.1"),
            "copier-2.1 read k0 from partition 1 while copier-1.1 held it from 0",
        ),
        (_without("killed", "run"), "copier-3.1 read k1 from partition 0 while copier-1.1 held it from 0"),
        (
            _without("lost", "copier-2.1"),
            "copier-1.2 read k0 from partition 1 while copier-2.1 held it from 1",
        ),
        (_with(event(8.5, "copier-2.1", "give up", partitions=[1])), "while copier-2.1 held it from 1"),
        (
            _with(event(11.5, "run", "layout", topic="events", topic_id="a", epoch=1, content="4")),
            "('events', 'a', 1) was 3 and is 4",
        ),
        (
            _with(event(11.5, "run", "layout", topic="events", topic_id="a", epoch=3, content="4")),
            "events has the layout epochs [0, 1, 3]",
        ),
        (_with(event(13.5, "run", "number", what="request id", value=3)), "request id was 4 and is 3"),
        (
            _with(event(15.5, "run", "hosted", broker=1, limit=20, written=7, hosted=25, planned=25)),
            "broker 1 hosts 25 replicas, its limit is 20 and it had 24",
        ),
        (
            _with(event(17.5, "operator-1.1", "operate", what="balance", errors=["UNKNOWN_SERVER_ERROR"])),
            "UNKNOWN_SERVER_ERROR",
        ),
        (_with(event(18.5, "query-1.1", "failed", error="... DataLossError: gone")), "DataLossError: gone"),
        (
            _with(event(18.5, "reader-1.1", "failed", error="RequestError: UNKNOWN_MEMBER_ID: no place")),
            "no place",
        ),
        (
            # It has the place of the one that was replaced.
            _with(event(18.5, "copier-3.2", "failed", error="RequestError: UNKNOWN_MEMBER_ID: no place")),
            "copier-3.2 failed",
        ),
        (
            _with(event(19, "run", "ended", node="controller-2", number=1, code=1, tail="Traceback (most")),
            "controller-2 ended by itself",
        ),
        (_with(event(19, "run", "stuck", node="writer-1", number=2)), "writer-1 did not end within a minute"),
        (
            _with(event(99, "run", "overdue", what="changes end", seconds=240.0, state="closing")),
            "changes end: not within 240 s after the last fault: closing",
        ),
        (
            _with(event(99, "run", "throttle left", resource="broker 1", name="x.throttled.rate", value="5")),
            "broker 1 still has x.throttled.rate=5",
        ),
    ],
)
def test_what_is_wrong_with_a_history_is_found(
    plant: Callable[[list[Event]], list[Event]], found: str
) -> None:
    violations = judge.check_history(plant(history()))
    assert len(violations) == 1, violations
    assert found in violations[0]


@pytest.mark.parametrize("what", judge.BOUNDS)
def test_growth_is_found(what: str) -> None:
    grown = {"rss": 3e8, "threads": 30, "files": 50, "connections": 25}[what]
    events = [*history()[:-10], *(usage(400.0 + second, **{what: grown}) for second in range(10))]
    (violation,) = judge.check_history(events)
    assert violation.startswith(f"{what} of controller has grown")
    soon = [*history()[:-10], *(usage(40.0 + second, **{what: grown}) for second in range(10))]
    assert judge.check_history(soon) == [], "a minute says nothing"


def test_a_query_that_was_just_started_is_not_compared_with_an_older_one() -> None:
    def of_query(age: float) -> list[Event]:
        young = [usage(second, ("query", age), threads=300) for second in range(10)]
        old = [usage(400.0 + second, ("query", 400.0), threads=420) for second in range(10)]
        return [*young, *history()[:-10], *old]

    assert judge.check_history(of_query(100.0)) == []
    (violation,) = judge.check_history(of_query(200.0))
    assert violation.startswith("threads of query has grown")


def test_who_was_expelled_may_give_up_late() -> None:
    late = _with(event(8.5, "copier-2.1", "give up", partitions=[1]))(history())
    assert len(judge.check_history(late)) == 1
    assert judge.check_history(_with(event(7.5, "run", "expelled"))(late)) == []
    assert len(judge.check_history(_with(event(3.5, "run", "expelled"))(late))) == 1, "it got the key later"


def test_events_of_several_processes_are_put_in_order() -> None:
    assert [one["at"] for one in parse(['{"at": 2.5}', '{"at": 1}', '{"at": 2}'])] == [1, 2, 2.5]
