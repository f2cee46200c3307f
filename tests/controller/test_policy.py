"""The class of ``topic.policy.class``: found or refused, asked, and what becomes of what it raises."""

from __future__ import annotations

import logging
import threading
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.policy import PolicyCheck, TopicRequest, frozen, load_policy
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import ControllerSettings, ZooKeeperSettings
from spark_ordered_kafka.errors import ConfigError, ErrorCode, PolicyViolationError, RequestError

POLICIES = "tests.integration.policies"
REQUEST = TopicRequest(
    operation="create",
    topic="orders",
    partitions=3,
    replication_factor=2,
    assignments=None,
    configs={},
    ordered_delivery=True,
    principal="User:alice",
    validate_only=False,
)


def asked(check: PolicyCheck, request: TopicRequest = REQUEST) -> RequestError:
    with pytest.raises(RequestError) as refused:
        check.validate(lambda: request)
    return refused.value


@pytest.mark.parametrize("name", [f"{POLICIES}.Recorder", f"{POLICIES}:Recorder"])
def test_a_class_is_found_and_its_veto_is_a_policy_violation(name: str) -> None:
    check = load_policy(name)
    check.validate(lambda: REQUEST)
    error = asked(check, replace(REQUEST, topic="veto"))
    assert (error.code, error.message) == (ErrorCode.POLICY_VIOLATION, "not while I am on duty")
    assert f"{POLICIES}.Recorder" in asked(check, replace(REQUEST, topic="silent")).message


def test_a_policy_that_fails_refuses_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = asked(load_policy(f"{POLICIES}.Recorder"), replace(REQUEST, topic="bug"))
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    for words in (f"{POLICIES}.Recorder", "ZeroDivisionError: in the policy", "nothing was done"):
        assert words in error.message
    assert any(record.exc_info is not None for record in caplog.records)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Policy", "module.Class is needed"),
        ("module.", "module.Class is needed"),
        (":Policy", "module.Class is needed"),
        ("no_such_module.Policy", "no_such_module cannot be imported"),
        (f"{POLICIES}.Missing", "has no Missing"),
        (f"{POLICIES}.function", "has something that is not a class as function"),
        (f"{POLICIES}.NoValidate", "has no method validate(request)"),
        (f"{POLICIES}.NeedsArguments", "NeedsArguments() failed with TypeError"),
        ("..Policy", "cannot be imported"),
    ],
)
def test_a_wrong_name_refuses_the_start(name: str, words: str) -> None:
    settings = ControllerSettings(
        kafka={"bootstrap.servers": "nobody:9092"},
        zookeeper=ZooKeeperSettings("nobody:2181"),
        url="http://x",
        topic_policy_class=name,
    )
    with pytest.raises(ConfigError, match=r"topic\.policy\.class") as refused:
        ControllerService(settings)
    assert words in str(refused.value)
    assert repr(name) in str(refused.value)


def test_without_a_policy_nothing_is_put_together() -> None:
    def never() -> TopicRequest:
        raise AssertionError

    load_policy(None).validate(never)


def test_requests_cannot_be_changed() -> None:
    request = replace(REQUEST, assignments=frozen({0: [1, 2]}))
    with pytest.raises(FrozenInstanceError):
        request.partitions = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        request.assignments[0] = [3]  # type: ignore[index]
    assert request.assignments == {0: (1, 2)}


def test_a_policy_is_never_asked_by_two_threads_at_once() -> None:
    inside, most = 0, 0

    class Slow:
        def validate(self, request: TopicRequest) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.01)
            inside -= 1

    check = PolicyCheck(Slow())
    threads = [threading.Thread(target=check.validate, args=(lambda: REQUEST,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == (0, 1)


def test_the_example_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "conf"))
    check = load_policy("topic_policy.TopicPolicy")
    check.validate(lambda: replace(REQUEST, configs={"retention.ms": "60000"}))
    check.validate(lambda: replace(REQUEST, operation="delete", principal="User:admin"))
    for request, words in (
        (replace(REQUEST, partitions=1001), "1000 at most"),
        (replace(REQUEST, replication_factor=1), "at least 2"),
        (replace(REQUEST, configs={"retention.ms": "-1"}), "retention.ms"),
        (replace(REQUEST, configs={"retention.ms": str(10**12)}), "retention.ms"),
        (replace(REQUEST, operation="delete"), "User:alice may not delete"),
    ):
        error = asked(check, request)
        assert error.code == ErrorCode.POLICY_VIOLATION
        assert words in error.message


def test_the_error_is_public() -> None:
    import spark_ordered_kafka

    assert spark_ordered_kafka.PolicyViolationError is PolicyViolationError
