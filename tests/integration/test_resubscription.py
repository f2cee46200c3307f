"""OrderedConsumer whose subscription changes in the middle of things, and the end of a log that compaction has changed."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import DataLossError, RebalancedError
from tests.integration.members import Member, Room, committed, exact, read_until
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, conf, create


def is_assigned(room: Room, topic: str) -> bool:
    """Whether the group has given partitions of the topic to a member, who may not know yet."""
    admin = AdminClient({"bootstrap.servers": room.cluster.bootstrap_servers})
    described = admin.describe_consumer_groups([room.group])[room.group].result(TIMEOUT)
    return any(
        one.topic == topic for member in described.members for one in member.assignment.topic_partitions
    )


def two_topics(room: Room, name: str) -> tuple[NumberedWriter, NumberedWriter]:
    writers = [NumberedWriter(room.cluster, create(room.cluster, f"{name}-{n}", 2), keys=5) for n in range(2)]
    for writer in writers:
        writer.write()
    return writers[0], writers[1]


def all_of(member: Member, writer: NumberedWriter) -> None:
    """Until the member has delivered all of the writer's topic, exactly."""

    def found() -> int:
        return sum(message.topic() == writer.topic for message in member.messages)

    read_until([member], lambda: found() >= writer.written, f"the records of {writer.topic}")
    exact([message for message in member.messages if message.topic() == writer.topic], writer.written)


@pytest.mark.parametrize("keeps_first", [False, True])
def test_a_subscription_changes_while_partitions_are_being_assigned(
    room: Room, topic_name: str, keeps_first: bool
) -> None:
    first, second = two_topics(room, topic_name)
    member = room.member(first.topic)
    await_true(lambda: is_assigned(room, first.topic), "the first topic is assigned")
    # The member has not been told: it hears of the assignment when its subscription is another one.
    wanted = [second.topic, first.topic] if keeps_first else [second.topic]
    member.consumer.subscribe(wanted)
    all_of(member, second)
    if keeps_first:
        all_of(member, first)
    assert {one.topic for one in member.consumer.assignment()} == set(wanted)


@pytest.mark.parametrize("way", ["subscribe", "unsubscribe"])
def test_what_was_delivered_under_another_subscription_is_not_forgotten(
    room: Room, topic_name: str, way: str
) -> None:
    first, second = two_topics(room, topic_name)
    member = room.member(first.topic, enable_auto_commit=False)
    read_until([member], lambda: len(member.messages) > 10, "records")
    if way == "unsubscribe":
        member.consumer.unsubscribe()
    member.consumer.subscribe([second.topic])
    all_of(member, second)
    with pytest.raises(RebalancedError):
        member.consumer.transaction_offsets()
    member.consumer.transaction_aborted()
    member.messages.clear()
    member.consumer.subscribe([first.topic, second.topic])
    for writer in (first, second):
        all_of(member, writer)


def test_what_was_processed_under_another_subscription_is_committed(room: Room, topic_name: str) -> None:
    first, second = two_topics(room, topic_name)
    member = room.member(first.topic, auto_commit_interval_ms=3_600_000)
    all_of(member, first)
    member.consumer.subscribe([second.topic])
    assert sum(committed(room, first.topic, 2)) >= first.written
    all_of(member, second)


@pytest.mark.parametrize("pattern", ["", "^"])
@pytest.mark.parametrize("rewinds", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_topic_created_again_is_not_taken_for_the_old_one(
    room: Room, topic_name: str, pattern: str, rewinds: bool
) -> None:
    """Where partitions were assigned or taken up anew meanwhile, its records behind the old offsets were passed over."""
    old = NumberedWriter(room.cluster, create(room.cluster, topic_name, 2))
    old.write()
    member = room.member(f"{pattern}{topic_name}", enable_auto_commit=not rewinds)
    all_of(member, old)
    with ControllerClient(room.cluster.controller_url) as controller:
        controller.delete_topic(topic_name)
    # With more partitions, so that the group assigns them anew.
    new = NumberedWriter(room.cluster, create(room.cluster, topic_name, 3))
    new.write()
    if rewinds:
        member.consumer.rewind()
    with pytest.raises(DataLossError, match="deleted and created again"):
        read_until([member], lambda: False, "nothing is said")
    member.consumer.close()
    all_of(room.member(topic_name), new)


@pytest.mark.parametrize(
    "way",
    [
        "closes",
        pytest.param("is told and closes", marks=pytest.mark.long),
        pytest.param("commits", marks=pytest.mark.long),
        "commits in a transaction",
    ],
)
def test_what_a_member_commits_of_a_deleted_topic_is_not_taken_for_the_new_ones(
    room: Room, topic_name: str, way: str
) -> None:
    """Who read the new topic later passed over its records before the offsets of the old one."""
    old = NumberedWriter(room.cluster, create(room.cluster, topic_name, 2), keys=5)
    old.write()
    member = room.member(topic_name, auto_commit_interval_ms=3_600_000, enable_auto_commit="close" in way)
    all_of(member, old)
    with ControllerClient(room.cluster.controller_url) as controller:
        controller.delete_topic(topic_name)
    new = NumberedWriter(room.cluster, create(room.cluster, topic_name, 2), keys=5)
    new.write(2)
    if way == "is told and closes":
        with pytest.raises(DataLossError):
            read_until([member], lambda: False, "nothing is said")
    elif way == "commits":
        member.consumer.commit()
    elif way == "commits in a transaction":
        with OrderedProducer(conf(room.cluster, commit_interval_ms=0)) as producer:
            producer.send_offsets(member.consumer)
            producer.commit()
    member.consumer.close()
    all_of(room.member(topic_name), new)


def test_an_exception_on_its_way_commits_nothing_that_is_not_processed(room: Room, topic_name: str) -> None:
    first, _ = two_topics(room, topic_name)

    def work() -> None:
        member = room.member(first.topic, auto_commit_interval_ms=3_600_000)
        try:
            read_until([member], lambda: len(member.messages) > 0, "records")
            raise ZeroDivisionError
        finally:
            member.consumer.close()

    with pytest.raises(ZeroDivisionError):
        work()
    all_of(room.member(first.topic), first)


def test_a_rewind_delivers_again_what_is_not_committed(room: Room, topic_name: str) -> None:
    first, _ = two_topics(room, topic_name)
    member = room.member(first.topic, auto_commit_interval_ms=3_600_000)
    consumer = member.consumer
    consumer.rewind()  # nothing was delivered, and nothing is assigned
    read_until([member], lambda: len(member.messages) >= 5, "records")
    taken = member.messages[-1]
    consumer.rewind()
    consumer.rewind()
    assert [one.offset for one in consumer.commit() or []] == []
    member.messages.clear()
    all_of(member, first)
    # One that was delivered before comes again before it is committed; the position is that of the new delivery.
    done = consumer.commit(message=taken)
    assert done == [TopicPartition(first.topic, taken.partition() or 0, (taken.offset() or 0) + 1)]
    consumer.rewind()
    member.messages.clear()
    read_until([member], lambda: len(member.messages) > 0, "the rest")
    places = {(message.partition(), message.offset()) for message in member.messages}
    assert (taken.partition(), taken.offset()) not in places
