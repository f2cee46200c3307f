"""Old layouts are folded while readers read, lag, replay and begin anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from spark_ordered_kafka import ControllerClient
from spark_ordered_kafka.client.topics import TopicDirectory
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.folding import Folding
from spark_ordered_kafka.errors import DataLossError
from spark_ordered_kafka.local import LocalCluster
from tests.consumers import consumer_of, taken
from tests.inside import session_of
from tests.integration.controllers import InProcess, free_port, in_process, served
from tests.queries import Query, Rows, await_stable, batch_rows, everything, verdict
from tests.servers import TIMEOUT, unique_name
from tests.streams import NumberedWriter, change, create

COUNTS = (4, 3, 6)
KEYS = 6


@dataclass(frozen=True)
class Front:
    """What readers and writers need of a cluster, with the controller of this process."""

    bootstrap_servers: str
    controller_url: str


@pytest.fixture(scope="module")
def front(kafka_cluster: LocalCluster, running_controller: InProcess) -> Iterator[LocalCluster]:
    port = free_port()
    with served(running_controller, port):
        yield cast(LocalCluster, Front(kafka_cluster.bootstrap_servers, f"http://127.0.0.1:{port}"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def folding(controller: InProcess, clock: Callable[[], float], least: int = 1) -> Callable[[str], None]:
    """Folds a topic, as the controller's check of it does."""
    service = controller.service
    znodes = Znodes(session_of(service))
    folds = Folding(service.admin, znodes, clock, least=least, settled=60.0)

    def fold_now(topic: str) -> None:
        record = znodes.topic(topic)
        assert record is not None
        folds.fold(topic, record)

    return fold_now


def fold(controller: InProcess, topic: str) -> None:
    clock = Clock()
    fold_now = folding(controller, clock)
    fold_now(topic)
    clock.now += 60.0
    fold_now(topic)


def delete_all(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    partitions = admin.list_topics(topic, TIMEOUT).topics[topic].partitions
    end = -1  # the high watermark
    for future in admin.delete_records([TopicPartition(topic, p, end) for p in partitions]).values():
        future.result(TIMEOUT)


def epochs(controller: InProcess, topic: str, **params: int) -> list[int]:
    answer = controller.http.get(f"/v1/topics/{topic}/layout", params=params)
    assert answer.status_code == 200, answer.text
    return [one["epoch"] for one in answer.json()["layouts"]]


def values(rows: Rows) -> list[str]:
    return sorted(row["value"].decode() for row in rows)


def in_order(rows: Rows) -> Rows:
    report = verdict(rows)
    assert (report.out_of_order, report.duplicated) == (0, 0), report
    return rows


class Topic:
    """Written under some layouts, all of whose records are then deleted, and under two more that stay."""

    def __init__(self, front: LocalCluster, name: str) -> None:
        self.front = front
        self.name = create(front, name, 2)
        self.writer = NumberedWriter(front, name, keys=KEYS)

    def write(self) -> None:
        self.writer.write(2)
        await_stable(self.front, self.name)

    def live(self, each: Callable[[], None] = lambda: None) -> None:
        """Layout epochs 0 to 3; ``each`` is called when one has been written."""
        self.write()
        each()
        for count in COUNTS:
            change(self.front, self.name, count)
            self.write()
            each()

    def go_on(self, count: int) -> None:
        self.write()
        change(self.front, self.name, count)
        self.write()


@pytest.mark.long
def test_readers_go_on_across_a_fold(
    front: LocalCluster, controller: InProcess, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = Topic(front, topic_name), unique_name("group")
    early: list[str] = []
    with Query(everything(front, topic_name)) as running, consumer_of(front, topic_name, group) as consumer:
        rows: Rows = []
        read: Rows = []

        def follow() -> None:
            rows.extend(running.all_rows())
            read.extend(taken(consumer, topic.writer.written - len(read)))
            consumer.commit(asynchronous=False)
            early.append(running.checkpoint)

        topic.live(follow)
        caught_up = running.checkpoint
        delete_all(front, topic_name)
        topic.go_on(5)
        assert epochs(controller, topic_name) == [0, 1, 2, 3, 4]
        fold(controller, topic_name)
        assert epochs(controller, topic_name) == epochs(controller, topic_name, from_epoch=1) == [3, 4]
        assert epochs(controller, topic_name, from_epoch=4) == [4]
        assert epochs(controller, topic_name, from_epoch=5) == []

        # Whoever was there knows all layouts.
        follow()
        change(front, topic_name, 2)
        topic.write()
        follow()
        assert verdict(in_order(rows), topic.writer.written).lost == 0
        assert verdict(in_order(read), topic.writer.written).lost == 0

    # Whoever comes knows the rest: from the checkpoint, from the start, as a batch, in the same group and in a new one.
    left = [value for value in values(rows) if not is_deleted(value)]
    with Query(everything(front, topic_name), caught_up) as resumed:
        end = resumed.plan()
        again = in_order(resumed.read(end) + resumed.all_rows())
        assert values(again) == left
    with Query(everything(front, topic_name), caught_up) as replayed:
        first = in_order(replayed.read(end))
        assert 0 < len(first) <= len(left)
    with Query(everything(front, topic_name)) as fresh:
        assert values(in_order(fresh.all_rows())) == left
    tasks = batch_rows(everything(front, topic_name))
    assert values([row for task in tasks for row in in_order(task)]) == left
    topic.write()
    with consumer_of(front, topic_name, group, reset="error") as member:
        assert len(in_order(taken(member, 60))) == 60
    with consumer_of(front, topic_name, unique_name("group")) as newcomer:
        assert len(in_order(taken(newcomer, len(left) + 60))) == len(left) + 60

    # Whoever lagged behind the deleted records is told.
    with (
        Query(everything(front, topic_name), early[1]) as strict,
        pytest.raises(DataLossError, match="gone before"),
    ):
        strict.plan()
    with Query(everything(front, topic_name, failOnDataLoss="false"), early[1]) as lenient:
        assert len(in_order(lenient.all_rows())) == len(left) + 60
    # A micro-batch whose layouts are folded is planned, and then it is read again.
    with (
        Query(everything(front, topic_name), early[0]) as strict,
        pytest.raises(DataLossError, match="records of the micro-batch are gone"),
    ):
        strict.read(early[1])
    with Query(everything(front, topic_name, failOnDataLoss="false"), early[0]) as lenient:
        assert lenient.read(early[1]) == []
        assert lenient.read(early[1]) == []
    assert "records of the micro-batch are gone" in caplog.text

    with ControllerClient(front.controller_url) as client:
        assert client.truncations(topic_name).truncations == []
    assert controller.http.get(f"/v1/topics/{topic_name}/leader-epochs").status_code == 200


def number_of(row: dict[str, Any]) -> int:
    return int(row["value"].split(b":")[1])


def is_deleted(value: str) -> bool:
    """Of the records that :meth:`Topic.live` wrote: two transactions of five numbers a key, under four layouts."""
    return int(value.split(":")[1]) < 4 * 2 * 5


@pytest.mark.long
def test_a_client_that_missed_what_was_folded_begins_behind_it(
    front: LocalCluster, controller: InProcess, topic_name: str
) -> None:
    topic = Topic(front, topic_name)
    directory = TopicDirectory(
        Connection({"bootstrap.servers": front.bootstrap_servers}, front.controller_url)
    )
    try:
        before = directory.refresh(topic_name)
        topic.live()
        delete_all(front, topic_name)
        topic.go_on(5)
        fold(controller, topic_name)
        after = directory.refresh(topic_name)
        assert (before.history.first_epoch, before.history.current.epoch) == (0, 0)
        assert (after.history.first_epoch, after.history.current.epoch) == (3, 4)
        snapshot = directory.snapshot(topic_name)
        assert snapshot.starts == snapshot.log_starts
        assert (
            directory.layouts_until(topic_name, after.topic_id, 1).history.layouts
            == after.history.layouts[:1]
        )
    finally:
        directory.close()


def test_only_what_settled_pays_and_stands_still_is_folded(
    front: LocalCluster, controller: InProcess, topic_name: str
) -> None:
    topic, clock = Topic(front, topic_name), Clock()
    topic.live()
    eager, patient = folding(controller, clock), folding(controller, clock, least=4)
    for _ in range(3):
        eager(topic_name)
        clock.now += 61.0
    assert epochs(controller, topic_name) == [0, 1, 2, 3], "their records are there"
    delete_all(front, topic_name)
    eager(topic_name)
    patient(topic_name)
    clock.now += 59.0
    eager(topic_name)
    assert epochs(controller, topic_name) == [0, 1, 2, 3], "a broker may forget it yet"
    clock.now += 2.0
    patient(topic_name)
    assert epochs(controller, topic_name) == [0, 1, 2, 3], "three are not worth it"
    eager(topic_name)
    assert epochs(controller, topic_name) == [3]
    change(front, topic_name, 2)
    topic.write()
    with Query(everything(front, topic_name)) as query:
        assert len(in_order(query.all_rows())) == 60


@pytest.mark.long
def test_another_controller_goes_on_with_a_folded_history(kafka_cluster: LocalCluster) -> None:
    chroot, port = unique_name("folded"), free_port()
    front = cast(LocalCluster, Front(kafka_cluster.bootstrap_servers, f"http://127.0.0.1:{port}"))
    with in_process(kafka_cluster, chroot=chroot) as first, served(first, port):
        topic = Topic(front, unique_name("topic"))
        topic.live()
        delete_all(front, topic.name)
        fold(first, topic.name)
        topic.write()
    with in_process(kafka_cluster, chroot=chroot) as second, served(second, port):
        assert epochs(second, topic.name) == [3]
        change(front, topic.name, 3)
        topic.write()
        with Query(everything(front, topic.name)) as query:
            assert len(in_order(query.all_rows())) == 120


@pytest.mark.long
def test_a_consumer_without_a_controller_skips_what_was_folded_meanwhile(
    front: LocalCluster, controller: InProcess, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, port = Topic(front, topic_name), free_port()
    other = cast(LocalCluster, Front(front.bootstrap_servers, f"http://127.0.0.1:{port}"))
    # All the partitions that there will be: a rebalance would do what the consumer is to do by itself.
    change(front, topic_name, max(COUNTS))
    with ExitStack() as stack:
        with served(controller, port):
            consumer = stack.enter_context(consumer_of(other, topic_name, unique_name("group")))
            topic.write()
            rows = taken(consumer, 60)
        for count in COUNTS:
            change(front, topic_name, count)
            topic.write()
            assert consumer.consume(1000, 0.2) == [], (
                "fetched, and nobody says under which layout they were written"
            )
        delete_all(front, topic_name)
        left = topic.writer.written
        topic.go_on(5)
        fold(controller, topic_name)
        assert epochs(controller, topic_name) == [4, 5]
        with served(controller, port):
            # What was in hand already of a layout that is known still counts; the rest is told.
            while sum(number_of(row) >= left // KEYS for row in rows) < topic.writer.written - left:
                rows += taken(consumer, 1)
            assert "are gone before they were read" in caplog.text
            topic.write()
            in_order(rows + taken(consumer, 60))
