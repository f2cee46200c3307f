"""OrderedConsumer stopped at a boundary of a compacted topic, while the log cleaner takes away what lies behind it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka import Message

from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.kafka.ranges import LogQuestion, LogRanges
from spark_ordered_kafka.local import LocalCluster
from tests.inside import progress_in
from tests.integration.compacting import CLEANED_WITHIN, compact, names, raw, roll, table
from tests.integration.members import Room, committed, distinct, read_until, settle
from tests.integration.test_compacted import cleaning
from tests.servers import await_true

__all__ = ["cleaning"]


@pytest.mark.long
def test_a_boundary_is_met_although_the_record_behind_it_is_gone(
    cleaning: LocalCluster,
    topic_name: str,
) -> None:
    rows = table(cleaning, topic_name, 1)
    rows.put(names(0, 10))
    rows.resize(2)
    rows.put(names(0, 10))
    with ExitStack() as stack:
        room = Room(cleaning, stack)
        members = [room.member(topic_name, enable_auto_commit=False) for _ in range(2)]
        settle(members, 2)
        (waiting,) = (member for member in members if member.partitions == [0])

        def all_committed() -> bool:
            for member in members:
                member.consumer.commit()
            return distinct(members) == rows.written

        read_until(members, all_committed, "the first records")
        rows.put(names(0, 10))
        # Not committed, so that the next records of their keys wait.
        read_until(members, lambda: distinct(members) == rows.written, "the next records")
        rows.resize(1)
        boundary = rows.told().layouts[-1].starts[0]
        rows.put([b"gone"])
        progress = progress_in(waiting.consumer, topic_name, 0)
        read_until(members, lambda: progress.paused and progress.dropped is not None, "a closed gate")
        rows.put([b"gone"], delete=True)
        compact(rows)

        def left() -> list[Message]:
            roll(rows, 2)
            return [one for one in raw(cleaning, topic_name)[0] if (one.offset() or 0) >= boundary]

        await_true(lambda: not left(), "nothing left behind the boundary", CLEANED_WITHIN)
        ranges = LogRanges(
            Connection({"bootstrap.servers": cleaning.bootstrap_servers}, cleaning.controller_url)
        )
        end = ranges.log(topic_name, LogQuestion([0])).ends[0]

        def done() -> bool:
            for member in members:
                member.consumer.commit()
            return committed(room, topic_name, 1) == [end]

        read_until(members, done, f"the end of the log, {end}")
