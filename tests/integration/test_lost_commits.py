"""Ends of changes that nobody was told of: writes of which no answer comes, and writes that lose against others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spark_ordered_kafka.controller.change import protocol as p
from spark_ordered_kafka.controller.change.protocol import Instruction
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.controller.zk.session import ConflictError, ZooKeeperError
from tests.integration.controllers import Hold, InProcess
from tests.servers import TIMEOUT


@pytest.mark.parametrize("arrived", [True, False])
def test_a_cancel_after_a_commit_without_an_answer_is_accepted_only_if_it_is_in_time(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    topic = controller.create(2)
    commit = Znodes.commit_layout
    lost: list[bool] = []
    stale: list[Any] = []

    def unanswered(znodes: Znodes, *arguments: Any) -> Any:
        if lost:
            return commit(znodes, *arguments)
        lost.append(True)
        # Whoever cancels has read the record just before.
        stale.append(controller.service.topics.record(topic))
        if arrived:
            commit(znodes, *arguments)
        raise ZooKeeperError("ZooKeeper did not answer")

    monkeypatch.setattr(Znodes, "commit_layout", unanswered)
    with Hold(p.Pause) as hold, ThreadPoolExecutor() as pool:
        controller.before = hold
        change = pool.submit(controller.alter, topic, 3)
        hold.await_reached()
        monkeypatch.setattr(controller.service.topics, "record", lambda _: stale[0])
        answer = controller.http.delete(f"/v1/topics/{topic}/change")
        monkeypatch.undo()
        hold.release()
        change.result(TIMEOUT)
    ended = controller.await_end(topic)
    assert (answer.status_code == 200) == (ended.outcome == "cancelled") == (not arrived)
    if arrived:
        assert answer.json()["error"] == "INVALID_REQUEST"
        assert "has ended" in answer.json()["error_message"]
        assert ended.outcome == "done"


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_bug_leaves_no_topic_closed_although_taking_back_loses_against_other_writes(
    controller: InProcess, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    topic = controller.create(2)
    update = Znodes.update_topic
    conflicts: list[str] = []

    def bug(instruction: Instruction) -> None:
        if isinstance(instruction, p.Fence):
            monkeypatch.setattr(Znodes, "update_topic", conflicting)
            raise KeyError("a bug")

    def conflicting(znodes: Znodes, *arguments: Any) -> Any:
        if len(conflicts) < times:
            conflicts.append(topic)
            raise ConflictError(topic)
        return update(znodes, *arguments)

    controller.before = bug
    controller.alter(topic, 3, wait=False)
    ended = controller.await_end(topic)
    assert (ended.outcome, ended.error and ended.error.error) == ("failed", "UNKNOWN_SERVER_ERROR")
    assert len(conflicts) == times
    controller.before = lambda _: None
    assert controller.http.get(f"/v1/topics/{topic}/layout", params={"writer": "true"}).status_code == 200
    assert controller.alter(topic, 3).error == "NONE"


def test_no_answer_is_kept_by_a_cache(controller: InProcess) -> None:
    """Every route that takes no parameters, some with, and refusals of all kinds."""
    topic = controller.create(2)
    paths = [path for path in controller.http.get("/openapi.json").json()["paths"] if "{" not in path]
    # Events would come until their time limit.
    brief = {"/v1/events": {"timeout_ms": "1"}}
    answers = [controller.http.get(path, params=brief.get(path)) for path in paths]
    answers += [controller.http.post(path, json={}) for path in paths]
    for path in (f"/v1/topics/{topic}", f"/v1/topics/{topic}/layout", "/v1/topics/none", "/nowhere"):
        answers.append(controller.http.get(path))
    with Hold(p.ListTransactions) as hold, ThreadPoolExecutor() as pool:
        controller.before = hold
        change = pool.submit(controller.alter, topic, 3)
        hold.await_reached()
        closed = controller.http.get(f"/v1/topics/{topic}/layout", params={"writer": "true"})
        assert closed.status_code == 503
        answers.append(closed)
        hold.release()
        change.result(TIMEOUT)
    assert {answer.status_code for answer in answers} >= {200, 400, 404, 405, 503}
    assert {answer.headers.get("cache-control") for answer in answers} == {"no-store"}
