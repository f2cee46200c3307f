"""Members that are closed while a rebalance waits for them."""

from __future__ import annotations

import faulthandler
import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Room, committed, read_until
from tests.servers import TIMEOUT, await_true
from tests.streams import written_through

_ROUNDS, _GROUPS = 8, 25
_CALLBACKS = ("assign", "revoke", "lost")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_members_for_whom_a_rebalance_waits_are_closed(room: Room, topic_name: str, kind: str) -> None:
    """The seed decides how long callbacks take, during which librdkafka leaves the group (D-453)."""
    writer = written_through(room.cluster, topic_name, 2)
    seed = random.randrange(2**32)
    ended = _apart(_close_many, room.cluster.directory, topic_name, writer.written, kind, seed)
    assert ended == 0, f"seed {seed}: exit code {ended}"


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_members_that_have_given_their_place_up_are_closed(room: Room, topic_name: str, kind: str) -> None:
    """What librdkafka has to say of it waits until they are closed (D-500)."""
    written_through(room.cluster, topic_name, 2)
    assert _apart(_close_late, room.cluster.directory, topic_name, kind) == 0


def _apart(target: Callable[..., None], *args: object) -> int | None:
    """The exit code of a process of its own: where librdkafka does not return, it keeps Python's lock."""
    closing = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=True)
    closing.start()
    closing.join(10 * TIMEOUT)
    ended = closing.exitcode
    closing.kill()
    return ended


def _close_late(directory: str, topic: str, kind: str) -> None:
    faulthandler.dump_traceback_later(2 * TIMEOUT, exit=True)
    stories: list[list[str]] = [[] for _ in range(_GROUPS)]
    more: dict[str, Any] = {"group_instance_id": "first"} if kind == "static" else {}
    with ExitStack() as stack:
        rooms = [Room(LocalCluster(directory), stack) for _ in range(_GROUPS)]
        members = [room.member(max_poll_interval_ms=3000, **more) for room in rooms]
        for story, member in zip(stories, members, strict=True):
            member.consumer.subscribe([topic], *(partial(_note, story, one) for one in _CALLBACKS))
        read_until(members, lambda: all(member.messages for member in members), "the first records")
        for member in members:
            consumer = member.consumer
            await_true(partial(_has_left, consumer), "the place is given up")
            consumer.close()
    # On a machine that stands still for long, one gives its place up before the others have read, too, and takes it again.
    wrong = [one for one in stories if one != ["assign", "lost"] * (len(one) // 2) or not one]
    assert not wrong, wrong


def _has_left(consumer: OrderedConsumer) -> bool:
    return not consumer.memberid()


def _note(story: list[str], what: str, *_: object) -> None:
    story.append(what)


def _close_many(directory: str, topic: str, written: int, kind: str, seed: int) -> None:
    faulthandler.dump_traceback_later(9 * TIMEOUT, exit=True)
    draw = random.Random(seed)
    for _ in range(_ROUNDS):
        with ExitStack() as stack:
            _close_some(stack, LocalCluster(directory), topic, written, kind, draw)


def _close_some(
    stack: ExitStack, cluster: LocalCluster, topic: str, written: int, kind: str, draw: random.Random
) -> None:
    revoked: list[int] = []
    rooms = [Room(cluster, stack) for _ in range(_GROUPS)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def on_revoke(number: int, consumer: OrderedConsumer, _: object) -> None:
        revoked.append(number)
        if number % 2:
            consumer.commit()
        time.sleep(draw.random() * longest)

    def are_rebalancing() -> bool:
        groups = admin.describe_consumer_groups([room.group for room in rooms]).values()
        return all(group.result().state == ConsumerGroupState.PREPARING_REBALANCING for group in groups)

    static = {"group_instance_id": "first", "heartbeat_interval_ms": 300, "session_timeout_ms": 3000}
    more: dict[str, Any] = static if kind == "static" else {}
    # librdkafka leaves the group of a dynamic member meanwhile; a static one may hear of the rebalance by a heartbeat.
    longest = 0.3 if kind == "static" else 0.006
    firsts = [room.member(enable_auto_commit=False, **more) for room in rooms]
    for number, first in enumerate(firsts):
        first.consumer.subscribe([topic], on_revoke=partial(on_revoke, number))
    read_until(firsts, lambda: all(len(first.messages) == written for first in firsts), "not all is read")
    seconds = [room.member(topic) for room in rooms]
    # The first members do not call, so the rebalance waits for them.
    read_until(seconds, are_rebalancing, "the second members do not join")
    for first in firsts:
        first.consumer.close()
    assert set(revoked) == set(range(_GROUPS))
    for number, room in enumerate(rooms):
        offsets = sum(committed(room, topic, 2))
        assert offsets >= written if number % 2 else offsets <= 0, (number, offsets)
