"""Ends that are none: of a log that a broker cannot show further for a while, and of one that it leads no more."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka.errors import ConfigError, DataLossError, UnavailableError
from spark_ordered_kafka.kafka.ranges import LogRanges, TopicLog
from spark_ordered_kafka.local import LocalCluster
from tests.consumers import consumer_of, taken
from tests.integration.controllers import exists
from tests.queries import Query, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT, await_true
from tests.streams import NumberedWriter, change, create, options

# A task that sees no progress gives up after some seconds.
IMPATIENT = {"kafkaConsumer.pollTimeoutMs": "4000"}


@pytest.mark.parametrize("fail_on_data_loss", [pytest.param("true", marks=pytest.mark.long), "false"])
def test_records_that_a_broker_holds_back_are_neither_lost_nor_skipped(
    cluster: LocalCluster, topic_name: str, fail_on_data_loss: str
) -> None:
    """An open transaction ends the log for readers, below the end that the micro-batch was planned with."""
    topic = create(cluster, f"{topic_name}-{fail_on_data_loss}", 1)
    writer = NumberedWriter(cluster, topic, keys=5)
    writer.write()
    await_stable(cluster, topic)
    other = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"foreign-{topic}"})
    other.init_transactions(TIMEOUT)
    other.begin_transaction()
    for number in range(100, 110):
        other.produce(topic, key=b"k0", value=f"k0:{number}".encode())
    assert other.flush(TIMEOUT) == 0
    source = everything(cluster, topic, failOnDataLoss=fail_on_data_loss)
    with Query(source | {"kafka.isolation.level": "read_uncommitted"}) as planner:
        start, end = planner.checkpoint, planner.plan()

    def is_told() -> bool:
        """Of a broker that has not answered by then, only that is told."""
        with pytest.raises(UnavailableError, match=rf"offset \d+ of {topic}-0") as caught:
            query.read(end)
        return re.search(r"the log ends at \d+", str(caught.value)) is not None

    with Query(source | IMPATIENT, start) as query:
        await_true(is_told, "the reason is where the log ends")
    other.commit_transaction(TIMEOUT)
    with Query(source, start) as query:
        report = verdict(query.read(end))
    assert (report.records, report.out_of_order, report.duplicated) == (writer.written + 10, 0, 0)


def test_a_log_that_really_ends_before_is_lost(
    cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader says so of the leader epoch that the micro-batch was planned under."""
    create(cluster, topic_name, 1)
    NumberedWriter(cluster, topic_name, keys=5).write(2)
    await_stable(cluster, topic_name)
    source = everything(cluster, topic_name)
    with Query(source) as query:
        start, end = query.checkpoint, query.plan()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_topics([topic_name])[topic_name].result(TIMEOUT)
        await_true(lambda: not exists(cluster, topic_name), "the broker has heard that the topic is gone")
        create(cluster, topic_name, 1)
        with pytest.raises(DataLossError, match=rf"offsets 0 to \d+ of {topic_name}-0 are gone"):
            query.read(end)
        (task,) = query.reader.partitions(json.loads(start), json.loads(end))
    with Query(source | {"failOnDataLoss": "false"}, start) as query:
        assert list(query.reader.read(task)) == []
    assert "are gone: the log of leader epoch 0 was truncated and ends at 0" in caplog.text


class FormerLeader:
    """Answers questions for the log ends of a topic some times as a broker that led it before the last change would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
        self._ask = LogRanges._ask
        self._topic = topic
        self._ends: dict[int, int] = {}
        self.answers = 0
        monkeypatch.setattr(LogRanges, "_ask", lambda *asked: self._told(*asked))

    def is_deposed(self, ends: dict[int, int]) -> None:
        """It knows no more than these."""
        self._ends = ends

    def _told(self, ranges: LogRanges, *asked: Any) -> dict[str, TopicLog]:
        logs = self._ask(ranges, *asked)
        if self._topic not in logs or self.answers == 0:
            return logs
        self.answers -= 1
        found = logs[self._topic]
        epochs = {p: epoch - (p in self._ends) for p, epoch in found.leader_epochs.items()}
        told = TopicLog(found.topic_id, found.starts, {**found.ends, **self._ends}, epochs)
        return {**logs, self._topic: told}


@dataclass
class Grown:
    """A topic that went from one partition to two, and the words of a broker that led the first one before."""

    source: dict[str, str]
    former: FormerLeader
    written: int
    middle: int

    def stale(self, answers: int = 2) -> None:
        """Let it answer next."""
        self.former.answers = answers


@pytest.fixture
def grown(cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> Grown:
    former = FormerLeader(monkeypatch, topic_name)
    create(cluster, topic_name, 1)
    writer = NumberedWriter(cluster, topic_name, keys=5)
    writer.write()
    await_stable(cluster, topic_name)
    with Query(everything(cluster, topic_name)) as query:
        middle = json.loads(query.plan())["topics"][topic_name]["positions"][0]
    former.is_deposed({0: middle})
    writer.write()
    await_stable(cluster, topic_name)
    change(cluster, topic_name, 2)
    writer.write()
    await_stable(cluster, topic_name)
    return Grown(everything(cluster, topic_name), former, writer.written, middle)


def test_a_batch_read_has_no_hole_where_a_former_leader_answered(grown: Grown) -> None:
    for ordering in ("key", "none"):
        grown.stale()
        report = verdict([row for task in batch_rows(grown.source | {"ordering": ordering}) for row in task])
        assert (report.records, report.lost) == (grown.written, 0), ordering


def test_a_stream_does_not_start_before_the_newest_layout(
    cluster: LocalCluster, topic_name: str, grown: Grown
) -> None:
    grown.stale()
    with Query(options(cluster, subscribe=topic_name)) as query:
        assert query.positions(topic_name)[0] > grown.middle + 6
        assert query.all_rows() == []


def test_a_group_does_not_start_before_the_newest_layout(
    cluster: LocalCluster, topic_name: str, grown: Grown
) -> None:
    grown.stale()
    places = [TopicPartition(topic_name, partition) for partition in (0, 1)]
    with consumer_of(cluster, topic_name, topic_name, "latest") as consumer:

        def has_begun() -> bool:
            assert consumer.consume(100, 0.2) == []
            return all(place.offset >= 0 for place in consumer.committed(places, TIMEOUT))

        # What is written before the group has its places is none of what it reads.
        await_true(has_begun, "the group's start is committed")
        assert consumer.consume(100, 1.0) == []
        writer = NumberedWriter(cluster, topic_name, keys=5, first=1000)
        writer.write()
        report = verdict(taken(consumer, writer.written))
    assert (report.records, report.out_of_order, report.duplicated) == (writer.written, 0, 0)


def test_an_end_that_leaves_a_hole_inside_a_key_is_refused(grown: Grown, topic_name: str) -> None:
    ends = {"endingOffsets": json.dumps({topic_name: {"0": grown.middle, "1": -1}})}
    with pytest.raises(
        ConfigError, match=rf"endingOffsets has the value '{topic_name}-0: {grown.middle}': keys"
    ):
        batch_rows(grown.source | ends)
    (rows,) = batch_rows(
        grown.source | {"endingOffsets": json.dumps({topic_name: {"0": grown.middle, "1": 0}})}
    )
    assert len(rows) == 25
    unordered = batch_rows(grown.source | ends | {"ordering": "none"})
    assert sum(map(len, unordered)) > 25
