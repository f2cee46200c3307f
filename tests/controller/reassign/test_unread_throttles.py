"""What stays of throttles while a request cannot be read."""

from __future__ import annotations

from spark_ordered_kafka.controller.reassign.throttle.policy import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    ConfigOverride,
    Key,
    Rate,
    Replicas,
    Wanted,
)
from spark_ordered_kafka.controller.reassign.throttle.unread import both, kept
from spark_ordered_kafka.kafka.values import Reassignment

LEADERS, FOLLOWERS = Key("topic", "t", LEADER_REPLICAS), Key("topic", "t", FOLLOWER_REPLICAS)
LISTED = {
    LEADERS: ConfigOverride(original="9:9", value="9:9,0:1,1:1", requests=(3,)),
    FOLLOWERS: ConfigOverride(original=None, value="0:2,1:2", requests=(3,)),
}
RATES = {
    Key("broker", broker, name): ConfigOverride(original="77" if broker == "1" else None, value="500")
    for broker in ("1", "2", "3")
    for name in (LEADER_RATE, FOLLOWER_RATE)
}
ONGOING = {("t", 0): Reassignment((1, 2), (2,), ()), ("other", 0): Reassignment((3, 4), (4,), ())}


def test_what_kafka_still_moves_stays_limited_and_nothing_else() -> None:
    brokers = ("1", "2")
    assert kept(LISTED | RATES, ONGOING, ()) == {
        LEADERS: Replicas(frozenset({(0, 1)}), (3,)),
        FOLLOWERS: Replicas(frozenset({(0, 2)}), (3,)),
        **{
            Key("broker", broker, name): Rate(500)
            for broker in brokers
            for name in (LEADER_RATE, FOLLOWER_RATE)
        },
    }
    assert kept(LISTED | RATES, {}, ()) == {}
    assert kept(RATES, ONGOING, ()) == {}, "somebody else's"


def test_what_is_being_restored_already_is_restored() -> None:
    held = {
        **LISTED,
        Key("broker", "1", LEADER_RATE): ConfigOverride(original=None, value=None, earlier=("5",)),
    }
    assert kept(held, ONGOING, ()).keys() == LISTED.keys()


def test_copies_between_log_directories_stay_limited() -> None:
    held = {Key("broker", b, LOG_DIRS_RATE): ConfigOverride(original=None, value="8") for b in ("1", "2")}
    assert kept(held, {}, ["2"]) == {Key("broker", "2", LOG_DIRS_RATE): Rate(8)}


def test_a_request_that_can_be_read_has_its_own_beside_it() -> None:
    rate = Key("broker", "1", LEADER_RATE)
    wishes: Wanted = {LEADERS: Replicas(frozenset({(5, 1)}), (4,)), rate: Rate(900)}
    assert both(wishes, kept(LISTED | RATES, ONGOING, ())) == {
        **kept(LISTED | RATES, ONGOING, ()),
        LEADERS: Replicas(frozenset({(0, 1), (5, 1)}), (3, 4)),
        rate: Rate(900),
    }
