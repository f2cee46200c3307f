"""What goes on twice, or not at all, when a process is elected again, or when its answer got lost: schedules of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from spark_ordered_kafka.controller.change.job import Job
from spark_ordered_kafka.controller.change.protocol import Change
from spark_ordered_kafka.controller.change.runner import _EndedError, _own
from spark_ordered_kafka.controller.change.service import Changes
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.controller.state.paths import TOPICS
from spark_ordered_kafka.controller.state.records import LayoutRecord, TopicRecord
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.topics.deletion import TopicDeleter
from spark_ordered_kafka.controller.topics.foreign_partitions import Covering
from spark_ordered_kafka.controller.topics.idempotency import keyed, new_id
from spark_ordered_kafka.controller.zk.records import Record, dump
from spark_ordered_kafka.controller.zk.session import ConflictError, DeposedError, Znode, ZooKeeperError
from spark_ordered_kafka.errors import UnavailableError
from spark_ordered_kafka.kafka.values import LogEnd
from spark_ordered_kafka.updates import updated

_PATIENCE = 60.0
CHANGE = Change("c1", "t", "expand", 2, 4, 2, 0.0)


def record(**fields: Any) -> TopicRecord:
    defaults: dict[str, Any] = {
        "topic_id": "id",
        "initial_partition_count": 2,
        "undeleted_partition_count": 2,
        "layout_epoch": 0,
        "hash": "murmur3",
        "ordered_delivery": True,
    }
    return TopicRecord(**{**defaults, **fields})


class Store:
    """Topics' records. ``await_claim`` calls ``claimed`` with the event that would end the wait."""

    def __init__(
        self, *topics: TopicRecord, claimed: Callable[[threading.Event], None] = lambda _: None
    ) -> None:
        self.records = dict(zip("t", topics, strict=False))
        self.await_claim = claimed

    def topics(self) -> list[str]:
        return sorted(self.records)

    def topic(self, topic: str) -> TopicRecord | None:
        return self.records.get(topic)

    def deletions(self) -> dict[str, str]:
        return {topic: one.topic_id for topic, one in self.records.items()}

    def update_topic(self, topic: str, transform: Callable[[TopicRecord], TopicRecord]) -> TopicRecord:
        self.records[topic] = transform(self.records[topic])
        return self.records[topic]


class Held:
    """A runner whose jobs go on until :meth:`end`."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._news = threading.Condition()
        self._ended = threading.Event()

    def run(self, job: Job) -> None:
        with self._news:
            self.jobs.append(job)
            self._news.notify_all()
        assert self._ended.wait(_PATIENCE)

    def begun(self, count: int) -> list[Job]:
        with self._news:
            assert self._news.wait_for(lambda: len(self.jobs) >= count, _PATIENCE)
            return self.jobs

    def end(self) -> None:
        self._ended.set()


@contextmanager
def changes_of(store: Store) -> Iterator[tuple[Changes, Held]]:
    runner: Any = Held()
    topics: Any = SimpleNamespace(record=lambda topic: (store.records[topic], 0))
    admin: Any = SimpleNamespace(requests=None)
    expansion: Any = SimpleNamespace(ended=lambda _: None)
    pending: Any = SimpleNamespace(refuse_resizing=lambda _: None)
    rest: Any = None
    try:
        znodes: Any = store
        yield Changes(admin, znodes, topics, runner, expansion, pending, rest, rest, lambda: 0.0), runner
    finally:
        runner.end()


def test_change_found_recorded_before_the_request_goes_on_has_one_job() -> None:
    with changes_of(Store(record(change=CHANGE))) as (changes, runner):
        changes.resume_all()  # after the request's write, before its job
        job = changes._jobs.run(CHANGE, "id")
        assert runner.begun(1) == [job]
        runner.end()
        changes.stop(_PATIENCE)
        assert runner.jobs == [job]


def test_change_whose_job_was_stopped_gets_another() -> None:
    with changes_of(Store(record(change=CHANGE))) as (changes, runner):
        stopped = changes._jobs.run(CHANGE, "id")
        changes.begin_stop()
        changes.resume_all()
        assert {job.stop.is_set(): job is stopped for job in runner.begun(2)} == {True: True, False: False}


def test_request_that_comes_again_while_it_is_planned_is_recorded_once() -> None:
    store = Store(record())
    with changes_of(store) as (changes, runner), keyed("k"):
        planned = replace(CHANGE, id=new_id("t", 4))
        jobs = [changes._record("t", record(), planned, lambda *_: planned) for _ in range(2)]
        assert jobs[0] is jobs[1]
        assert runner.begun(1) == jobs[:1]
        # Ended meanwhile: nothing is begun anew.
        ended = finished(planned.id)
        store.records["t"] = record(last_change=ended)
        changes._jobs._entries.clear()
        assert changes._record("t", record(), planned, lambda *_: planned).done.result(0) == ended
        assert len(runner.jobs) == 1


@pytest.mark.parametrize("arrived", [True, False])
def test_change_whose_recording_got_no_answer_goes_on_if_it_was_recorded(arrived: bool) -> None:
    claims = iter([ZooKeeperError("interrupted"), None])

    def claimed(_: threading.Event) -> None:
        if (error := next(claims)) is not None:
            raise error

    class Losing(Store):
        def update_topic(self, topic: str, transform: Callable[[TopicRecord], TopicRecord]) -> TopicRecord:
            if arrived:
                super().update_topic(topic, transform)
            raise ZooKeeperError("no answer")

    with changes_of(Losing(record(), claimed=claimed)) as (changes, runner):
        if arrived:
            job = changes._record("t", record(), CHANGE, lambda *_: CHANGE)
            assert runner.begun(1) == [job]
        else:
            with pytest.raises(ZooKeeperError, match="no answer"):
                changes._record("t", record(), CHANGE, lambda *_: CHANGE)
            assert runner.jobs == []


def test_check_before_a_switch_that_has_begun_does_not_refuse_it() -> None:
    store = Store(record())
    with changes_of(store) as (changes, _), keyed("k"):
        switch = replace(CHANGE, id=new_id("t", "ordered_delivery", False, False), kind="unorder", target=2)
        job = changes._record("t", record(), switch, lambda *_: switch)
        asked: dict[str, Any] = {"force": False, "principal": "User:a"}
        assert changes.switch_order("t", False, validate_only=True, **asked) is None
        assert changes.switch_order("t", False, validate_only=False, **asked) is job


def finished(change_id: str) -> FinishedChange:
    return FinishedChange(change_id, "expand", 2, 4, "done", 0.0, 1.0)


def test_change_that_ended_long_ago_is_not_tried_for_ever() -> None:
    job = Job(CHANGE, "id", threading.Event())
    with pytest.raises(_EndedError) as ended:
        _own(record(last_change=finished("c2"), ended_changes=("c1", "c2")), CHANGE, job, 5.0)
    assert (ended.value.finished.id, ended.value.finished.outcome) == ("c1", "failed")


# -- deletions ----------------------------------------------------------------------------------------------------------


def deleter_of(store: Store) -> TopicDeleter:
    znodes: Any = store
    admin: Any = SimpleNamespace(requests=None)
    rest: Any = None
    return TopicDeleter(admin, znodes, rest, rest, rest, lambda: 0.0, 1.0)


def test_deletion_held_up_by_kafka_is_gone_on_with_when_the_process_leads_again() -> None:
    release, begun = threading.Event(), [threading.Event(), threading.Event()]
    stops: list[threading.Event] = []

    def claimed(stop: threading.Event) -> None:
        stops.append(stop)
        begun[len(stops) - 1].set()
        assert release.wait(_PATIENCE)
        raise DeposedError

    deleter = deleter_of(Store(record(deleting_since=1.0), claimed=claimed))
    try:
        deleter.resume_all()
        assert begun[0].wait(_PATIENCE)
        deleter.stop(0.0)
        deleter.resume_all()
        assert begun[1].wait(_PATIENCE)
        assert [stop.is_set() for stop in stops] == [True, False]
    finally:
        release.set()
        deleter.close()


def test_ledgers_are_kept_by_who_was_deposed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = iter([True, True, False])

    def claimed(_: threading.Event) -> None:
        if not next(claims):
            raise DeposedError

    deleter = deleter_of(Store(record(deleting_since=1.0), claimed=claimed))
    done: list[str] = []
    monkeypatch.setattr(deleter, "_fence", lambda _: done.append("fenced"))
    monkeypatch.setattr(deleter, "_kafka", SimpleNamespace(delete=lambda *_: done.append("deleted")))
    monkeypatch.setattr(deleter, "_groups", SimpleNamespace(delete=lambda _: done.append("ledgers")))
    with pytest.raises(DeposedError):
        deleter._job("t", "id").done.result(_PATIENCE)
    deleter.close()
    assert done == ["fenced", "deleted"]


def test_deletion_that_has_ended_leaves_a_new_topic_of_that_name_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleter = deleter_of(Store())
    monkeypatch.setattr(deleter, "_fence", lambda _: pytest.fail("fenced"))
    assert deleter._job("t", "id").done.result(_PATIENCE) is None
    deleter.close()


# -- layouts ------------------------------------------------------------------------------------------------------------


class Tree:
    """One topic's znodes as a controller reads them; ``on_read`` are called before a read of its record, each once."""

    def __init__(self) -> None:
        self.nodes: dict[str, Record] = {}
        self.created = 0
        self.on_read: list[Callable[[], None]] = []
        session: Any = SimpleNamespace(
            client=SimpleNamespace(get_async=lambda path: path), wait=self._wait, peek=self._peek
        )
        self.znodes = Znodes(session)

    def put(self, topic: TopicRecord, *layouts: LayoutRecord, created: int = 1) -> TopicRecord:
        """Replace all; the record as it is read."""
        self.created = created
        self.nodes = {f"{TOPICS}/t/layouts/{epoch}": one for epoch, one in enumerate(layouts)}
        self.nodes[f"{TOPICS}/t"] = topic
        read = self.znodes.topic("t")
        assert read is not None
        return read

    def _wait(self, path: str, _: str) -> tuple[bytes, object]:
        if path not in self.nodes:
            raise NoNodeError
        return dump(self.nodes[path]), SimpleNamespace(version=0)

    def _peek(self, path: str) -> Znode:
        while self.on_read:
            self.on_read.pop()()
        return Znode(self._wait(path, path)[0], 0, self.created)


def test_layouts_are_answered_while_they_are_folded() -> None:
    tree = Tree()
    now = tree.put(record(layout_epoch=2), *map(layout, range(3)))
    assert len(tree.znodes.layouts("t", updated(now, layout_epoch=1))) == 2
    tree.on_read.append(lambda: tree.znodes._layouts.forget("t", now.management, 2))
    assert [one.committed_at for one in tree.znodes.layouts("t", now)] == [0.0, 1.0, 2.0]


def test_layouts_of_a_released_topic_are_not_those_of_its_next_adoption() -> None:
    """Another controller has released and adopted it: Kafka's topic id is the same, and epochs begin at 0 again."""
    tree = Tree()
    before = tree.put(record(layout_epoch=1), layout(0), layout(1))
    assert [one.committed_at for one in tree.znodes.layouts("t", before)] == [0.0, 1.0]
    adopted = tree.put(record(layout_epoch=1), layout(5), layout(6), created=2)
    assert [one.committed_at for one in tree.znodes.layouts("t", adopted)] == [5.0, 6.0]
    assert [one.committed_at for one in tree.znodes.layouts("t", adopted, 1)] == [6.0], "from the cache"


def test_layouts_are_not_read_across_a_release_and_an_adoption() -> None:
    tree = Tree()
    before = tree.put(record(layout_epoch=1), layout(0), layout(1))
    tree.on_read.append(lambda: setattr(tree, "created", 2))
    with pytest.raises(UnavailableError, match="was replaced"):
        tree.znodes.layouts("t", before)


def test_a_layout_is_not_extended_across_a_release_and_an_adoption() -> None:
    """The covering layout was computed from one of before, and would have too few partitions."""
    tree = Tree()
    before = tree.put(record(undeleted_partition_count=2), layout(0))
    adopted = record(undeleted_partition_count=4)
    description = SimpleNamespace(
        topic_id="id", partitions=[SimpleNamespace(partition=p, leader=1) for p in range(4)]
    )
    admin: Any = SimpleNamespace(
        describe_topics=lambda _, deadline: {"t": description},
        log_ends=lambda _, partitions: {p: LogEnd(20, 0) for p in partitions},
    )

    def commit(_: str, transform: Callable[[TopicRecord], TopicRecord], __: LayoutRecord) -> TopicRecord:
        return transform(tree.put(adopted, layout(5), created=2))

    znodes: Any = SimpleNamespace(
        read_topic=lambda _: (before, 0), layouts=tree.znodes.layouts, commit_layout=commit
    )
    unused: Any = None
    with pytest.raises(ConflictError):
        Covering(admin, znodes, unused, lambda: 0.0).cover("t")


def layout(epoch: int) -> LayoutRecord:
    return LayoutRecord(
        undeleted_partition_count=2, starts=[epoch, epoch], leader_epochs=[0, 0], committed_at=float(epoch)
    )
