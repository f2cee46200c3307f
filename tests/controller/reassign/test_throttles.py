"""When throttles are set, beside values in place of Kafka's configuration and of ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_ordered_kafka.controller.reassign.throttle import manager
from spark_ordered_kafka.controller.reassign.throttle.manager import Throttles
from spark_ordered_kafka.controller.reassign.throttle.policy import FOLLOWER_REPLICAS, Need
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.updates import updated

Values = dict[Any, dict[str, str | None]]


class Znode:
    """A session with the one znode of throttles, whose transactions have one operation."""

    def __init__(self) -> None:
        self.row: tuple[bytes, int] | None = None

    def guard(self) -> tuple[int, int]:
        return 1, 0

    def read(self, _: str) -> tuple[bytes, int] | None:
        return self.row

    def transaction(self) -> Znode:
        return self

    def create(self, _: str, data: bytes) -> None:
        self.row = data, 0

    def set_data(self, _: str, data: bytes, version: int) -> None:
        self.row = data, version + 1

    def delete(self, *_: Any, version: int) -> None:
        self.row = None

    def commit(self, *_: Any) -> None:
        pass

    def verify(self) -> None:
        pass


class Configs:
    """Kafka's configuration of brokers or topics; reads are counted, and some may be ``refused``."""

    def __init__(self) -> None:
        self.values: Values = {}
        self.reads = 0
        self.refused: dict[Any, RequestError] = {}
        self.hidden: dict[Any, RequestError] = {}

    def describe_own(self, names: Collection[Any]) -> dict[Any, Any]:
        self.reads += 1
        return {name: self.hidden.get(name, dict(self.values.setdefault(name, {}))) for name in names}

    describe_many = describe_own

    def alter(self, changes: Mapping[Any, Mapping[str, str | None]]) -> dict[Any, RequestError]:
        for name, values in changes.items():
            if name not in self.refused:
                self.values.setdefault(name, {}).update(values)
        return {name: error for name, error in self.refused.items() if name in changes}

    alter_many = alter


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.brokers, self.topics = Configs(), Configs()
        monkeypatch.setattr(manager, "BrokerConfigs", lambda *_: self.brokers)
        monkeypatch.setattr(manager, "TopicConfigs", lambda *_: self.topics)
        admin = SimpleNamespace(requests=None)
        self.throttles = Throttles(cast(Any, Znode()), cast(Any, admin), timeout=5.0, clock=lambda: self.now)

    def reconcile(self, **needs: Need) -> list[str]:
        """``r1``: what request 1 needs."""
        return self.throttles.reconcile(
            {int(name[1:]): need for name, need in needs.items()}, threading.Event()
        )

    def lists(self, topic: str) -> bool:
        return bool(self.topics.values.get(topic, {}).get(FOLLOWER_REPLICAS))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def a_move(topic: str) -> Move:
    return Move(topic=topic, partition=0, before=(1,), after=(2,))


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 900])
def test_no_move_is_moving_before_its_topic_lists_it(world: World, first: int) -> None:
    """The brokers of the first moves may be busy, so that others begin before them."""
    moves = [a_move(f"t{number}") for number in range(1200)]
    world.reconcile(r1=Need(5, None, tuple(moves)))
    for begun in range(first, len(moves), 20):
        for state in ("starting", "moving"):
            for number in range(begun, begun + 20):
                moves[number] = updated(moves[number], state=state)
            if state == "starting":
                world.reconcile(r1=Need(5, None, tuple(moves)))
        assert all(world.lists(move.topic) for move in moves[begun : begun + 20])
    if first == 0:
        assert world.topics.reads <= 20, "lists of many moves are made at once"


REFUSALS: dict[str, Callable[[World], None]] = {
    "a list": lambda world: world.topics.refused.update(
        t0=RequestError(ErrorCode.POLICY_VIOLATION, "no throttled replicas")
    ),
    "a rate": lambda world: world.brokers.refused.update(
        {2: RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no right to alter")}
    ),
    "a look": lambda world: world.brokers.hidden.update(
        {2: RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no right to describe")}
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_request_whose_throttle_kafka_refuses_is_held_until_it_does_not(world: World, name: str) -> None:
    """Another one, for other brokers and topics, goes on."""
    mine = Need(5, None, (a_move("t0"),))
    others = Need(5, None, (Move(topic="t1", partition=0, before=(3,), after=(4,)),))
    REFUSALS[name](world)
    warnings = world.reconcile(r1=mine, r2=others)
    assert set(world.throttles.refused) == {1}
    assert any("POLICY_VIOLATION" in one or "AUTHORIZATION_FAILED" in one for one in warnings)
    for configs in (world.brokers, world.topics):
        configs.refused.clear()
        configs.hidden.clear()
    world.now += 60.0
    assert world.reconcile(r1=mine, r2=others) == []
    assert set(world.throttles.refused) == set()


def test_nobody_waits_for_the_throttles_of_a_broker_that_is_down(world: World) -> None:
    world.brokers.hidden[2] = RequestError(ErrorCode.BROKER_NOT_AVAILABLE, "it is down")
    world.brokers.refused[1] = RequestError(ErrorCode.REQUEST_TIMED_OUT, "it has died just now")
    assert len(world.reconcile(r1=Need(5, None, (a_move("t0"),)))) == 2
    assert set(world.throttles.refused) == set()
