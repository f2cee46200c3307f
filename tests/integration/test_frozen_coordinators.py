"""Static members while their group's coordinator keeps its connections and answers nothing, until another takes its place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.errors import OrderedKafkaError, RebalancedError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import Member, Room, distinct, idle, partitions_of, read_until, settle
from tests.integration.test_broker_kills import await_whole, create_replicated
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter

_SESSION = 3000


@pytest.fixture
def wide_room(three_brokers: LocalCluster) -> Iterator[Room]:
    with ExitStack() as stack:
        yield Room(three_brokers, stack)


def coordinator(room: Room) -> int:
    """The broker that coordinates the group."""
    admin = AdminClient({"bootstrap.servers": room.cluster.bootstrap_servers})
    found = admin.describe_consumer_groups([room.group], request_timeout=TIMEOUT)
    node = found[room.group].result(TIMEOUT).coordinator
    assert node is not None
    return int(node.id)


@contextmanager
def frozen_coordinator(room: Room, member: Member) -> Iterator[None]:
    """Until another broker has its place, and the member's session is over."""
    old = coordinator(room)
    room.cluster.pause(f"broker-{old}")
    try:
        yield
        await_true(lambda: not member.consumer.memberid(), "the session is over")
        await_true(lambda: has_moved(room, old), "another broker coordinates the group")
    finally:
        room.cluster.resume(f"broker-{old}")


def has_moved(room: Room, old: int) -> bool:
    try:
        return coordinator(room) != old
    except KafkaException:
        return False


def is_fenced(room: Room, instance: str) -> bool:
    """Whether a broker has refused a request of the static member."""
    brokers = [server.name for server in room.cluster.status() if server.name.startswith("broker")]
    logs = [room.cluster.log(name).read_text().splitlines() for name in brokers]
    return any(instance in line and "is fenced" in line for log in logs for line in log)


def begun(room: Room, topic: str) -> tuple[NumberedWriter, Member]:
    """A static member that has read all that was written."""
    create_replicated(room.cluster, topic, 2)
    await_whole(room.cluster, topic)
    writer = NumberedWriter(room.cluster, topic)
    writer.write()
    member = room.member(
        topic, group_instance_id=topic, session_timeout_ms=_SESSION, enable_auto_commit=False
    )
    read_until([member], lambda: len(member.messages) == writer.written, "all records")
    return writer, member


def goes_on(writer: NumberedWriter, member: Member) -> None:
    writer.write()
    read_until([member], lambda: distinct([member]) == writer.written, "all records")
    member.consumer.commit()


@pytest.mark.long
@pytest.mark.parametrize(
    "then",
    [
        "reads",
        "reads in part",
        "subscribes",
        "commits and subscribes",
        "unsubscribes",
        "subscribes when told",
        "closes",
    ],
)
def test_an_application_that_works_meanwhile(wide_room: Room, topic_name: str, then: str) -> None:
    """librdkafka's heartbeats go on without the member's id, which Kafka takes for those of another one."""
    writer, member = begun(wide_room, topic_name)
    first = partitions_of(topic_name, 0)
    if then == "subscribes when told":
        member.consumer.subscribe([topic_name], on_lost=lambda consumer, _: consumer.subscribe([topic_name]))
        settle([member], 2)
    if then == "reads in part":
        member.consumer.pause(first)
    with frozen_coordinator(wide_room, member):
        pass
    await_true(lambda: is_fenced(wide_room, topic_name), "Kafka has refused a heartbeat")
    if "commits" in then:
        with pytest.raises(RebalancedError):
            member.consumer.commit()
    if then == "unsubscribes":
        member.consumer.unsubscribe()
    elif then == "closes":
        member.consumer.close()
        member = wide_room.member(topic_name, group_instance_id=topic_name, enable_auto_commit=False)
    if then == "reads in part":
        writer.write()
        settle([member], 2)
        assert {message.partition() for message in idle(member)} == {1}
        member.consumer.resume(first)
    if then in ("subscribes", "unsubscribes", "commits and subscribes"):
        member.consumer.subscribe([topic_name])
    goes_on(writer, member)


class Committing:
    """Commits what is read, over and over, in a thread of its own."""

    def __init__(self, member: Member) -> None:
        self.done = 0
        self.errors: list[OrderedKafkaError] = []
        self._consumer = member.consumer
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._commit)

    def __enter__(self) -> Committing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _commit(self) -> None:
        positions = self._consumer.position(self._consumer.assignment())
        while not self._is_over.is_set():
            try:
                self._consumer.commit(offsets=positions)
            except OrderedKafkaError as error:
                self.errors.append(error)
            self.done += 1


@pytest.mark.long
def test_a_commit_that_is_under_way(wide_room: Room, topic_name: str) -> None:
    writer, member = begun(wide_room, topic_name)
    follower = f"broker-{coordinator(wide_room) % 3 + 1}"
    with Committing(member) as commits, ExitStack() as stack:

        def is_waiting() -> bool:
            before = commits.done
            coordinator(wide_room)
            return commits.done == before

        await_true(lambda: commits.done > 0, "a first commit")
        wide_room.cluster.pause(follower)
        try:
            await_true(is_waiting, "a commit that waits for its second replica")
            stack.enter_context(frozen_coordinator(wide_room, member))
        finally:
            wide_room.cluster.resume(follower)
    assert commits.errors
    assert all(error.retriable for error in commits.errors), commits.errors
    goes_on(writer, member)
