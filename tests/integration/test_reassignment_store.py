"""Requests to reassign partitions as ZooKeeper keeps them, and brokers whose metadata differ from them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_ordered_kafka.controller.reassign.requests.metadata_agreement import MetadataAgreement
from spark_ordered_kafka.controller.reassign.requests.validation import Known
from spark_ordered_kafka.controller.state.reassignment_records import Move, MovesRecord, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import REASSIGNMENT_PATHS, ReassignmentStore
from spark_ordered_kafka.controller.zk.session import Session
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.updates import updated
from tests.inside import session_of
from tests.integration.controllers import InProcess, in_process
from tests.integration.reassigning import Judge
from tests.servers import TIMEOUT


@pytest.fixture(scope="module")
def moving(three_brokers: LocalCluster) -> Iterator[InProcess]:
    with in_process(three_brokers) as controller:
        yield controller


@pytest.fixture
def store(moving: InProcess) -> ReassignmentStore:
    return ReassignmentStore(session_of(moving.service))


def new(request_id: int) -> RequestRecord:
    """A record of a request with which nothing is to be done."""
    return RequestRecord(
        request_id=request_id, created_at=0.0, ended_at=0.0, state="done", principal="User:test"
    )


def many(count: int) -> Sequence[Move]:
    """Moves that cannot be compressed much."""
    draw = random.Random(7)
    return [
        Move(
            topic=draw.randbytes(120).hex(),
            partition=p,
            before=tuple(draw.sample(range(10_000), 3)),
            after=tuple(draw.sample(range(10_000), 3)),
        )
        for p in range(count)
    ]


def test_more_than_zookeeper_holds_is_refused(store: ReassignmentStore) -> None:
    before = store.latest()
    with pytest.raises(RequestError, match="at most 900000 can be kept: divide it into several requests"):
        store.create(new, many(5_000))
    assert store.latest() == before
    kept = store.create(new, many(500))
    read = store.read(kept.request_id)
    assert read is not None
    assert (read[0], read[1].moves) == (kept, tuple(many(500)))
    store.delete(kept.request_id)
    store.delete(kept.request_id)
    assert store.read(kept.request_id) is None
    # Ids are not used again.
    assert store.create(new, many(10)).request_id == kept.request_id + 1
    store.delete(kept.request_id + 1)


def test_moves_that_stay_the_same_are_parsed_once(store: ReassignmentStore) -> None:
    kept = [store.create(new, many(count)).request_id for count in range(1, 7)]

    def moves(request_id: int) -> MovesRecord:
        read = store.read(request_id)
        assert read is not None
        return read[1]

    last = moves(kept[-1])
    assert moves(kept[-1]) is last
    for count, request_id in enumerate(kept[:-1], 1):
        assert moves(request_id).moves == tuple(many(count))
    assert moves(kept[-1]) == last
    store.write_moves(kept[-1], many(2))
    assert moves(kept[-1]).moves == tuple(many(2))
    for request_id in kept:
        store.delete(request_id)


def test_requests_that_have_ended_are_read_once(moving: InProcess, store: ReassignmentStore) -> None:
    ended = store.create(new, many(1)).request_id
    going = store.create(lambda number: updated(new(number), state="running"), many(1)).request_id
    assert {store.records()[ended].state, store.records()[going].state} == {"done", "running"}
    for request_id in (ended, going):
        store.update(request_id, lambda record: updated(record, state="failed"))
    assert (store.records()[ended].state, store.records()[going].state) == ("done", "failed")
    assert ReassignmentStore(session_of(moving.service)).records()[ended].state == "failed"
    for request_id in (ended, going):
        store.delete(request_id)
        assert request_id not in store.records()


def test_what_waits_for_its_turn_is_not_contradicted(moving: InProcess, store: ReassignmentStore) -> None:
    """Kafka knows nothing of it yet, and it would take back what is changed before it begins."""
    topic, other = moving.create(1, replication_factor=1), moving.create(1, replication_factor=1)

    def resized(name: str, wait: float = TIMEOUT) -> dict[str, Any]:
        body = {"topics": [{"topic": name, "replication_factor": 3}]}
        answer = moving.http.post("/v1/replication-factors", json=body, params={"wait": wait} if wait else {})
        row: dict[str, Any] = answer.json()["topics"][0]
        return row

    def waiting(*after: int) -> int:
        moves = [Move(topic=topic, partition=0, before=(1,), after=after)]
        return store.create(
            lambda number: RequestRecord(request_id=number, created_at=0.0, principal="User:test"), moves
        ).request_id

    may_begin = threading.Event()

    def hold(_: str) -> None:
        assert may_begin.wait(TIMEOUT), "nobody let the executor go on"

    # What is asked for another topic tells the executor of all that wait, so it is held until this one is gone.
    moving.before_step = hold
    request = waiting(2, 3)
    try:
        refused = resized(topic)
        assert refused["error"] == "REASSIGNMENT_IN_PROGRESS"
        assert f"wait for the end, or cancel reassignment {request}" in refused["error_message"]
        assert moving.alter(topic, 2).error == "REASSIGNMENT_IN_PROGRESS"
        assert moving.alter(topic, 2, validate_only=True).error == "REASSIGNMENT_IN_PROGRESS"
        assert resized(other, wait=0)["error"] == "NONE"
    finally:
        store.delete(request)
        may_begin.set()
        moving.before_step = lambda _: None
    assert resized(other)["error"] == "NONE"
    # Nobody tells the executor of this one, so it does not begin.
    request = waiting(3)
    try:
        assert resized(topic)["error"] == "REASSIGNMENT_IN_PROGRESS"
        # New partitions have as many replicas as the others all the time.
        assert moving.alter(topic, 2).error == "NONE"
    finally:
        store.delete(request)
    assert resized(topic)["error"] == "NONE"


def test_brokers_that_differ_are_not_believed(moving: InProcess, judge: Judge) -> None:
    topic = judge.create([1], [2])
    service = moving.service
    agreement = MetadataAgreement(
        service.admin.requests, ReassignmentStore(session_of(service)), time.time, timeout=TIMEOUT
    )
    described = service.admin.describe_topics([topic])
    alive = {broker.id for broker in service.admin.brokers()}
    names = {topic, "none", "no name"}
    assert agreement.agree(Known(topics=described, alive=alive), names)
    assert not agreement.agree(Known(topics={}, alive=alive), names)
    assert not agreement.agree(Known(topics=described, alive=alive - {3}), names)
    fewer = replace(described[topic], partitions=described[topic].partitions[:1])
    assert not agreement.agree(Known(topics={topic: fewer}, alive=alive), names)


def test_the_newest_plan_is_kafkas_json(moving: InProcess, store: ReassignmentStore) -> None:
    session: Session = session_of(moving.service)
    moves = [
        Move(topic="t", partition=0, before=(1,), after=(2, 3), after_log_dirs=("/a", None)),
        Move(topic="t", partition=1, before=(1,), after=(2,)),
    ]
    kept = store.create(new, moves)
    found = session.read(REASSIGNMENT_PATHS[0])
    assert found is not None
    assert (found.data, found.version) == (
        b'{"version":1,"partitions":['
        b'{"topic":"t","partition":0,"replicas":[2,3],"log_dirs":["/a","any"]},'
        b'{"topic":"t","partition":1,"replicas":[2],"log_dirs":["any"]}]}',
        kept.request_id,
    )
    store.delete(kept.request_id)
