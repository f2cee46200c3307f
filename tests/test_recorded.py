"""What earlier versions have answered and written is read by this one, down to the last member. What is recorded is never changed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from pydantic import BaseModel

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.client.layouts import reader
from spark_ordered_kafka.controller.change.protocol import ChangeStep
from spark_ordered_kafka.controller.monitoring import diagnostics
from spark_ordered_kafka.controller.state.records import TopicRecord
from spark_ordered_kafka.controller.zk.records import owned, parse
from spark_ordered_kafka.controller.zk.session import ROOT
from spark_ordered_kafka.errors import OrderedKafkaError
from tests.client.playing import ROUTES, Answer, played
from tests.newer import assert_told
from tests.recorded.files import ANSWERS, KINDS, ZNODES, kind_of, read, shown

SEVERAL = schemas.CreateTopicsRequest(topics=[schemas.NewTopic(topic="t"), schemas.NewTopic(topic="u")])


def asked(client: ControllerClient, told: dict[str, Any]) -> object:
    """The recorded answer, as the client reads it."""
    route, body = (told["method"], told["route"]), told["body"]
    if route == ("POST", "/v1/topics") and "topics" in body:
        return client.create_topics(SEVERAL)
    if route == ("GET", "/v1/topics/{topic}/layout") and "layouts" not in body:
        return client.writer_layout("t")
    if route == ("POST", "/v1/layouts"):
        # The client makes errors of rows.
        return reader(schemas.LayoutHistories)(json.dumps(body).encode())
    return ROUTES[route](client)


@pytest.mark.parametrize("path", ANSWERS, ids=shown)
def test_what_was_answered_is_read(path: Path) -> None:
    told = read(path)
    is_done = told["status"] < 300 and told["status"] != 202
    with ExitStack() as stack:
        controller = stack.enter_context(played(Answer(told["status"], json.dumps(told["body"]).encode())))
        client = stack.enter_context(ControllerClient(controller.url, retry_for=0.0))
        if not is_done:
            stack.enter_context(pytest.raises(OrderedKafkaError))
        found = asked(client, told)
    if not is_done or found is None:  # what the client has nothing to say about
        return
    back = json.loads(found.model_dump_json()) if isinstance(found, BaseModel) else msgspec.to_builtins(found)
    assert_told(told["body"], back, whole=True)


@pytest.mark.parametrize("path", ZNODES, ids=shown)
def test_what_was_written_is_read_and_may_be_acted_on(path: Path) -> None:
    told = read(path)
    record = owned(
        parse(kind_of(told["path"]), json.dumps(told["data"]).encode(), told["path"]), told["path"]
    )
    assert not record.model_extra
    if isinstance(record, TopicRecord):
        assert not any(getattr(change, "unknown", None) for change in (record.change, record.last_change))
    assert_told(told["data"], json.loads(record.model_dump_json(by_alias=True)), whole=True)


def test_every_route_and_every_kind_of_znode_is_recorded() -> None:
    assert {(told["method"], told["route"]) for told in map(read, ANSWERS)} == ROUTES.keys() - {
        ("GET", "/metrics")
    }
    assert {kind_of(read(path)["path"]) for path in ZNODES} == set(KINDS.values())


def test_the_doctor_knows_every_znode_of_its_own_version() -> None:
    for path in ZNODES:
        parent, names = ROOT, read(path)["path"].removeprefix(ROOT).strip("/").split("/")
        for name in names:
            assert name in diagnostics.ZNODES.get(parent, {name}), f"{parent}/{name}"
            parent = f"{parent}/{name}"


def test_every_step_and_kind_of_a_change_is_recorded() -> None:
    changes = [told["data"]["change"] for told in map(read, ZNODES) if "change" in told["data"]]
    for member, words in (("step", ChangeStep), ("kind", schemas.ChangeKind)):
        assert {change[member] for change in changes if change} == set(get_args(words))
