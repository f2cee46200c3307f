"""``ordered-kafka groups`` list, reset-offsets and delete, and what an OrderedConsumer reads afterwards."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from spark_ordered_kafka import OrderedConsumer
from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.group_admin import NewOffset, OffsetReset
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from tests.integration.members import conf
from tests.queries import await_stable
from tests.servers import TIMEOUT, commit_offsets, create_topic, unique_name
from tests.streams import NumberedWriter, change, create

Row = dict[str, int]


class Groups:
    """Runs ``ordered-kafka groups`` for one group and topic, and reads as a service of it would."""

    def __init__(self, cluster: LocalCluster, topic: str, group: str) -> None:
        self.cluster, self.topic, self.group = cluster, topic, group
        self._runner = CliRunner(
            env={
                "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
                "ORDERED_KAFKA_CONTROLLER": cluster.controller_url,
            }
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        result = self._runner.invoke(app, ["groups", *arguments])
        return result.exit_code, result.stdout, result.stderr

    def reset(self, *arguments: str, topic: str | None = None) -> dict[int, Row]:
        """By partition what is answered to a reset that is carried out."""
        found = self.run(
            "reset-offsets",
            *("--group", self.group, "--topic", topic or self.topic, "--output", "json", *arguments),
        )
        assert found[0] == 0, found[2]
        return {row["partition"]: row for row in json.loads(found[1])["partitions"]}

    def read(self, until: int) -> dict[str, list[int]]:
        """The numbers of each key in the order of delivery, until all have come to ``until``; then commits."""
        numbers: dict[str, list[int]] = defaultdict(list)
        deadline = time.monotonic() + TIMEOUT
        with OrderedConsumer(conf(self.cluster, self.group)) as consumer:
            consumer.subscribe([self.topic])
            while len(numbers) < KEYS or any(some[-1] < until for some in numbers.values()):
                assert time.monotonic() < deadline, numbers
                for message in consumer.consume(100, 0.1):
                    key, number = cast(bytes, message.value()).decode().split(":")
                    numbers[key].append(int(number))
        return numbers

    def committed(self) -> dict[int, int | None]:
        with ControllerClient(self.cluster.controller_url) as controller:
            (found,) = controller.group_positions(self.group, self.topic).topics
        return {row.partition: row.position for row in found.partitions}


KEYS = 5
STEP = 12


@pytest.fixture
def groups(cluster: LocalCluster, topic_name: str) -> Groups:
    return Groups(cluster, topic_name, unique_name("reset"))


def written(groups: Groups) -> tuple[NumberedWriter, list[str]]:
    """A topic with three layouts, and the times before each."""
    create(groups.cluster, groups.topic, 2)
    writer = NumberedWriter(groups.cluster, groups.topic, keys=KEYS, step=STEP)
    times = []
    for count in (2, 5, 3):
        if count != 2:
            change(groups.cluster, groups.topic, count)
        times.append(datetime.now(UTC).isoformat(timespec="milliseconds"))
        writer.write()
    # Else the end of a log may lie before the last transaction.
    await_stable(groups.cluster, groups.topic)
    return writer, times


def suffixes(numbers: dict[str, list[int]], last: int) -> None:
    """Each key's records come in order, without a gap, up to the last one."""
    assert len(numbers) == KEYS
    for key, some in numbers.items():
        assert some == list(range(some[0], last + 1)), (key, some)


@pytest.mark.long
def test_keys_are_read_in_order_wherever_a_group_is_put(groups: Groups) -> None:
    _, times = written(groups)
    last = 3 * STEP - 1
    everything = groups.read(last)
    assert all(some == list(range(last + 1)) for some in everything.values())
    at_end = groups.committed()

    # The default changes nothing.
    code, out, told = groups.run(
        "reset-offsets", "--group", groups.group, "--topic", groups.topic, "--to-earliest"
    )
    assert (code, told) == (0, "nothing is changed: --execute commits these offsets\n")
    header, first, *_ = out.splitlines()
    assert header.split() == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"]
    assert first.split() == [groups.group, groups.topic, "0", str(at_end[0]), "0"]
    assert groups.committed() == at_end

    rows = groups.reset("--to-earliest", "--execute")
    assert {row["new_offset"] for row in rows.values()} == {0}
    assert groups.read(last) == everything

    # The time of the second layout, and of the third.
    for number, when in enumerate(times[1:], 1):
        rows = groups.reset("--to-datetime", when, "--execute")
        assert all(row["new_offset"] <= row["asked_offset"] for row in rows.values())
        found = groups.read(last)
        suffixes(found, last)
        assert all(some[0] <= number * STEP for some in found.values())

    # One offset for all partitions lies in layouts of different ages.
    for offset in (3, STEP):
        rows = groups.reset("--to-offset", str(offset), "--execute")
        suffixes(groups.read(last), last)
    assert any(row["new_offset"] < row["asked_offset"] for row in rows.values()), rows
    groups.reset("--shift-by", "-7", "--execute")
    suffixes(groups.read(last), last)
    groups.reset("--by-duration", "P1D", "--execute")
    assert groups.read(last) == everything


def test_latest_leaves_out_everything_before(groups: Groups) -> None:
    writer, _ = written(groups)
    groups.reset("--to-latest", "--execute")
    change(groups.cluster, groups.topic, 4)
    writer.write()
    found = groups.read(4 * STEP - 1)
    assert all(some == list(range(3 * STEP, 4 * STEP)) for some in found.values())


@pytest.mark.long
def test_some_partitions_are_refused_where_others_would_have_to_follow(groups: Groups) -> None:
    written(groups)
    last = 3 * STEP - 1
    groups.read(last)
    at_end = groups.committed()
    topic = groups.topic
    code, _, told = groups.run(
        *("reset-offsets", "--group", groups.group, "--topic", f"{topic}:0", "--to-earliest", "--execute")
    )
    assert (code, "keys moved from there to other partitions" in told) == (2, True)
    assert groups.committed() == at_end
    # The advice works.
    advised = told.partition("give --topic ")[2].partition(",")
    together = told.partition("give --topic ")[2].partition(", or")[0]
    assert advised[0].startswith(f"{topic}:0")
    rows = groups.reset("--to-earliest", "--execute", topic=together)
    assert {row["new_offset"] for row in rows.values()} == {0}
    others = {p: at for p, at in groups.committed().items() if p not in rows}
    assert others == {p: at_end[p] for p in others}
    with OrderedConsumer(conf(groups.cluster, groups.group)) as consumer:
        consumer.subscribe([topic])
        seen: dict[str, list[int]] = defaultdict(list)
        deadline = time.monotonic() + TIMEOUT
        while not seen or any(some[-1] < last for some in seen.values()):
            assert time.monotonic() < deadline, seen
            for message in consumer.consume(100, 0.1):
                key, number = cast(bytes, message.value()).decode().split(":")
                seen[key].append(int(number))
    for some in seen.values():
        assert some == list(range(some[0], last + 1))


def test_a_group_with_members_is_left_alone(groups: Groups) -> None:
    create(groups.cluster, groups.topic, 1)
    with OrderedConsumer(conf(groups.cluster, groups.group)) as consumer:
        consumer.subscribe([groups.topic])
        deadline = time.monotonic() + TIMEOUT
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        code, _, told = groups.run(
            *("reset-offsets", "--group", groups.group, "--topic", groups.topic, "--to-latest", "--execute")
        )
        assert (code, told.startswith("error: NON_EMPTY_GROUP: ")) == (1, True), told
        assert "stop all of them first" in told
        # One that joins after the look at the group.
        connection = Connection(
            {"bootstrap.servers": groups.cluster.bootstrap_servers}, groups.cluster.controller_url
        )
        with (
            OffsetReset(connection, groups.group) as reset,
            pytest.raises(RequestError, match="one has joined"),
        ):
            reset.execute([NewOffset(groups.topic, 0, 0, 0, 0)])
        code, out, told = groups.run("delete", "--group", groups.group, "--yes")
        assert (code, out, "NON_EMPTY_GROUP" in told) == (1, "", True), told
        assert [groups.group, "Stable", "classic"] in [
            line.split() for line in groups.run("list")[1].splitlines()
        ]


def test_topics_beyond_management_and_all_topics(groups: Groups) -> None:
    create(groups.cluster, groups.topic, 1)
    plain = create_topic(groups.cluster.bootstrap_servers, unique_name("plain"), 2)
    producer = Producer({"bootstrap.servers": groups.cluster.bootstrap_servers})
    for number in range(10):
        producer.produce(plain, value=str(number), partition=number % 2)
    assert producer.flush(TIMEOUT) == 0
    consumer = Consumer({"bootstrap.servers": groups.cluster.bootstrap_servers, "group.id": groups.group})
    commit_offsets(consumer, [TopicPartition(plain, 0, 2), TopicPartition(groups.topic, 0, 0)])
    consumer.close()
    rows = groups.reset("--to-offset", "4", topic=f"{plain}:0")
    assert [(row["current_offset"], row["new_offset"]) for row in rows.values()] == [(2, 4)]
    rows = groups.reset("--to-offset", "99", topic=plain)
    assert [row["new_offset"] for row in rows.values()] == [5, 5]
    code, _, told = groups.run("reset-offsets", "--group", groups.group, "--topic", plain, "--shift-by", "1")
    assert (code, f"the group has committed nothing in {plain}-1" in told) == (2, True), told
    code, out, told = groups.run(
        *("reset-offsets", "--group", groups.group, "--all-topics", "--to-earliest", "--output", "json")
    )
    assert code == 0, told
    found = json.loads(out)["partitions"]
    assert [(row["topic"], row["partition"]) for row in found] == [
        *sorted([(groups.topic, 0), (plain, 0), (plain, 1)])
    ]
    assert groups.run("delete", "--group", groups.group, "--yes")[:2] == (
        0,
        f"group {groups.group}: deleted\n",
    )
    assert groups.group not in groups.run("list", "--output", "json")[1]
    code, _, told = groups.run("delete", "--group", groups.group, "--yes")
    assert (code, "GROUP_ID_NOT_FOUND" in told) == (1, True), told


def test_ledgers_are_not_shown_and_not_touched(groups: Groups) -> None:
    create(groups.cluster, groups.topic, 1)
    name = f"ordered:{groups.topic}:nightly:0"
    consumer = Consumer({"bootstrap.servers": groups.cluster.bootstrap_servers, "group.id": name})
    commit_offsets(consumer, [TopicPartition(groups.topic, 0, 5)])
    consumer.close()
    code, out, told = groups.run("list")
    assert (code, name in out, "ledgers of writers are left out" in told) == (0, False, True)
    code, _, told = groups.run("delete", "--group", name, "--yes")
    assert (code, "is the ledger of a writer's task" in told) == (1, True)
    code, _, told = groups.run("reset-offsets", "--group", name, "--topic", groups.topic, "--to-earliest")
    assert (code, "is the ledger of a writer's task" in told) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--topic", "t"), 2, "one of --to-earliest, --to-latest"),
        (("--topic", "t", "--to-earliest", "--to-latest"), 2, "one of --to-earliest"),
        (("--to-earliest",), 2, "--topic is missing: give it, or --all-topics"),
        (("--topic", "t", "--all-topics", "--to-earliest"), 2, "give it, or --all-topics"),
        (("--topic", "t:x", "--to-earliest"), 2, "--topic has the value 'x'"),
        (("--topic", "t:", "--to-earliest"), 2, "TOPIC or TOPIC:N,N"),
        (("--topic", "t", "--to-datetime", "noon"), 2, "--to-datetime has the value 'noon'"),
        (("--topic", "t", "--by-duration", "2h"), 2, "--by-duration has the value '2h'"),
        (("--topic", "t", "--to-earliest", "--dry-run", "--execute"), 2, "give one"),
        (("--topic", "nope", "--to-earliest"), 1, "topic 'nope' does not exist"),
    ],
)
def test_wrong_options_are_named(
    cluster: LocalCluster, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found, _, told = Groups(cluster, "t", "g").run("reset-offsets", "--group", "g", *arguments)
    assert (found, words in told) == (code, True), told
