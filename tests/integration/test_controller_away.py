"""OrderedConsumer while no controller answers: what was fetched by then is delivered later, all of it."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import TopicPartition

from spark_ordered_kafka.client.layouts import Layouts
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.ordering.handover import LastRead
from tests.inside import directory_of, progress_in
from tests.integration.members import Room, begun, read_until
from tests.servers import await_true
from tests.streams import delete_records, raw_records


def test_what_is_fetched_anew_while_no_controller_answers_is_not_skipped(
    room: Room, topic_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether logs were truncated cannot be asked then, so what comes is dropped, also where it might be delivered."""
    writer, read = begun(room, topic_name, 2, steps=10)
    for _ in range(50):
        writer.write()
    # What librdkafka has in hand would come before the error of the other partition.
    member = room.member(topic_name, queued_min_messages=1, fetch_message_max_bytes=1000)
    read_until([member], lambda: bool(member.messages), "the first of the later records")
    other = TopicPartition(topic_name, 1)
    member.consumer.pause([other])
    end = cast(tuple[int, int], member.consumer.get_watermark_offsets(other))[1]
    delete_records(room.cluster, topic_name, {1: end})
    nowhere = Connection({"bootstrap.servers": room.cluster.bootstrap_servers}, "http://127.0.0.1:1")
    with Layouts(nowhere, timeout=1.0, retry_for=0.0) as nobody, monkeypatch.context() as away:
        away.setattr(directory_of(member.consumer).client, "truncations", nobody.truncations)
        # As after an election: a record of the same leader shows that nothing was lost.
        away.setattr(LastRead, "is_kept_by", lambda *_: False)
        # Its log does not hold the position any more, so librdkafka is given both partitions anew.
        member.consumer.resume([other])

        def is_away() -> bool:
            member.read(count=1)
            return "truncations" in caplog.text and progress_in(member.consumer, topic_name, 0).paused

        await_true(is_away, "nothing is dropped")
    # Here only: of the other partition everything is gone.
    there = [m.offset() for m in raw_records(room.cluster, topic_name, 2) if m.partition() == 0]

    def delivered() -> list[int | None]:
        return [m.offset() for m in read + member.messages if m.partition() == 0]

    read_until([member], lambda: len(delivered()) >= len(there), "the records that were dropped")
    assert delivered() == there
