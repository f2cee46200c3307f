"""Throttles against a model of Kafka's configuration, with controllers that die between any two steps.

The oracle is short: in the end, every value is what its owner wrote last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.reassign.throttle.policy import (
    ALL_REPLICAS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    RATES,
    REPLICAS,
    Found,
    Key,
    Need,
    ThrottlesRecord,
    advance,
    wanted,
)
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move, MoveState
from spark_ordered_kafka.controller.zk.records import dump, parse
from tests.seeds import examples

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b")
KEYS = [Key("broker", str(b), n) for b in BROKERS for n in RATES] + [
    Key("topic", t, n) for t in TOPICS for n in REPLICAS
]
_MANY = 50


class Died(Exception):
    """The controller has died."""


@st.composite
def moves(draw: st.DrawFn) -> tuple[Move, ...]:
    found = []
    for topic, partition in draw(
        st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 5)), min_size=1, max_size=6, unique=True)
    ):
        replicas = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
        before, after = draw(replicas), draw(replicas)
        dirs = draw(st.booleans())
        found.append(
            Move(
                topic=topic,
                partition=partition,
                before=tuple(before),
                after=tuple(after),
                before_log_dirs=tuple("/x" for _ in before) if dirs else None,
                after_log_dirs=tuple(draw(st.sampled_from(["/x", "/y", None])) for _ in after)
                if dirs
                else None,
                state=draw(st.sampled_from(["waiting", "starting", "moving", "placing"])),
            )
        )
    return tuple(found)


rates = st.none() | st.integers(1, 5)
needs_ = st.builds(Need, rates, rates, moves())


class World:
    """Kafka, ZooKeeper, operators and requests."""

    def __init__(self) -> None:
        self.kafka: dict[Key, str | None] = dict.fromkeys(KEYS)
        self.owner = dict(self.kafka)
        self.stored = dump(ThrottlesRecord())
        self.down: set[int] = set()
        self.deleted: set[str] = set()
        self.needs: dict[int, Need] = {}
        self.requests = 0
        self.writes = 0
        # Written by their owners while they were held: theirs until no request needs them any more.
        self.taken: set[Key] = set()

    @property
    def record(self) -> ThrottlesRecord:
        return parse(ThrottlesRecord, self.stored, "stored")

    def operate(self, key: Key, kind: str) -> None:
        """Somebody else changes a value: to one that nobody has had, to nothing, or to all replicas."""
        self.writes += 1
        value = None if kind == "nothing" else str(1000 + self.writes)
        if key.kind == "topic" and value is not None:
            value = ALL_REPLICAS if kind == "all" else f"{self.writes}:9,{self.writes}:8"
        if key.resource in self.deleted or (key.kind == "broker" and int(key.resource) in self.down):
            return
        self._owned(key, value)

    def delete(self, topic: str) -> None:
        self.deleted.add(topic)
        for key in KEYS:
            if key.resource == topic:
                self._owned(key, None)

    def _owned(self, key: Key, value: str | None) -> None:
        self.kafka[key] = self.owner[key] = value
        if key in self.record.held():
            self.taken.add(key)

    def reconcile(self, dies_at: int) -> bool:
        """Whether nothing is left to do; raises Died before the step of that number."""
        steps = iter(range(_MANY))

        def before_step() -> None:
            if next(steps) == dies_at:
                raise Died

        wishes = wanted(self.needs)
        for _ in range(_MANY):
            asked = self.record.held().keys() | wishes.keys()
            values = {
                key: self.kafka[key]
                for key in asked
                if key.resource not in self.deleted
                and (key.kind == "topic" or int(key.resource) not in self.down)
            }
            step = advance(self.record, wishes, Found(values, self.deleted))
            before_step()
            self.stored = dump(step.record)
            for key, value in step.changes.items():
                assert key in values
                before_step()
                self.kafka[key] = value
            if not step.changes:
                self.taken &= step.record.held().keys()
                return not step.absent
        raise AssertionError(f"it does not end: {step}")


@st.composite
def events(draw: st.DrawFn) -> tuple[object, ...]:
    kind = draw(
        st.sampled_from(["operate", "request", "end", "progress", "alter", "down", "up", "delete", "create"])
    )
    choice: dict[str, st.SearchStrategy[object]] = {
        "operate": st.tuples(st.sampled_from(KEYS), st.sampled_from(["new", "nothing", "all"])),
        "request": needs_,
        "alter": st.tuples(rates, rates),
        "progress": st.sampled_from([state for state in get_args(MoveState) if state in ENDED]),
        "down": st.sampled_from(BROKERS),
        "up": st.sampled_from(BROKERS),
        "delete": st.sampled_from(TOPICS),
        "create": st.sampled_from(TOPICS),
    }
    # Which request or move, what happens, and before which step the controller dies that notices it (99: none).
    return (
        kind,
        draw(st.integers(0, 9)),
        draw(choice.get(kind, st.none())),
        draw(st.just(99) | st.integers(0, 9)),
    )


def happen(world: World, kind: str, which: int, what: object) -> None:
    active = sorted(world.needs)
    request = active[which % len(active)] if active else None
    if kind == "operate":
        assert isinstance(what, tuple)
        world.operate(*what)
    elif kind == "request":
        world.requests += 1
        assert isinstance(what, Need)
        world.needs[world.requests] = what
    elif kind == "down" and isinstance(what, int):
        world.down.add(what)
    elif kind == "up" and isinstance(what, int):
        world.down.discard(what)
    elif kind == "delete":
        world.delete(str(what))
    elif kind == "create":
        world.deleted.discard(str(what))
    elif request is not None:
        need = world.needs[request]
        if kind == "end":
            del world.needs[request]
        elif kind == "alter":
            assert isinstance(what, tuple)
            throttle, log_dir_throttle = what
            world.needs[request] = Need(throttle, log_dir_throttle, need.moves)
        else:
            after = list(need.moves)
            done = which % len(after)
            after[done] = Move.model_validate({**after[done].model_dump(), "state": what})
            world.needs[request] = Need(need.throttle, need.log_dir_throttle, tuple(after))


def expected_rate(world: World, broker: int, name: str) -> str | None:
    """The newest request's that copies something at the broker, else the owner's."""
    for request in sorted(world.needs, reverse=True):
        need = world.needs[request]
        moving = [move for move in need.moves if move.state in ("waiting", "starting", "moving")]
        if name == LOG_DIRS_RATE:
            placing = [move for move in need.moves if move.state not in ENDED]
            dirs = {
                b
                for move in placing
                for b, path in move.placements.items()
                if b not in move.before or path != (move.before_log_dirs or ())[move.before.index(b)]
            }
            if need.log_dir_throttle is not None and broker in dirs:
                return str(need.log_dir_throttle)
        elif need.throttle is not None and any(
            move.adding and broker in {*move.before, *move.after} for move in moving
        ):
            return str(need.throttle)
    return world.owner[Key("broker", str(broker), name)]


def places(world: World, topic: str, name: str, *, ended: bool) -> set[str]:
    """Replicas that throttled requests copy to or from, as Kafka writes them."""
    return {
        f"{move.partition}:{broker}"
        for need in world.needs.values()
        if need.throttle is not None
        for move in need.moves
        if move.topic == topic and move.adding and (ended or move.state in ("waiting", "starting", "moving"))
        for broker in (move.before if name == LEADER_REPLICAS else move.adding)
    }


def check_limits(world: World) -> None:
    """What Kafka has is what the requests need, but where its owner has changed it meanwhile."""
    for key in set(KEYS) - world.taken:
        if key.resource in world.deleted:
            continue
        if key.kind == "broker":
            assert world.kafka[key] == expected_rate(world, int(key.resource), key.name), key
            continue
        own = world.owner[key]
        need = places(world, key.resource, key.name, ended=False)
        if own == ALL_REPLICAS or not need:
            assert world.kafka[key] == own, key
            continue
        there = (world.kafka[key] or "").split(",")
        theirs = [] if own is None else own.split(",")
        assert there[: len(theirs)] == theirs, key
        assert len(there) == len(set(there)), key
        assert need <= set(there), key
        assert set(there) - set(theirs) <= places(world, key.resource, key.name, ended=True), key


@settings(max_examples=examples(300))
@given(st.lists(events(), max_size=14))
def test_everybody_gets_back_what_is_theirs(history: list[tuple[str, int, object, int]]) -> None:
    world = World()
    for kind, which, what, dies_at in history:
        happen(world, kind, which, what)
        try:
            complete = world.reconcile(dies_at)
        except Died:
            continue
        if complete and not world.down:
            check_limits(world)
    world.down.clear()
    assert world.reconcile(99)
    check_limits(world)
    world.needs.clear()
    assert world.reconcile(99)
    assert world.kafka == world.owner
    assert world.record == ThrottlesRecord()


def copied(world: World) -> World:
    other = World()
    other.__dict__.update(world.__dict__, kafka=dict(world.kafka), taken=set(world.taken))
    return other


def crashes(world: World) -> Iterator[World]:
    """The worlds that a controller leaves that dies before each step of its way."""
    for dies_at in range(_MANY):
        after = copied(world)
        try:
            after.reconcile(dies_at)
        except Died:
            yield after
        else:
            return


@pytest.mark.long
@settings(max_examples=examples(30))
@given(needs_, needs_, st.lists(st.sampled_from(KEYS), unique=True))
def test_the_next_controller_comes_to_the_same_end_wherever_the_last_one_died(
    first: Need, second: Need, owned: list[Key]
) -> None:
    world = World()
    for key in owned:
        world.operate(key, "new")
    left: list[World] = []
    for needs in ({1: first}, {1: first, 2: second}, {2: second}, {}):
        world.needs = dict(needs)
        for other in left:
            other.needs = dict(needs)
        # Also two in a row, while requests come and go.
        left = [after for other in (world, *left) for after in crashes(other)][:_MANY]
        assert world.reconcile(99)
        check_limits(world)
        for other in left:
            ended = copied(other)
            assert ended.reconcile(99)
            assert ended.kafka == world.kafka
            assert ended.record == world.record
    assert world.kafka == world.owner


def test_the_model_can_fail() -> None:
    """A record that is not there before Kafka is asked leaves the throttle behind."""
    world = World()
    move = Move(topic="a", partition=0, before=(1,), after=(2,))
    world.needs = {1: Need(5, None, (move,))}
    assert world.reconcile(99)
    assert (
        world.kafka[Key("broker", "1", LEADER_RATE)] == world.kafka[Key("broker", "2", FOLLOWER_RATE)] == "5"
    )
    assert world.kafka[Key("topic", "a", FOLLOWER_REPLICAS)] == "0:2"
    world.stored = dump(ThrottlesRecord())
    world.needs = {}
    assert world.reconcile(99)
    assert world.kafka != world.owner
