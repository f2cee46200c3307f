"""An OrderedConsumer that is paused, sought, assigned by hand and subscribed by patterns: every key stays in order."""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.errors import ClosedError, ConfigError, ConfigErrors, OrderedKafkaError, RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.inside import progress_in
from tests.integration.members import Member, Room, committed, conf, exact, read_until, settle
from tests.servers import TIMEOUT
from tests.streams import NumberedWriter, change, create


def places(topic: str, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for p in partitions]


def at(topic: str, partition: int, offset: int) -> TopicPartition:
    return TopicPartition(topic, partition, offset)


def of_partition(messages: list[Message], partition: int) -> list[int]:
    return [cast(int, one.offset()) for one in messages if one.partition() == partition]


def all_of(member: Member, count: int) -> None:
    read_until([member], lambda: len(member.messages) >= count, f"{count} records")


def in_order(messages: list[Message]) -> None:
    """Each key's numbers ascend."""
    last: dict[bytes, int] = {}
    for message in messages:
        key, number = cast(bytes, message.value()).split(b":")
        assert int(number) > last.get(key, -1), (key, number)
        last[key] = int(number)


def idle(member: Member, rounds: int = 20) -> list[Message]:
    """What comes while everything has had the time to come."""
    return [message for _ in range(rounds) for message in member.read()]


# -- pausing --------------------------------------------------------------------------------------------------


def test_a_paused_partition_delivers_nothing_and_holds_up_its_keys(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    all_of(member, 5)
    member.consumer.pause(places(topic_name, 0))
    seen = len(member.messages)
    (position,) = member.consumer.position(places(topic_name, 0))
    writer.write()
    change(room.cluster, topic_name, 3)
    writer.write()
    assert idle(member) == []
    assert member.consumer.position(places(topic_name, 0)) == [position]
    assert len(member.messages) == seen
    member.consumer.resume(places(topic_name, 0))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_a_pause_outlives_a_rebalance(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    member = room.member(topic_name)
    settle([member], 2)
    member.consumer.pause(places(topic_name, 0, 1))
    other = room.member(topic_name)
    settle([member, other], 2)
    other.consumer.close()
    settle([member], 2)
    writer.write()
    assert idle(member) == []
    member.consumer.resume(places(topic_name, 0, 1))
    member.consumer.resume(places(topic_name, 0))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_a_partition_is_paused_in_on_assign_and_while_the_gate_is_closed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    change(room.cluster, topic_name, 2)
    writer.write()
    consumer = room.member().consumer
    member = Member(consumer)

    def pause_first(consumer: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        consumer.pause([one for one in partitions if one.partition == 0])

    consumer.subscribe([topic_name], on_assign=pause_first)
    settle([member], 2)
    read_until(
        [member],
        lambda: consumer.position(places(topic_name, 1))[0].offset >= 0,
        "it is not known where to begin",
    )
    # Partition 1 waits for partition 0, which is paused; it is paused itself, and resumed, meanwhile.
    read_until([member], lambda: progress_in(consumer, topic_name, 1).paused, "the gate is not closed")
    consumer.pause(places(topic_name, 1))
    consumer.resume(places(topic_name, 0))
    read_until([member], lambda: len(of_partition(member.messages, 0)) > 0, "partition 0")
    read_until([member], lambda: not progress_in(consumer, topic_name, 1).paused, "the gate does not open")
    assert idle(member, 5) == [] or of_partition(member.messages, 1) == []
    consumer.resume(places(topic_name, 1))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


# -- seeking --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_seeking_within_a_layout(room: Room, topic_name: str, commits: bool) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name, enable_auto_commit=commits)
    consumer = member.consumer
    all_of(member, writer.written)
    consumer.commit()
    consumer.seek(at(topic_name, 0, 40))
    assert consumer.position(places(topic_name, 0)) == [at(topic_name, 0, 40)]
    # Behind what is committed: others, and whoever comes next, go by what is committed.
    assert committed(room, topic_name, 1) == [40]
    member.messages.clear()
    all_of(member, writer.written - 40)
    assert of_partition(member.messages, 0) == list(range(40, writer.written))
    consumer.seek(at(topic_name, 0, OFFSET_STORED))
    consumer.seek(at(topic_name, 0, OFFSET_BEGINNING))
    member.messages.clear()
    all_of(member, writer.written)
    exact(member.messages, writer.written)
    member.messages.clear()
    consumer.seek(at(topic_name, 0, OFFSET_BEGINNING))
    consumer.seek(at(topic_name, 0, OFFSET_END))
    writer.write()
    all_of(member, 100)
    assert min(of_partition(member.messages, 0)) > 100
    for wrong in (at(topic_name, 0, 10_000), at(topic_name, 0, -1001)):
        with pytest.raises(ConfigError, match=r"an offset from 0 to 20\d"):
            consumer.seek(wrong)


def test_what_is_skipped_counts_as_processed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    change(room.cluster, topic_name, 2)
    writer.write()
    member = room.member(topic_name, enable_auto_commit=False)
    all_of(member, 5)
    boundary = 101
    member.consumer.seek(at(topic_name, 0, boundary))
    read_until([member], lambda: len(of_partition(member.messages, 1)) > 0, "the partition that waited")
    member.consumer.commit()
    assert committed(room, topic_name, 2)[0] >= boundary


def test_seeking_back_over_a_boundary_keeps_the_order(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    change(room.cluster, topic_name, 2)
    writer.write()
    change(room.cluster, topic_name, 3)
    writer.write()
    member = room.member(topic_name)
    consumer = member.consumer
    all_of(member, writer.written)
    exact(member.messages, writer.written)
    # The advice is followed until it works, as a user would.
    wanted = [at(topic_name, 0, 50)]
    for _ in range(20):
        try:
            consumer.seek(wanted[-1])
        except ConfigError as error:
            advised = re.findall(rf"come out of order.*?{topic_name}-(\d+) to (\d+)", str(error))
            assert advised
            wanted += [at(topic_name, int(p), int(offset)) for p, offset in reversed(advised)]
        else:
            wanted.pop()
            if not wanted:
                break
    assert wanted == []
    member.messages.clear()
    all_of(member, writer.written - 50)
    in_order(member.messages)
    assert len(member.messages) == writer.written - 50
    found = committed(room, topic_name, 3)
    successor_of = room.member(topic_name)
    consumer.close()
    settle([successor_of], 3)
    assert idle(successor_of) == [], found


def test_a_member_cannot_seek_back_over_a_boundary_beyond_which_others_read(
    room: Room, topic_name: str
) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    change(room.cluster, topic_name, 4)
    writer.write()
    members = [room.member(topic_name) for _ in range(2)]
    settle(members, 4)
    read_until(members, lambda: sum(len(one.messages) for one in members) >= writer.written, "all")
    for member in members:
        member.consumer.commit()
    owner = next(one for one in members if 0 in one.partitions)
    assert 2 not in owner.partitions or 0 in owner.partitions
    before = owner.consumer.position(places(topic_name, 0))
    with pytest.raises(ConfigError, match="come out of order"):
        owner.consumer.seek(at(topic_name, 0, 0))
    assert owner.consumer.position(places(topic_name, 0)) == before


def test_a_seek_in_on_assign_begins_there(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    for number, way in enumerate(("seek", "assign", "incremental_assign")):
        consumer = OrderedConsumer(conf(room.cluster, f"{room.group}-{number}"))

        def begin(consumer: OrderedConsumer, partitions: list[TopicPartition], way: str = way) -> None:
            for one in partitions:
                one.offset = 90
            if way == "seek":
                consumer.seek(partitions[0])
            else:
                getattr(consumer, way)(partitions)

        with consumer:
            consumer.subscribe([topic_name], on_assign=begin)
            member = Member(consumer)
            all_of(member, 10)
            assert of_partition(member.messages, 0) == list(range(90, 100)), way


def test_a_wrong_seek_in_on_assign_is_raised_by_poll_until_it_is_mended(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    consumer = room.member().consumer
    consumer.subscribe([topic_name], on_assign=lambda one, _: one.seek(at(topic_name, 0, 7_000)))
    member = Member(consumer)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"-0 at 7000'.* from 0 to 101"):
            all_of(member, 1)
    consumer.seek(at(topic_name, 0, 0))
    all_of(member, writer.written)
    exact(member.messages, writer.written)


def test_only_assigned_partitions_can_be_steered(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    NumberedWriter(room.cluster, topic_name).write()
    consumer = room.member().consumer
    calls: dict[str, Callable[[], object]] = {
        "paused": lambda: consumer.pause(places(topic_name, 0)),
        "resumed": lambda: consumer.resume(places(topic_name, 0)),
        "sought": lambda: consumer.seek(at(topic_name, 0, 0)),
    }
    for doing, call in calls.items():
        with pytest.raises(ConfigError, match=f"{topic_name}-0.*only assigned partitions can be {doing}"):
            call()
    consumer.close()
    calls |= {"": lambda: consumer.assign([]), "a": consumer.unassign, "b": consumer.list_topics}
    for call in calls.values():
        with pytest.raises(ClosedError):
            call()


# -- by hand --------------------------------------------------------------------------------------------------


def test_partitions_that_are_assigned_by_hand(
    room: Room, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    one, two = (room.member(enable_auto_commit=True) for _ in range(2))
    with pytest.raises(ConfigError, match="has the partitions 0 to 1"):
        one.consumer.assign(places(topic_name, 2))
    one.consumer.assign(places(topic_name, 0))
    two.consumer.assign(places(topic_name, 1))
    both = [one, two]
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    change(room.cluster, topic_name, 4)
    writer.write()

    def warned() -> bool:
        return f"{topic_name}-2, {topic_name}-3: assign them to a consumer" in caplog.text

    with caplog.at_level(logging.WARNING):
        read_until(both, warned, "no warning")
    two.consumer.incremental_assign(places(topic_name, 2, 3))
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    exact(one.messages + two.messages, writer.written)
    in_order(one.messages)
    in_order(two.messages)
    two.consumer.incremental_unassign(places(topic_name, 2))
    assert two.partitions == [1, 3]
    with pytest.raises(ConfigError, match="not assigned yet"):
        two.consumer.incremental_assign(places(topic_name, 3))
    two.consumer.unassign()
    assert two.partitions == []
    writer.write()
    # Back at what was committed, with the rest of the partitions.
    two.consumer.assign(places(topic_name, 1, 2, 3))
    read_until(both, lambda: len(one.messages + two.messages) >= writer.written, "all")
    exact(one.messages + two.messages, writer.written)


def test_a_subscription_and_an_assignment_by_hand_exclude_each_other(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    member = room.member(topic_name)
    consumer = member.consumer
    for call in (consumer.assign, consumer.incremental_assign, consumer.incremental_unassign):
        with pytest.raises(ConfigError, match="the group assigns the partitions"):
            call(places(topic_name, 0))
    with pytest.raises(ConfigError, match=r"unsubscribe\(\) first"):
        consumer.unassign()
    all_of(member, 10)
    consumer.unsubscribe()
    consumer.assign([at(topic_name, 0, 60)])
    member.messages.clear()
    all_of(member, 40)
    assert of_partition(member.messages, 0) == list(range(60, 100))
    consumer.subscribe([topic_name])
    writer.write()
    all_of(member, 140)
    assert len(member.messages) == 140


def test_by_hand_beside_members_is_an_error_that_says_so(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 2)
    settled, by_hand = room.member(topic_name), room.member(auto_commit_interval_ms=100)
    settle([settled], 2)
    NumberedWriter(room.cluster, topic_name).write()
    by_hand.consumer.assign(places(topic_name, 0))
    with pytest.raises(RequestError, match=r"has members that subscribe.* a group\.id of their own"):
        read_until([by_hand, settled], lambda: False, "no error")


# -- what is processed ----------------------------------------------------------------------------------------


def test_only_stored_offsets_are_committed(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    told: list[Any] = []
    member = room.member(
        topic_name,
        enable_auto_offset_store=False,
        auto_commit_interval_ms=3_600_000,
        **{"on_commit": lambda error, offsets: told.append((error, offsets))},
    )
    consumer = member.consumer
    all_of(member, 50)
    consumer.commit()
    assert committed(room, topic_name, 1) == [0]
    consumer.store_offsets(message=member.messages[9])
    with pytest.raises(ConfigError, match="what was delivered"):
        consumer.store_offsets(offsets=[at(topic_name, 0, 9_000)])
    with pytest.raises(ConfigError, match="not both"):
        consumer.store_offsets(member.messages[9], [])
    assert committed(room, topic_name, 1) == [0]
    consumer.commit()
    assert committed(room, topic_name, 1) == [10]
    assert [offsets[0].offset for error, offsets in told if error is None][-1] == 10
    consumer.store_offsets(offsets=[at(topic_name, 0, 20)])
    consumer.close()
    successor = room.member(topic_name)
    all_of(successor, 80)
    assert of_partition(successor.messages, 0) == list(range(20, 100))
    with pytest.raises(ConfigError, match=r"enable\.auto\.offset\.store"):
        successor.consumer.store_offsets(message=successor.messages[0])


def test_stored_offsets_let_keys_go(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    members = [room.member(topic_name, enable_auto_offset_store=False) for _ in range(2)]
    change(room.cluster, topic_name, 2)
    writer.write()

    seen = dict.fromkeys(range(len(members)), 0)

    def all_read() -> bool:
        for number, member in enumerate(members):
            # Of the last call of consume(): what came before a rebalance comes again.
            for message in member.messages[seen[number] :]:
                member.consumer.store_offsets(message=message)
            seen[number] = len(member.messages)
        found = {(m.partition(), m.offset()) for member in members for m in member.messages}
        return len(found) >= writer.written

    read_until(members, all_read, "keys are not handed over")


# -- patterns -------------------------------------------------------------------------------------------------


def test_topics_that_match_a_pattern_join_and_go(room: Room, topic_name: str) -> None:
    member = room.member(**{"topic.metadata.refresh.interval.ms": 200})
    member.consumer.subscribe([f"^{topic_name}-[a-c]", f"^{topic_name}-x$"])
    assert idle(member, 5) == []
    written = 0
    for name in ("b", "d", "x", "xy"):
        topic = create(room.cluster, f"{topic_name}-{name}", 2)
        writer = NumberedWriter(room.cluster, topic, keys=3)
        writer.write()
        if name in ("b", "x"):
            written += writer.written
            all_of(member, written)
    assert {one.topic for one in member.consumer.assignment()} == {f"{topic_name}-b", f"{topic_name}-x"}
    assert len(member.messages) == written
    with ControllerClient(room.cluster.controller_url) as controller:
        controller.delete_topic(f"{topic_name}-b")

    def only_x() -> bool:
        return {one.topic for one in member.consumer.assignment()} == {f"{topic_name}-x"}

    read_until([member], only_x, "the deleted topic is still assigned")
    writer = NumberedWriter(room.cluster, f"{topic_name}-x", keys=3, first=100)
    writer.write()
    all_of(member, written + writer.written)


# -- the rest of confluent-kafka's consumer ----------------------------------------------------------------------


def test_what_brokers_are_asked(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    begun = int(time.time() * 1000)
    writer = NumberedWriter(room.cluster, topic_name)
    writer.write()
    consumer = room.member().consumer
    assert consumer.get_watermark_offsets(TopicPartition(topic_name, 0)) == (0, 101)
    (found,) = consumer.offsets_for_times([at(topic_name, 0, begun)], timeout=TIMEOUT)
    assert found.offset == 0
    (found,) = consumer.offsets_for_times([at(topic_name, 0, begun + 3_600_000)])
    assert found.offset == -1
    assert list(consumer.list_topics(topic_name).topics) == [topic_name]
    assert topic_name in consumer.list_topics(timeout=TIMEOUT).topics
    with ControllerClient(room.cluster.controller_url) as controller:
        assert consumer.cluster_id() == controller.topic(topic_name).cluster_id


class Keeping(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, said: list[logging.LogRecord]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record)


def test_callbacks_are_called_while_polling(room: Room, topic_name: str) -> None:
    create(room.cluster, topic_name, 1)
    statistics: list[str] = []
    said: list[logging.LogRecord] = []
    logger = logging.getLogger(f"mine.{topic_name}")
    logger.setLevel(logging.DEBUG)
    handler = Keeping(said)
    logger.addHandler(handler)
    options = conf(room.cluster, room.group, debug="generic") | {"stats_cb": statistics.append}
    more: dict[str, Any] = {"statistics.interval.ms": 50, "logger": logger, "client.id": "me"}
    with OrderedConsumer(options, **more) as consumer:
        consumer.subscribe([topic_name])
        member = Member(consumer)
        read_until([member], lambda: len(statistics) > 1 and bool(said), "nothing was said")
    assert json.loads(statistics[0])["client_id"] == "me"


def test_a_token_is_asked_for(cluster: LocalCluster) -> None:
    asked: list[str] = []

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        return "token", time.time() + 3600

    options = conf(cluster, "nobody") | {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "principal=me",
        "oauth_cb": token,
    }
    with OrderedConsumer(options) as consumer:
        deadline = time.monotonic() + TIMEOUT
        while not asked and time.monotonic() < deadline:
            consumer.poll(0.05)
    assert set(asked) == {"principal=me"}


def test_an_error_is_told_while_no_broker_answers(cluster: LocalCluster) -> None:
    errors: list[KafkaError] = []
    options = conf(cluster, "nobody") | {"bootstrap.servers": "127.0.0.1:1", "error_cb": errors.append}
    with OrderedConsumer(**options) as consumer:
        deadline = time.monotonic() + TIMEOUT
        while not errors and time.monotonic() < deadline:
            assert consumer.poll(0.05) is None
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=0.05)
    assert {error.code() for error in errors} & {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


def test_all_that_is_wrong_is_said_at_once(cluster: LocalCluster) -> None:
    options = conf(cluster, "g") | {
        "max.poll.records": 500,
        "group.protocol": "consumer",
        "no.such.name": 1,
        "fetch.max.wait.ms": 70,
        "auto.offset.reset": "yesterday",
        "sasl.jaas.config": "nonsense",
    }
    with pytest.raises(ConfigErrors) as caught:
        OrderedConsumer(options)
    wrong = {error.option for error in caught.value.errors}
    assert wrong == {
        "max.poll.records",
        "group.protocol",
        "no.such.name",
        "auto.offset.reset",
        "sasl.jaas.config",
    }


@pytest.mark.long
@pytest.mark.parametrize("members", [1, 2])
def test_random_steering_of_a_live_topic(room: Room, topic_name: str, members: int) -> None:
    """Whatever is paused and sought while the topic changes, keys come in order after each seek, and to their end."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    dice = random.Random(seed)
    create(room.cluster, topic_name, 2)
    writer = NumberedWriter(room.cluster, topic_name, keys=12)
    crew = [room.member(topic_name) for _ in range(members)]
    since: dict[tuple[int, bytes], int] = {}
    sought = refused = 0

    def take(who: int, member: Member) -> None:
        for message in member.read(count=20):
            key, number = cast(bytes, message.value()).split(b":")
            # By member: what another one has sought comes there again.
            assert int(number) > since.get((who, key), -1), (key, number)
            since[who, key] = int(number)

    def steer(who: int, member: Member) -> None:
        nonlocal sought, refused
        own = member.consumer.assignment()
        if not own:
            return
        one = dice.choice(own)
        doing = dice.choice(["pause", "resume", "seek"])
        if doing != "seek":
            getattr(member.consumer, doing)([one])
            return
        (position,) = member.consumer.position([one])
        if position.offset <= 0:
            return
        one.offset = max(0, position.offset - dice.choice([1, 20, 200, 10**6]))
        try:
            member.consumer.seek(one)
        except (ConfigError, OrderedKafkaError):
            refused += 1
        else:
            sought += 1
            since.clear()

    with writer.under_load():
        for count in (5, 3, 6, 2):
            change(room.cluster, topic_name, count)
            goal = writer.written + 3_000
            while writer.written < goal:
                for who, member in enumerate(crew):
                    steer(who, member)
                    for _ in range(3):
                        take(who, member)
    assert sought > 0
    assert refused > 0
    last = writer.written // 12 - 1
    deadline = time.monotonic() + TIMEOUT
    while {key: max(n for (_, k), n in since.items() if k == key) for _, key in since} != {
        f"k{key}".encode(): last for key in range(12)
    }:
        assert time.monotonic() < deadline, (since, last)
        for who, member in enumerate(crew):
            member.consumer.resume(member.consumer.assignment())
            take(who, member)
