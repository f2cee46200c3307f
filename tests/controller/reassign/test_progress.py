"""Progress in bytes, rate and time, on figures worked out by hand."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.controller.reassign.machine.cluster_state import (
    Directories,
    Partition,
)
from spark_ordered_kafka.controller.reassign.machine.progress import (
    UNKNOWN,
    Rate,
    completed,
    measured,
    measured_late,
    rows,
    seconds_left,
    totals,
    unmeasured,
)
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.kafka.values import LocalReplica
from spark_ordered_kafka.updates import updated

PARTITION = Partition(1.0, "id", 1, (1, 2), (1, 2))


def a_move(**fields: object) -> Move:
    given = {"topic": "t", "partition": 0, "before": (1, 2), "after": (2, 3), "state": "moving"}
    return Move.model_validate({**given, **fields})


def directories(**held: LocalReplica) -> Directories:
    return Directories(
        1.0, frozenset({1, 2, 3}), {("t", 0, int(name[1:])): one for name, one in held.items()}
    )


def test_a_new_replica_is_measured_by_the_leaders_log() -> None:
    move = measured(a_move(), PARTITION, directories(b1=LocalReplica("/a", 1000), b3=LocalReplica("/a", 250)))
    assert move.copied == {3: (250, 1000)}


def test_a_replica_that_is_not_there_yet_has_nothing_of_it() -> None:
    assert measured(a_move(), PARTITION, directories(b1=LocalReplica("/a", 1000))).copied == {3: (0, 1000)}


def test_never_more_is_there_than_there_will_be_and_an_empty_log_has_one_byte() -> None:
    move = measured(a_move(), PARTITION, directories(b1=LocalReplica("/a", 10), b3=LocalReplica("/a", 12)))
    assert move.copied == {3: (10, 10)}
    assert measured(a_move(), PARTITION, directories(b1=LocalReplica("/a", 0))).copied == {3: (0, 1)}


def test_without_a_leader_the_whole_is_not_known_or_as_it_was() -> None:
    leaderless = Partition(1.0, "id", -1, (1, 2), (1, 2))
    there = directories(b3=LocalReplica("/a", 250))
    assert measured(a_move(), leaderless, there).copied == {3: (250, UNKNOWN)}
    assert measured(a_move(copied={3: (100, 1000)}), leaderless, there).copied == {3: (250, 1000)}


def test_a_broker_that_does_not_tell_stays_as_it_was() -> None:
    silent = Directories(1.0, frozenset({1}), {("t", 0, 1): LocalReplica("/a", 1100)})
    assert measured(a_move(copied={3: (100, 1000)}), PARTITION, silent).copied == {3: (100, 1100)}


def test_a_move_between_log_directories_is_measured_by_the_temporary_replica() -> None:
    move = a_move(after=(1, 2), before_log_dirs=("/a", "/a"), after_log_dirs=("/b", None))
    assert measured(move, PARTITION, directories(b1=LocalReplica("/a", 900, "/b", 300))).copied == {
        1: (300, 900)
    }
    assert measured(move, PARTITION, directories(b1=LocalReplica("/b", 950))).copied == {1: (950, 950)}


def test_what_was_over_before_it_could_be_measured_is_measured_late() -> None:
    done = updated(completed(a_move()), state="done")
    assert unmeasured(done) == (3,)
    late = measured_late(done, directories(b3=LocalReplica("/a", 700)))
    assert late.copied == {3: (700, 700)}
    assert measured_late(late, directories(b3=LocalReplica("/a", 900))) is late
    assert unmeasured(a_move(state="failed", copied={3: (1, 1)})) == ()


def test_what_copies_nothing_has_one_row_of_one() -> None:
    for state, there in (("moving", 0), ("done", 1)):
        (row,) = rows(a_move(after=(2,), state=state))
        assert (row.broker, row.numerator, row.denominator) == (2, there, 1)


def test_rows_are_in_progress_until_the_end_says_how_it_was() -> None:
    (row,) = rows(a_move(copied={3: (1, 5)}))
    assert (row.numerator, row.denominator, row.error_code) == (1, 5, 60)
    (row,) = rows(a_move(error_code=8))
    assert row.error_code == 60, "it is being taken back"
    (row,) = rows(a_move(state="failed", error_code=8, error_message="away"))
    assert (row.error_code, row.error_message, row.denominator) == (8, "away", UNKNOWN)
    (row,) = rows(updated(completed(a_move(copied={3: (1, 5)})), state="done"))
    assert (row.numerator, row.denominator, row.error_code) == (5, 5, 0)


def test_sums_count_moves_and_what_is_left_of_them() -> None:
    moving, waiting = a_move(copied={3: (10, 100)}), a_move(state="waiting", copied={3: (0, 50)})
    failed = a_move(state="failed", copied={3: (20, 60)})
    sums = totals([moving, waiting, failed, a_move(state="failed")])
    assert (sums.numerator, sums.denominator, sums.remaining) == (30, 210, 140)
    assert (sums.moving, sums.states["waiting"], sums.states["failed"]) == (1, 1, 2)


def test_a_sum_is_not_known_while_a_part_of_it_is_not() -> None:
    sums = totals([a_move(copied={3: (10, 100)}), a_move(state="waiting")])
    assert (sums.numerator, sums.denominator, sums.remaining) == (10, UNKNOWN, None)
    assert seconds_left(sums, Rate(1.0, 10, 5.0)) is None


def test_the_rate_follows_within_seconds_and_jumps_of_a_moment_are_smoothed() -> None:
    rate = Rate(0.0, 0)
    assert rate.per_second is None
    for second in range(1, 4):
        rate = rate.after(float(second), 100 * second)
    assert rate.per_second == pytest.approx(100)
    burst = rate.after(4.0, 300 + 1100)
    assert 100 < (burst.per_second or 0) < 500
    for second in range(5, 60):
        burst = burst.after(float(second), 1400)
    assert burst.per_second == pytest.approx(0, abs=1)


def test_the_rate_is_never_negative_and_two_looks_at_once_do_not_divide_by_zero() -> None:
    rate = Rate(0.0, 1000).after(1.0, 500)
    assert rate.per_second == 0
    assert rate.after(1.0, 700) is rate


def test_the_time_that_is_left() -> None:
    sums = totals([a_move(copied={3: (10, 100)})])
    assert seconds_left(sums, Rate(1.0, 10, 30.0)) == 3.0
    assert seconds_left(sums, Rate(1.0, 10, 0.0)) is None
    assert seconds_left(sums, None) is None
    assert seconds_left(totals([a_move(state="done")]), None) == 0.0
