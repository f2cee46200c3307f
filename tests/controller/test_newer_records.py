"""A controller of this version reads the records of a later one, keeps what it does not know, and leaves alone what it would
have to know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.reassign.throttle.policy import Found, ThrottlesRecord, advance
from spark_ordered_kafka.controller.state import broker_limits, reassignments, reviews  # noqa: F401 - their records
from spark_ordered_kafka.controller.state.change import NewerChange, own_change, refuse_second
from spark_ordered_kafka.controller.state.reassignment_records import MovesRecord, RequestRecord
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.topics.retirement import new_statuses
from spark_ordered_kafka.controller.topics.views import change_view, finished_view, topic_summary
from spark_ordered_kafka.controller.zk.records import NewerRecordError, Record, dump, owned, parse
from spark_ordered_kafka.updates import updated
from tests.newer import MEMBER, WORD, assert_told, closed, members, newer

TOPIC = {
    "topic_id": "id", "initial_partition_count": 1, "undeleted_partition_count": 2, "layout_epoch": 3,
    "hash": "murmur3", "ordered_delivery": True,
}  # fmt: skip
CHANGE = {
    "id": "7",
    "topic": "t",
    "kind": "expand",
    "source": 2,
    "target": 4,
    "existing": 2,
    "started_at": 1.0,
}
ENDED = {**CHANGE, "outcome": "done", "finished_at": 2.0}
MOVE = {"topic": "t", "partition": 0, "before": [1], "after": [2]}
REQUEST = {"request_id": 1, "created_at": 1.0, "principal": "p"}


def records(kind: type[Record] = Record) -> Iterator[type[Record]]:
    for below in kind.__subclasses__():
        yield from (below, *records(below))


RECORDS = list(records())


def record_of(kind: type[Any], told: dict[str, Any]) -> Any:
    return parse(kind, json.dumps(told).encode(), "/znode")


def topic_with(**members_of_change: Any) -> TopicRecord:
    record: TopicRecord = record_of(TopicRecord, {**TOPIC, "change": {**CHANGE, **members_of_change}})
    return record


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=20)
def test_whatever_is_new_in_a_record_is_read_and_kept(kind: type[Record], data: st.DataObject) -> None:
    written = data.draw(newer(kind))
    record = record_of(kind, written)
    assert_told(written, json.loads(record.model_dump_json()), whole=True)
    assert record.is_newer or record.version <= kind.model_fields["version"].default


def test_no_record_is_closed() -> None:
    """But for the words of a change, in whose place :class:`NewerChange` has those of a newer controller."""
    assert [kind.__name__ for kind in RECORDS if closed(kind)] == []
    parts = {
        part for kind in RECORDS for annotation, _ in members(kind).values() for part in parts_of(annotation)
    }
    assert [part.__name__ for part in parts if closed(part)] == ["Change"]


def parts_of(annotation: Any) -> Iterator[type[Any]]:
    if hasattr(annotation, "model_fields") or hasattr(annotation, "__dataclass_fields__"):
        yield annotation
    for arg in getattr(annotation, "__args__", ()):
        yield from parts_of(arg)


def test_what_is_changed_keeps_what_is_not_known() -> None:
    """At every depth, where it is the same thing after it as before; what is new has nothing of it."""
    old = record_of(
        TopicRecord,
        {**TOPIC, MEMBER: 1, "change": {**CHANGE, MEMBER: 2}, "last_change": {**ENDED, MEMBER: 3}},
    )
    kept = json.loads(dump(updated(old, layout_epoch=4)))
    assert (kept[MEMBER], kept["change"][MEMBER], kept["last_change"][MEMBER]) == (1, 2, 3)
    ended = json.loads(dump(updated(old, change=None)))
    assert (ended[MEMBER], ended["change"], ended["last_change"][MEMBER]) == (1, None, 3)
    assert "unknown" not in kept["change"]


@pytest.mark.parametrize(("member", "word"), [("step", "frozen"), ("kind", "freeze")])
def test_a_change_of_a_newer_controller_is_shown_and_nothing_else(member: str, word: str) -> None:
    record = topic_with(**{member: word, "closing_at": 5.0})
    change = record.change
    assert isinstance(change, NewerChange)
    assert record.is_newer
    assert change_view(change).model_dump()[member] == word
    assert topic_summary("t", record, change).change == change_view(change)
    for refuse in (refuse_second, own_change):
        with pytest.raises(NewerRecordError, match=f"{word}.*a newer controller is needed") as refused:
            refuse("t", change)
        assert refused.value.retriable
    # Writers wait once it has begun to close, and not before.
    assert change.closing
    before = topic_with(**{member: word}).change
    assert before is not None
    assert not before.closing


def test_how_a_newer_controllers_change_ended_is_shown() -> None:
    last = record_of(
        TopicRecord, {**TOPIC, "last_change": {**ENDED, "outcome": WORD, "error_code": 4711}}
    ).last_change
    view = finished_view(last)
    assert (view.outcome, view.error and (view.error.error_code, view.error.error)) == (
        WORD,
        (4711, "ERROR_4711"),
    )


def test_a_record_of_a_higher_version_is_not_written() -> None:
    assert owned(record_of(TopicRecord, TOPIC), "/t").version == 1
    with pytest.raises(NewerRecordError, match=r"/t .*version 2.*a newer controller is needed"):
        owned(record_of(TopicRecord, {**TOPIC, "version": 2}), "/t")


def test_a_request_in_an_unknown_state_ends_by_its_time() -> None:
    going, ended = ({**REQUEST, "state": WORD, **more} for more in ({}, {"ended_at": 2.0}))
    assert [
        (r.ended, r.is_newer) for r in (record_of(RequestRecord, going), record_of(RequestRecord, ended))
    ] == [
        (False, True),
        (True, True),
    ]
    assert record_of(MovesRecord, {"moves": [MOVE, {**MOVE, "state": WORD}]}).is_newer


def test_the_mark_of_a_newer_controller_stays() -> None:
    logs = {2: (0, 0), 3: (0, 0), 4: (0, 5)}
    assert new_statuses(2, {2: WORD, 3: "marked", 4: "marked"}, logs) == {3: "deleted"}


def test_what_throttles_hold_keeps_what_is_not_known() -> None:
    held = {"prior": None, "value": "5", MEMBER: 2}
    name = "leader.replication.throttled.rate"
    record = record_of(ThrottlesRecord, {MEMBER: 1, "brokers": {"1": {name: held}}})
    step = advance(record, {}, Found({next(iter(record.held())): "5"}))
    told = json.loads(dump(step.record))
    assert (told[MEMBER], told["brokers"]["1"][name][MEMBER]) == (1, 2)
