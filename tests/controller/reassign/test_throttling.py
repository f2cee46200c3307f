"""Rates, lists of replicas, and warnings about throttles that are too slow."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.controller.reassign.throttle.policy import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    ConfigOverride,
    Found,
    Key,
    Need,
    Rate,
    Replicas,
    ThrottlesRecord,
    advance,
    too_slow,
    wanted,
)
from spark_ordered_kafka.controller.state.reassignment_records import Move, MoveState
from spark_ordered_kafka.controller.zk.records import dump
from spark_ordered_kafka.updates import updated


def move(
    partition: int,
    before: tuple[int, ...],
    after: tuple[int, ...],
    state: MoveState = "moving",
    topic: str = "t",
) -> Move:
    return Move(topic=topic, partition=partition, before=before, after=after, state=state)


def placed(partition: int, state: MoveState = "moving") -> Move:
    """Broker 1's replica goes to another log directory, broker 2's stays where it is, broker 3's may be anywhere."""
    there = move(partition, (1, 2, 3), (1, 2, 3), state)
    return updated(there, before_log_dirs=("/a", "/a", "/a"), after_log_dirs=("/b", "/a", None))


def broker(number: int, name: str) -> Key:
    return Key("broker", str(number), name)


def test_what_requests_need() -> None:
    needs = {
        3: Need(30, None, (move(0, (1,), (2,)),)),
        2: Need(
            20, 200, (move(1, (2, 1), (2, 4)), placed(2), placed(3, "done"), move(4, (5,), (6,), "failed"))
        ),
        4: Need(None, None, (move(7, (1,), (4,)),)),
    }
    expected: dict[Key, Rate | Replicas] = {
        broker(1, LOG_DIRS_RATE): Rate(200),
        Key("topic", "t", LEADER_REPLICAS): Replicas(frozenset({(0, 1), (1, 2), (1, 1)}), (2, 3)),
        Key("topic", "t", FOLLOWER_REPLICAS): Replicas(frozenset({(0, 2), (1, 4)}), (2, 3)),
    }
    for number, rate in ((1, 30), (2, 30), (4, 20)):
        expected |= {broker(number, name): Rate(rate) for name in (LEADER_RATE, FOLLOWER_RATE)}
    assert wanted(needs) == expected


def test_what_copies_nothing_needs_nothing() -> None:
    still = (
        move(0, (1, 2), (2, 1)),
        move(1, (1, 2), (1,)),
        move(2, (1,), (2,), "placing"),
        move(3, (1,), (2,), "cancelled"),
    )
    assert wanted({1: Need(5, 5, still)}) == {}
    assert wanted({1: Need(None, None, (placed(0),))}) == {}
    assert broker(1, LOG_DIRS_RATE) in wanted({1: Need(None, 5, (placed(0, "placing"),))})


@pytest.mark.parametrize(
    ("prior", "merged"),
    [
        (None, "2:1,10:1"),
        ("", "2:1,10:1"),
        ("*", "*"),
        (" * ", " * "),
        ("10:1", "10:1,2:1"),
        ("9:9,2:1", "9:9,2:1,10:1"),
        ("2:1,10:1,0:0", "2:1,10:1,0:0"),
    ],
)
def test_an_owners_list_comes_first(prior: str | None, merged: str) -> None:
    ours = Replicas(frozenset({(10, 1), (2, 1)}), (1,))
    assert ours.value(ConfigOverride(original=prior, value=prior)) == merged


def test_a_list_gets_shorter_by_halves_and_with_every_request() -> None:
    def value(held: ConfigOverride, count: int, *requests: int) -> str | None:
        return Replicas(frozenset((partition, 1) for partition in range(count)), requests).value(held)

    ten = ",".join(f"{partition}:1" for partition in range(10))
    held = ConfigOverride(original="9:9", value=f"9:9,{ten}", requests=(1, 2))
    assert value(held, 10, 1, 2) == value(held, 5, 1, 2) == f"9:9,{ten}"
    assert value(held, 4, 1, 2) == "9:9,0:1,1:1,2:1,3:1"
    assert value(held, 5, 1) == "9:9,0:1,1:1,2:1,3:1,4:1"
    assert value(held, 11, 1, 2) == f"9:9,{ten},10:1"


def test_what_waits_for_long_is_not_listed_yet() -> None:
    begun = [move(partition, (1,), (2,)) for partition in range(700)]
    waiting = [move(partition, (1,), (3,), "waiting") for partition in range(700, 1300)]
    wishes = wanted(
        {1: Need(5, None, (*begun, *waiting)), 2: Need(5, None, (move(1299, (1,), (3,), "waiting"),))}
    )
    listed = wishes[Key("topic", "t", LEADER_REPLICAS)]
    assert isinstance(listed, Replicas)
    assert listed.replicas == {(partition, 1) for partition in (*range(1200), 1299)}
    assert wishes[broker(3, FOLLOWER_RATE)] == Rate(5)


def test_a_list_that_is_too_long_for_kafka_is_all() -> None:
    own = ConfigOverride(original=None, value=None)
    assert len(Replicas(frozenset((p, 10) for p in range(4000)), (1,)).value(own)) < 32_767
    assert Replicas(frozenset((p, 10) for p in range(10_000)), (1,)).value(own) == "*"


@pytest.mark.long
@pytest.mark.parametrize("topics", [1, 100, 10_000])
def test_ten_thousand_partitions_can_be_recorded(topics: int) -> None:
    moves = tuple(
        move(
            at // topics,
            (at % 999, at % 999 + 1, at % 999 + 2),
            (at % 999 + 3, 1),
            topic=f"orders-{at % topics:032d}",
        )
        for at in range(10_000)
    )
    wishes = wanted({1: Need(5, 5, moves)})
    found = Found(dict.fromkeys(wishes))
    assert len(dump(advance(ThrottlesRecord(), wishes, found).record)) < 450_000


def test_a_value_that_never_changed_is_no_bodys_change() -> None:
    """An owner whose rate is the request's keeps it, and nothing is asked of Kafka."""
    key = broker(1, LEADER_RATE)
    step = advance(ThrottlesRecord(), {key: Rate(5)}, Found({key: "5"}))
    assert step.changes == {}
    assert step.record.held() == {key: ConfigOverride(original="5", value="5")}
    assert advance(step.record, {}, Found({key: "5"})).record == ThrottlesRecord()


def test_nothing_is_said_of_a_broker_that_does_not_answer_and_has_nothing_to_do() -> None:
    key = broker(1, LEADER_RATE)
    held = ThrottlesRecord().holding({key: ConfigOverride(original=None, value="5")})
    assert advance(held, {key: Rate(5)}, Found({})).absent == ()
    assert advance(held, {key: Rate(6)}, Found({})).absent == ("1",)
    assert advance(held, {}, Found({})).absent == ("1",)
    assert advance(held, {}, Found({})).record == held
    theirs = ThrottlesRecord().holding(
        {key: ConfigOverride(original=None, value="5", externally_modified=True)}
    )
    assert advance(theirs, {key: Rate(6)}, Found({})).absent == ()


def test_what_somebody_else_has_set_is_told_in_short() -> None:
    keys = [Key("topic", f"t{number:02}", LEADER_REPLICAS) for number in range(12)]
    held = ThrottlesRecord().holding(dict.fromkeys(keys, ConfigOverride(original=None, value="0:1")))
    theirs = ",".join(f"{partition}:9" for partition in range(1000))
    step = advance(held, dict.fromkeys(keys, Rate(1)), Found(dict.fromkeys(keys, theirs)))
    assert step.changes == {}
    (told,) = step.warnings
    shown = "t00, t01, t02, t03, t04, t05, t06, t07, t08, t09 and 2 more"
    assert (
        told == f"{LEADER_REPLICAS} of topic {shown} was changed by somebody else, and stays {theirs[:100]}…"
    )


MB = 1_000_000
PLACES = {("t", 0): 1, ("t", 1): 1, ("t", 2): 2}


def test_throttles_below_the_write_rate_are_told() -> None:
    before = dict.fromkeys(PLACES, 10 * MB)
    after = {("t", 0): 40 * MB, ("t", 1): 20 * MB, ("t", 2): 5 * MB}
    moves = (
        move(0, (1, 2), (3, 4)),
        move(1, (1,), (3,)),
        move(2, (2,), (1,)),
        move(5, (1,), (2,)),  # of unknown size
    )
    # 3 and 1 MB/s are written; broker 3 receives both, broker 1 leads both and sends the first one to three others.
    told = too_slow({1: Need(3 * MB, None, moves)}, PLACES, before, after, 10.0)
    assert told == [
        "broker 1: the throttle of 3.0 MB/s is not above the 10.0 MB/s that are written to the partitions it leads and "
        "sends away: they never catch up, raise the throttle",
        "broker 3: the throttle of 3.0 MB/s is not above the 4.0 MB/s that are written to the partitions it receives: "
        "they never catch up, raise the throttle",
        "broker 4: the throttle of 3.0 MB/s is not above the 3.0 MB/s that are written to the partitions it receives: "
        "they never catch up, raise the throttle",
    ]
    assert too_slow({1: Need(10 * MB + 1, None, moves)}, PLACES, before, after, 10.0) == []
    assert too_slow({1: Need(None, 1, moves)}, PLACES, before, after, 10.0) == []
    assert too_slow({1: Need(1, None, moves)}, PLACES, before, before, 10.0) == []
    assert too_slow({1: Need(1, None, moves)}, {}, before, {}, 10.0) == []
    assert too_slow({1: Need(1, None, moves)}, PLACES, before, after, 0.0) == []


def test_moves_that_wait_or_have_ended_are_not_slow() -> None:
    states: tuple[MoveState, ...] = ("waiting", "placing", "done", "failed", "cancelled")
    for state in states:
        needs = {1: Need(1, None, (move(0, (1,), (2,), state),))}
        assert too_slow(needs, PLACES, {("t", 0): 0}, {("t", 0): MB}, 1.0) == []


def test_the_newest_throttle_counts_for_what_all_requests_write() -> None:
    needs = {
        1: Need(10 * MB, None, (move(0, (1,), (3,)),)),
        2: Need(4 * MB, None, (move(2, (2,), (3,)),)),
    }
    before, after = dict.fromkeys(PLACES, 0), dict.fromkeys(PLACES, 2 * MB)
    (told,) = too_slow(needs, PLACES, before, after, 1.0)
    assert told.startswith("broker 3: the throttle of 4.0 MB/s is not above the 4.0 MB/s that are written")


def test_log_directories_that_never_catch_up_are_told() -> None:
    needs = {1: Need(None, 500_000, (placed(0, "placing"),))}
    (told,) = too_slow(needs, PLACES, {("t", 0): 0}, {("t", 0): 5 * MB}, 10.0)
    assert told == (
        "broker 1: the throttle of 500.0 kB/s is not above the 500.0 kB/s that are written to the partitions it moves "
        "between log directories: they never catch up, raise the throttle"
    )
