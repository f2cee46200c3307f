"""Wrong requests and commands about log directories: each is refused with what is wrong, and nothing moves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_ordered_kafka.kafka.admin import KafkaAdmin
from tests.integration.controllers import InProcess
from tests.integration.log_dirs.moving import Cli, moved, other, replica, where

pytestmark = pytest.mark.usefixtures("three_brokers")


@pytest.mark.parametrize(
    ("path", "params", "error", "words"),
    [
        ("log-dirs", {"broker": "9"}, "UNKNOWN_MEMBER_ID", "broker has the value 9: known are 1, 2, 3"),
        ("log-dirs", {"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION", "topic has the value 'nope'"),
        ("log-dirs", {"topic": "a b"}, "INVALID_TOPIC_EXCEPTION", "topic has the value 'a b'"),
        ("log-dirs", {"topic": ""}, "INVALID_REQUEST", "topic has the value ''"),
        ("log-dirs", {"broker": "1,,2"}, "INVALID_REQUEST", "broker has the value '1,,2'"),
        ("log-dirs", {"broker": "-1"}, "INVALID_REQUEST", "broker has the value '-1'"),
        ("log-dirs", {"broker": "9" * 400}, "INVALID_REQUEST", "broker has the value '999"),
        ("replica-log-dirs", {"partition": "0"}, "INVALID_REQUEST", "name its topic"),
        ("replica-log-dirs", {"topic": "{t}", "partition": "1"}, "UNKNOWN_TOPIC_OR_PARTITION", "has 0 to 0"),
        (
            "replica-log-dirs",
            {"topic": "{t}", "partition": "x"},
            "INVALID_REQUEST",
            "partition has the value 'x'",
        ),
        ("replica-log-dirs", {"topic": "{t}", "broker": "7"}, "UNKNOWN_MEMBER_ID", "broker has the value 7"),
        ("replica-status", {"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION", "topic has the value 'nope'"),
        ("replica-status", {"partition": "0"}, "INVALID_REQUEST", "name its topic"),
        ("replica-status", {"topic": "{t}", "broker": "7"}, "UNKNOWN_MEMBER_ID", "broker has the value 7"),
    ],
)
def test_wrong_filters(
    controller: InProcess, idle_topic: str, path: str, params: dict[str, str], error: str, words: str
) -> None:
    given = {name: value.replace("{t}", idle_topic) for name, value in params.items()}
    answer = controller.http.get(f"/v1/{path}", params=given)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"] == error
    assert words in answer.json()["error_message"]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION", "of a topic that does not exist"),
        ({"topic": "a/b"}, "INVALID_TOPIC_EXCEPTION", "a/b"),
        ({"topic": ""}, "INVALID_TOPIC_EXCEPTION", "no name"),
        ({"partition": 1}, "UNKNOWN_TOPIC_OR_PARTITION", "0 to 0"),
        ({"partition": -1}, "UNKNOWN_TOPIC_OR_PARTITION", "0 to 0"),
        ({"broker": 9}, "UNKNOWN_MEMBER_ID", "broker 9 is not there, known are 1, 2, 3"),
        ({"broker": -1}, "UNKNOWN_MEMBER_ID", "broker -1"),
        ({"broker": 3}, "REPLICA_NOT_AVAILABLE", "no replica on broker 3"),
        ({"log_dir": ""}, "INVALID_REQUEST", "absolute path"),
        ({"log_dir": "any"}, "INVALID_REQUEST", "absolute path"),
        ({"log_dir": "data-1"}, "INVALID_REQUEST", "absolute path"),
        ({"log_dir": "/nowhere"}, "LOG_DIR_NOT_FOUND", "known are /"),
        ({"log_dir": "{dir}/"}, "LOG_DIR_NOT_FOUND", "known are /"),
    ],
)
def test_a_wrong_replica_starts_nothing(
    controller: InProcess, admin: KafkaAdmin, idle_topic: str, fields: dict[str, Any], error: str, words: str
) -> None:
    path = other(controller, idle_topic, 2)
    right = replica(idle_topic, 2, path)
    wrong = {**replica(idle_topic, 1, other(controller, idle_topic, 1)), **fields}
    wrong["log_dir"] = wrong["log_dir"].replace("{dir}", path)
    for more in ({}, {"validate_only": True}):
        first, second = moved(controller, right, wrong, **more)
        assert first == ("INVALID_REQUEST", "not started: other replicas of the request were refused")
        assert second[0] == error
        assert words in second[1]
    assert all(view.temporary_replica_log_dir is None for view in where(controller, idle_topic))
    (now,) = where(controller, idle_topic, 2)
    assert now.current_replica_log_dir != path


def test_wrong_lists_of_replicas(controller: InProcess, idle_topic: str) -> None:
    row = replica(idle_topic, 1, other(controller, idle_topic, 1))
    twice = moved(controller, row, {**row, "broker": 2}, row)
    assert [error for error, _ in twice] == ["INVALID_REQUEST", "LOG_DIR_NOT_FOUND", "INVALID_REQUEST"]
    assert "is named 2 times" in twice[0][1]
    for rows, words in (([], "replicas is empty"), ([row] * 10_001, "names 10001 replicas: at most 10000")):
        answer = controller.http.post("/v1/replica-log-dirs", json={"replicas": rows})
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
        assert words in answer.json()["error_message"]


FILE = {"replicas": [replica("t", 1, "/x")]}


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "told"),
    [
        (("move",), None, 2, "--topic is missing: give --topic, --partition, --broker and --log-dir, or --replica-"),
        (("verify", "--topic", "t", "--partition", "0", "--broker", "1"), None, 2, "--log-dir is missing"),
        (("move", "--topic", "t", *(file := ("--replica-log-dirs-json-file", "-"))), "{}", 2, "--topic has the value 't': leave it out"),
        (("move", *file), "", 2, "--replica-log-dirs-json-file has the value '<stdin>'"),
        (("move", *file), '{"replicas": []}', 2, "replicas is empty"),
        (("move", *file), '{"replicas": [{"topic": "t"}]}', 2, "replicas[0].partition: Field required; and 2 more"),
        (("verify", *file), '{"replicas": [{"topic": "t", "partition": "0", "broker": 1, "log_dir": "/x"}]}', 2, "replicas[0].partition has the value '0'"),
        (("move", *file), json.dumps(FILE | {"validate_only": True}), 2, "validate_only has the value 'True'"),
        (("move", *file), json.dumps(FILE | {"replica_alter_log_dirs_throttle": 1}), 2, "replica_alter_log_dirs_throttle has"),
        (("verify", *file), json.dumps(FILE | {"timeout_ms": 1}), 2, "timeout_ms has the value '1'"),
        (("describe", "--broker-list", "1,x"), None, 2, "--broker-list has the value '1,x'"),
        (("describe", "--broker-list", "1,9"), None, 1, "error: UNKNOWN_MEMBER_ID: broker has the value 9"),
        (("describe", "--topic-list", "nope"), None, 1, "error: UNKNOWN_TOPIC_OR_PARTITION: topic has the value 'nope'"),
        (("move", "--topic", "nope", "--partition", "0", "--broker", "1", "--log-dir", "/x"), None, 1, "error: UNKNOWN_TOPIC_OR_PARTITION: replica nope-0 on broker 1"),
    ],
)  # fmt: skip
def test_wrong_commands(
    cli: Cli, arguments: tuple[str, ...], stdin: str | None, code: int, told: str
) -> None:
    found, out, err = cli("log-dirs", *arguments, stdin=stdin)
    assert (found, out) == (code, "")
    assert told in err, err


def test_verify_of_what_does_not_exist_names_each(cli: Cli, controller: InProcess, idle_topic: str) -> None:
    (view,) = where(controller, idle_topic, 1)
    path = view.current_replica_log_dir or ""
    rows = [replica(idle_topic, 1, path), replica("nope", 1, path), replica(idle_topic, 3, path)]
    code, out, _ = cli(
        "log-dirs", "verify", "--replica-log-dirs-json-file", "-", stdin=json.dumps({"replicas": rows})
    )
    assert code == 1
    there, unknown, absent = out.splitlines()[1:]
    assert there.split()[-2:] == ["is", "there"]
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic has the value 'nope'" in unknown
    assert f"REPLICA_NOT_AVAILABLE: partition {idle_topic}-0 has no replica on broker 3" in absent
    code, out, _ = cli.verify(rows[0], "--output", "json")
    assert (code, json.loads(out)["complete"]) == (0, True)
