"""What was delivered for a transaction that is not committed comes again, once: one case after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka import OrderedConsumer, OrderedProducer
from spark_ordered_kafka.errors import RebalancedError, RequestError, UnavailableError
from tests.integration.desk import MANUAL, Desk, held
from tests.integration.members import (
    Recorder,
    Room,
    committed,
    exact,
    idle,
    partitions_of,
    read_until,
    settle,
)
from tests.integration.producing import ReportError, failing_reports
from tests.queries import await_stable
from tests.servers import await_true
from tests.streams import change, create, raw_records


@pytest.mark.parametrize(
    ("has_met", "aborts"),
    [
        pytest.param(False, False, marks=pytest.mark.long),
        (False, True),
        (True, False),
        pytest.param(True, True, marks=pytest.mark.long),
    ],
)
def test_a_rebalance_between_two_calls_of_consume(desk: Desk, has_met: bool, aborts: bool) -> None:
    producer, first = desk.producer(), desk.member()
    if has_met:
        desk.copy(first, producer)
        producer.send_offsets(first.consumer)
        producer.commit()
    desk.copy(first, producer)
    second = desk.member()
    settle([first, second], 2)
    # Of the old assignment and of the new one, in one transaction.
    desk.writer.write()
    desk.copy(first, producer, 3)
    with pytest.raises(RebalancedError):
        producer.send_offsets(first.consumer)
    if aborts:
        producer.abort()
    assert len(producer) == 0
    second.consumer.rewind()  # what settle() has read of it
    desk.copy_rest(producer, first, second)


@pytest.mark.parametrize("way", ["rewind, abort", "abort, rewind", "abort", "rewind"])
def test_a_transform_that_fails(desk: Desk, way: str) -> None:
    producer, member = desk.producer(), desk.member()
    if way in ("abort", "rewind"):
        # From here on the producer knows whom an abort concerns.
        producer.send_offsets(member.consumer)
    desk.copy(member, producer)
    desk.copy(member, producer)
    for step in way.split(", "):
        producer.abort() if step == "abort" else member.consumer.rewind()
    if way == "rewind":
        # What was produced before must not be committed; the error drops it.
        with pytest.raises(RebalancedError, match=r"produced before rewind\(\)"):
            producer.send_offsets(member.consumer)
    desk.copy_rest(producer, member)


def test_offsets_that_are_refused_are_not_forgotten(desk: Desk, topic_name: str) -> None:
    other = create(desk.room.cluster, f"{topic_name}-other", 1)
    producer, member = desk.producer(), desk.member()
    desk.copy(member, producer)
    producer.produce(other, b"elsewhere")
    with pytest.raises(RequestError, match="spans one topic"):
        producer.send_offsets(member.consumer)
    producer.abort()
    desk.copy_rest(producer, member)


@pytest.mark.parametrize("then", ["abort", "rewind", "close"])
def test_a_commit_that_timed_out_takes_nothing_that_came_later(desk: Desk, then: str) -> None:
    producer, member = desk.producer(), desk.member()
    desk.copy(member, producer)
    producer.send_offsets(member.consumer)
    with held("commit"):
        with pytest.raises(UnavailableError, match="were not committed within 0 s"):
            producer.commit(0)
        # Made of what comes again, and at hand before the first transaction has even begun.
        desk.copy(member, producer, 5)
    getattr(member.consumer if then == "rewind" else producer, then)()
    if then == "rewind":
        with pytest.raises(RebalancedError):
            producer.send_offsets(member.consumer)
    elif then == "close":
        member.consumer.close()
        producer, member = desk.producer(), desk.member()
    desk.copy_rest(producer, member)


def test_another_assignment_waits_for_a_commit_that_timed_out(desk: Desk) -> None:
    """It began at what was committed before, and the rewind hid that its records were not to be delivered again."""
    producer, member = desk.producer(), desk.room.member(**MANUAL)
    member.consumer.assign(partitions_of(desk.source, 0, 1))
    desk.copy(member, producer)
    producer.send_offsets(member.consumer)
    delivered = list(member.messages)
    with held("commit"):
        with pytest.raises(UnavailableError, match="were not committed within 0 s"):
            producer.commit(0)
        member.consumer.assign(partitions_of(desk.source, 0, 1))
        member.consumer.rewind()
        assert idle(member) == []
        assert member.messages == delivered
    with pytest.raises(RebalancedError):
        producer.send_offsets(member.consumer)
    desk.copy_rest(producer, member)


@pytest.mark.parametrize("end", [OrderedProducer.flush, OrderedProducer.close])
def test_why_a_commit_that_timed_out_has_failed_is_raised(
    desk: Desk, end: Callable[[OrderedProducer], object]
) -> None:
    producer, first = desk.producer(), desk.member()
    desk.copy(first, producer)
    producer.send_offsets(first.consumer)
    second = desk.member()
    settle([first, second], 2)
    with held("commit"), pytest.raises(UnavailableError, match="were not committed within 0 s"):
        producer.commit(0)
    with pytest.raises(RebalancedError):
        end(producer)
    assert len(producer) == 0
    if end is OrderedProducer.close:
        producer.close()
        producer = desk.producer()
    second.consumer.rewind()  # what settle() has read of it
    desk.copy_rest(producer, first, second)


def test_a_commit_that_is_dropped_later_is_no_failure_of_the_next_one(desk: Desk) -> None:
    producer, member = desk.producer(), desk.member()
    desk.copy(member, producer)
    producer.send_offsets(member.consumer)
    with suppress(UnavailableError):
        producer.commit(0)
    producer.purge(blocking=False)
    await_true(lambda: len(producer) == 0, "nothing is left of the transaction")
    desk.copy_rest(producer, member)


@pytest.mark.parametrize("again", ["", "other topic", "target"])
def test_what_is_about_to_be_dropped_is_no_part_of_the_next_transaction(
    desk: Desk, topic_name: str, again: str
) -> None:
    other = create(desk.room.cluster, f"{topic_name}-other", 1)
    producer, member = desk.producer(), desk.member()
    producer.init_transactions()
    producer.send_offsets(member.consumer)
    desk.copy(member, producer)
    producer.produce(other, b"dropped")
    with held("abort"):
        producer.purge(blocking=False)
        assert len(producer) == 11
        if again == "target":
            desk.copy(member, producer)
        elif again:
            producer.produce(other, b"kept")
        else:
            producer.begin_transaction()
        producer.send_offsets(member.consumer)
    if again:
        producer.commit()
    else:
        producer.commit_transaction()
    await_true(lambda: len(producer) == 0, "nothing is left of what was dropped")
    desk.copy_rest(producer, member)
    await_stable(desk.room.cluster, other)
    kept = [b"kept"] if again == "other topic" else []
    assert [message.value() for message in raw_records(desk.room.cluster, other, 1)] == kept


def test_flush_commits_no_records_without_their_offsets(desk: Desk) -> None:
    producer, member = desk.producer(), desk.member()
    producer.send_offsets(member.consumer)
    producer.commit()
    desk.copy(member, producer)
    assert producer.flush() == 10
    assert desk.copied() == 0
    producer.send_offsets(member.consumer)
    # It waits for what has its offsets, like commit().
    assert producer.flush() == 0
    desk.copy(member, producer)
    producer.abort()
    desk.copy_rest(producer, member)


@pytest.mark.parametrize(
    "raises", [pytest.param(False, marks=pytest.mark.long), True], ids=["", "callbacks raise"]
)
@pytest.mark.parametrize("ends", ["producer, consumer", "consumer, producer"])
def test_the_end_comes_in_the_middle(desk: Desk, ends: str, raises: bool) -> None:
    producer, member = desk.producer(), desk.member()
    desk.copy(member, producer)
    producer.send_offsets(member.consumer)
    producer.commit()
    left = failing_reports(producer, desk.target) if raises else []
    desk.copy(member, producer)

    def close() -> None:
        with pytest.raises(ReportError, match="1") if raises else nullcontext():
            producer.close()
        assert left == list(range(len(left)))

    steps: dict[str, Callable[[], object]] = {"producer": close, "consumer": member.consumer.close}
    for end in ends.split(", "):
        steps[end]()
    assert desk.copied() == 10
    successor = desk.producer()
    desk.copy_rest(successor, desk.member())


@pytest.mark.parametrize("rebalanced", [False, True])
def test_two_consumers_of_one_transaction(desk: Desk, topic_name: str, rebalanced: bool) -> None:
    producer, first = desk.producer(), desk.member()
    other = Desk(desk.room, f"{topic_name}-2", desk.stack)
    other.target = desk.target
    elsewhere = Room(desk.room.cluster, desk.stack)
    second = elsewhere.member(other.source, **MANUAL)
    for member, at in ((first, desk), (second, other)):
        at.copy(member, producer)
        if not rebalanced or member is second:
            producer.send_offsets(member.consumer)
    if rebalanced:
        third = desk.member()
        settle([first, third], 2)
        with pytest.raises(RebalancedError):
            producer.send_offsets(first.consumer)
        third.consumer.close()
    producer.commit()
    done = [
        sum(max(at, 0) for at in committed(room, source.source, 2))
        for room, source in ((desk.room, desk), (elsewhere, other))
    ]
    assert [at > 0 for at in done] == [not rebalanced] * 2
    assert desk.copied() == (0 if rebalanced else 20)


@pytest.mark.long
def test_a_member_that_was_taken_for_dead(desk: Desk) -> None:
    producer = desk.producer()
    sleeper = desk.member(max_poll_interval_ms=6000, session_timeout_ms=6000)
    desk.copy(sleeper, producer)
    successor = desk.member()
    # It does not call, so it is not told either.
    read_until([successor], lambda: len(successor.partitions) == 2, "all partitions with the successor")
    with pytest.raises(RebalancedError):
        producer.send_offsets(sleeper.consumer)
    sleeper.consumer.close()
    successor.consumer.rewind()
    desk.copy_rest(producer, successor)


@pytest.mark.parametrize("way", ["commit", "abort"])
def test_partitions_are_given_back_in_the_middle(desk: Desk, way: str) -> None:
    """The application ends its transaction in on_revoke."""
    producer, other = desk.producer(), desk.producer()

    def end(consumer: OrderedConsumer, _: list[TopicPartition]) -> None:
        if way == "abort":
            producer.abort()
        else:
            producer.send_offsets(consumer)
            producer.commit()

    first = desk.room.member(**MANUAL)
    first.consumer.subscribe([desk.source], on_revoke=end)
    producer.send_offsets(first.consumer)
    desk.copy(first, producer)
    second = desk.member()

    def shared() -> bool:
        desk.take(first, producer)
        desk.take(second, other)
        return len(first.partitions) == len(second.partitions) == 1

    await_true(shared, "a partition each")
    # The open transactions of both are whole: nothing was lost with the partitions.
    for member, ends in ((first, producer), (second, other)):
        ends.send_offsets(member.consumer)
        ends.commit()
    desk.copy_rest(producer, first, second)
    first.consumer.close()  # calls on_revoke, while there is a producer


def test_keys_that_were_let_go_of_in_vain_are_told_again(desk: Desk, topic_name: str) -> None:
    story: list[Any] = []

    def has_first() -> bool:
        """All records from before the change; of those behind it, some may be there."""
        rows = {(m.value() or b"").decode() for m in member.messages}
        return {f"k{key}:{number}" for key in range(8) for number in range(5)} <= rows

    producer = desk.producer()
    member = desk.room.member(desk.source, listener=Recorder(story), **MANUAL)
    read_until([member], lambda: len(member.messages) == desk.writer.written, "the records")
    change(desk.room.cluster, desk.source, 4)
    desk.writer.write()
    settle([member], 4)
    member.consumer.rewind()
    del story[:], member.messages[:]
    read_until([member], has_first, "the records again")
    producer.send_offsets(member.consumer)
    revoked = [sorted(partitions) for what, partitions in story if what == "revoked"]
    assert [0, 1] in revoked
    producer.abort()
    story.append("aborted")
    member.messages.clear()
    read_until([member], has_first, "the records once more")
    # Their state was flushed and may be gone: it is asked for again before the first record.
    again = story[story.index("aborted") :]
    assert {p for what, partitions in again[1:] if what == "assigned" for p in partitions} >= {0, 1}
    producer.send_offsets(member.consumer)
    producer.commit()
    read_until([member], lambda: len(member.messages) == 80, "the records behind the change")
    exact(member.messages, desk.writer.written)


@pytest.mark.long
def test_a_rewind_closes_the_gate_again(desk: Desk) -> None:
    """The newer records of a key, in hand already, wait for its older ones to come again."""
    producer, member = desk.producer(), desk.member()
    desk.writer.write(4)
    change(desk.room.cluster, desk.source, 4)
    desk.writer.write(4)
    change(desk.room.cluster, desk.source, 2)
    desk.writer.write(4)
    for count in (1, 150, 7, 250, 300):
        desk.copy(member, producer, count)
        producer.send_offsets(member.consumer)
        producer.abort()
        assert member.consumer.position([TopicPartition(desk.source, 0)])[0].offset < 0
    desk.copy_rest(producer, member)
