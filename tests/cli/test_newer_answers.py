"""The command line prints the answers of a later controller: words that it does not know as they are, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spark_ordered_kafka.cli import app
from spark_ordered_kafka.client import schemas
from tests.client.playing import Answer, played
from tests.newer import MEMBER, WORD, newer

PLAN = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}
COMMANDS: dict[str, type[Any]] = {
    "topics list": schemas.TopicList,
    "topics describe --topic t": schemas.TopicView,
    "topics delete-records --topic t --yes": schemas.DeletedRecords,
    "brokers list": schemas.BrokerList,
    "controller list": schemas.ControllerList,
    "groups describe --group g": schemas.GroupPositions,
    "log-dirs describe": schemas.LogDirList,
    "replica-status": schemas.ReplicaStatusList,
    "reassign list": schemas.ReassignmentList,
    "reassign status": schemas.ReassignmentView,
    "reassign verify PLAN": schemas.Verification,
    "reviews list": schemas.ReviewList,
    "reviews show 7": schemas.ReviewView,
    "reviews approve 7": schemas.ReviewView,
}
CHANGE = {"id": "7", "kind": "expand", "target": 4, "source": 2, "started_at": 1.0}
STEP = CHANGE | {"step": "freezing", MEMBER: 1}


class Later:
    """A played controller of a later version; ``answers`` are sent one after another, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.url = ""

    def answer(self) -> Answer:
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Answer(status, json.dumps(body).encode())

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code and all that is printed by a command that gets the answers; it must not raise."""
        result = CliRunner(env={"ORDERED_KAFKA_CONTROLLER": self.url}).invoke(app, list(words))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output


@pytest.fixture(scope="module")
def later() -> Iterator[Later]:
    playing = Later()
    with played(playing.answer) as server:
        playing.url = server.url
        yield playing


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("plans") / "plan.json"
    path.write_text(json.dumps(PLAN), encoding="utf-8")
    return f"--reassignment-json-file {path}"


@pytest.mark.parametrize("command", COMMANDS)
@given(data=st.data())
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_is_new_is_printed(later: Later, plan: str, command: str, data: st.DataObject) -> None:
    later.answers = [(200, data.draw(newer(COMMANDS[command])))]
    words = command.replace("PLAN", plan).split()
    assert later.run(*words)[0] in (0, 1)
    assert later.run(*words, "--output", "json")[0] in (0, 1)


def test_an_unknown_step_and_kind_are_shown_as_they_are(later: Later) -> None:
    topic = {
        "topic": "t", "topic_id": "i", "cluster_id": "c", "initial_partition_count": 2, "layout_epoch": 1,
        "undeleted_partition_count": 2, "hash": "sip", "ordered_delivery": True, "partitions": [],
    }  # fmt: skip
    later.answers = [(200, topic | {"change": STEP, "last_change": None})]
    shown = later.run("topics", "describe", "--topic", "t")[1]
    assert "changing 2 -> 4: freezing" in shown
    assert "hash sip" in shown
    last = CHANGE | {"kind": "merge", "outcome": "postponed", "finished_at": 2.0}
    later.answers = [(200, topic | {"change": None, "last_change": last})]
    assert "last change merge 2 -> 4: postponed" in later.run("topics", "describe", "--topic", "t")[1]


def test_a_change_is_watched_through_an_unknown_step(later: Later) -> None:
    ended = CHANGE | {"outcome": "postponed", "finished_at": 2.0}
    later.answers = [
        (200, {"topics": [{"topic": "t", "change_id": "7"}]}),
        (200, {"topic": "t", "change": STEP, "last_change": None}),
        (200, {"topic": "t", "change": None, "last_change": ended}),
    ]
    code, shown = later.run("topics", "alter", "--topic", "t", "--partitions", "4")
    assert (code, "change 7 of topic 't' was postponed" in shown) == (1, True), shown


def test_an_unknown_error_is_shown_with_its_name(later: Later) -> None:
    error = {"error_code": 4711, "error": "FROZEN", "error_message": "wait"}
    later.answers = [(409, error)]
    assert later.run("topics", "list") == (1, "error: UNKNOWN_SERVER_ERROR: FROZEN (4711): wait\n")
    later.answers = [(200, {"topics": [{"topic": "t", **error}]})]
    code, shown = later.run("topics", "alter", "--topic", "t", "--partitions", "4")
    assert (code, shown) == (1, "error: UNKNOWN_SERVER_ERROR: FROZEN (4711): wait\n")
    assert WORD not in shown
