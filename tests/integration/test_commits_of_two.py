"""Transactions of several topics or producers that commit the offsets of one consumer."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client import sending
from spark_ordered_kafka.errors import RebalancedError, RequestError, UnavailableError
from tests.integration.desk import Desk, held
from tests.integration.members import Member, committed
from tests.servers import TIMEOUT, await_true
from tests.streams import create


@pytest.mark.parametrize("producers", [1, 2])
def test_offsets_are_committed_in_the_order_of_delivery(desk: Desk, topic_name: str, producers: int) -> None:
    """A commit that timed out, without records or of another producer, put the group back behind a later one."""
    other = create(desk.room.cluster, f"{topic_name}-other", 1)
    first, member = desk.producer(), desk.member()
    second = first if producers == 1 else desk.producer()
    first.produce(other, b"begun", b"k")
    first.commit()
    await_true(lambda: bool(member.read(count=1)), "a record")
    if second is not first:
        first.produce(other, b"held", b"k")
    first.send_offsets(member.consumer)
    with held("commit", other):
        with pytest.raises(UnavailableError, match="were not committed within 0 s"):
            first.commit(0)
        desk.copy(member, second)
        second.send_offsets(member.consumer)
        with pytest.raises(RebalancedError, match="what was delivered before is not committed"):
            second.commit(0)
    copy_all_but_one(desk, second, member)
    first.commit()
    # Offsets lie behind the markers of the writer's transactions, too.
    assert sum(committed(desk.room, desk.source, 2)) >= desk.writer.written


def copy_all_but_one(desk: Desk, producer: OrderedProducer, member: Member) -> None:
    """The first record has been taken already."""

    def done() -> bool:
        desk.take(member, producer)
        producer.send_offsets(member.consumer)
        producer.commit()
        return desk.copied() >= desk.writer.written - 1

    await_true(done, "all but the first record")
    assert desk.copied() == desk.writer.written - 1


@pytest.mark.parametrize("is_told", [False, True], ids=["", "told"])
def test_what_follows_a_transaction_that_has_failed_is_not_committed(
    desk: Desk, topic_name: str, is_told: bool
) -> None:
    """The offsets of the second producer are behind what the first one had read, too, which would be lost."""
    other = create(desk.room.cluster, f"{topic_name}-other", 1, **{"max.message.bytes": "2000"})
    first, second, member = desk.producer(), desk.producer(), desk.member()
    await_true(lambda: bool(member.read(count=1)), "a record")
    first.produce(other, random.Random(0).randbytes(10_000))
    first.send_offsets(member.consumer)
    with pytest.raises(UnavailableError, match="were not committed within 0 s"):
        first.commit(0)
    desk.copy(member, second)
    second.send_offsets(member.consumer)
    if is_told:
        with pytest.raises(RequestError, match="MSG_SIZE_TOO_LARGE"):
            first.commit()
    with pytest.raises(RebalancedError, match="what was delivered before is not committed"):
        second.commit()
    desk.copy_rest(second, member)


@pytest.mark.parametrize("then", ["commit", "other topic", "abort"])
def test_offsets_without_a_topic_keep_to_the_timeout(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    commit_once, released = sending._commit_once, threading.Event()
    failures = iter([UnavailableError("no answer")])

    def slow(*arguments: Any) -> None:
        assert released.wait(TIMEOUT)
        if (failure := next(failures, None)) is not None:
            raise failure
        commit_once(*arguments)

    monkeypatch.setattr(sending, "_commit_once", slow)
    producer, member = desk.producer(), desk.member()
    await_true(lambda: bool(member.read(count=1)), "a record")
    producer.send_offsets(member.consumer)
    with pytest.raises(UnavailableError, match="were not committed within 0 s"):
        producer.commit(0)
    if then == "abort":
        producer.abort()
    elif then == "other topic":
        desk.copy(member, producer)
        producer.send_offsets(member.consumer)
        with pytest.raises(RebalancedError, match="what was delivered before is not committed"):
            producer.commit(0)
    released.set()
    if then == "commit":
        producer.commit()
        copy_all_but_one(desk, producer, member)
    else:
        desk.copy_rest(producer, member)
