"""Who may do what, on a secured cluster: each route with no, wrong, too little and enough right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from spark_ordered_kafka.client.controller import ControllerClient
from spark_ordered_kafka.controller.access.passwords import kafka_login
from spark_ordered_kafka.controller.api.http.rights import EXTENSION
from spark_ordered_kafka.controller.api.middleware.authentication import OPEN_PATHS
from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.local import LocalCluster
from spark_ordered_kafka.local.secrets import CONTROLLER, MECHANISMS
from tests.integration.acls import Acls, acl
from tests.integration.secured import Service, controller, credentials
from tests.servers import TIMEOUT, await_true, unique_name

DENIED = ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
# What Kafka lets follow from an ALLOW: to test "too little", nothing that implies the operation may be granted.
IMPLIES = {"DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"), "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",)}
ON_TOPICS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
ON_GROUPS = ("READ", "DELETE", "DESCRIBE")
ON_CLUSTER = ("CREATE", "CLUSTER_ACTION", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")


@pytest.fixture(scope="module")
def service(secure_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with controller(secure_cluster, tmp_path_factory.mktemp("access") / "tokens") as running:
        yield running


def operations(service: Service) -> list[tuple[str, str, list[str]]]:
    """Method, path and declared rights of what the application serves."""
    paths = service.http.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path, operation[EXTENSION])
        for path, methods in paths.items()
        for method, operation in methods.items()
        if path not in OPEN_PATHS
    ]


def filled(path: str, name: str) -> str:
    """A path with a name of a topic or group, and a number for whatever else is named."""
    named = re.sub(r"\{(topic|group)(:path)?\}", name, path)
    return re.sub(r"\{\w+\}", "999999", named)


def is_denied(answer: httpx2.Response) -> bool:
    """As a whole, or each of its items."""
    body = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
    rows = body.get("topics")
    if answer.status_code == 200 and isinstance(rows, list) and rows and "error" in rows[0]:
        return all(row["error"] in DENIED for row in rows)
    return answer.status_code == 403 and body["error"] in DENIED


def test_no_route_answers_without_credentials_or_with_wrong_ones(service: Service) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    for method, path, _ in operations(service):
        for headers in ({}, wrong, {**wrong, "X-Ordered-Kafka-Caller": "User%3Aadmin;h"}):
            answer = service.http.request(method, filled(path, "t"), headers=headers, json={})
            assert answer.status_code == 401, f"{method} {path}: {answer.text}"
            assert answer.json()["error"] == "SASL_AUTHENTICATION_FAILED"
            assert {"Basic", "Bearer"} <= set(re.findall(r"(\w+) realm", answer.headers["WWW-Authenticate"]))


def test_open_paths_answer_everybody(service: Service) -> None:
    assert {service.http.get(path).status_code for path in OPEN_PATHS} == {200}


SIMPLE = re.compile(r"(\w+) on the (topic|group|cluster)")


def test_every_simple_route_wants_the_right_it_declares_and_no_other(service: Service, acls: Acls) -> None:
    """A principal per operation has it alone, and one has all but it."""
    prefix = unique_name("acc")
    simple = [
        (method, path, match.group(1), match.group(2))
        for method, path, rights in operations(service)
        if len(rights) == 1 and (match := SIMPLE.fullmatch(rights[0])) is not None
    ]
    assert len(simple) > 10
    bindings = []
    for operation, on in {(operation, on) for _, _, operation, on in simple}:
        every = {"topic": ON_TOPICS, "group": ON_GROUPS, "cluster": ON_CLUSTER}[on]
        implying = IMPLIES.get(operation, ())
        others = [other for other in every if other != operation and other not in implying]
        kind = on.upper()
        bindings.append(acl(f"User:{prefix}-only-{operation}-{on}", operation, kind, prefix, prefixed=True))
        bindings += [
            acl(f"User:{prefix}-but-{operation}-{on}", other, kind, prefix, prefixed=True) for other in others
        ]
    acls.add(*bindings)
    first = simple[0]
    await_true(
        lambda: (
            not is_denied(
                service.ask(f"User:{prefix}-only-{first[2]}-{first[3]}", first[0], filled(first[1], prefix))
            )
        ),
        "the ACLs count",
    )
    for method, path, operation, on in simple:
        for name in (prefix, f"{prefix}-2"):
            route = filled(path, name)
            enough = service.ask(f"User:{prefix}-only-{operation}-{on}", method, route, json={})
            assert not is_denied(enough), f"{method} {path} with {operation}: {enough.text}"
            assert enough.status_code < 500, f"{method} {path} with {operation}: {enough.text}"
            less = service.ask(f"User:{prefix}-but-{operation}-{on}", method, route, json={})
            assert is_denied(less), f"{method} {path} without {operation}: {less.text}"
            nothing = service.ask(f"User:{prefix}-nobody", method, route, json={})
            assert is_denied(nothing), f"{method} {path} with no right: {nothing.text}"


@dataclass(frozen=True)
class Case:
    """A request of a route that checks by what is asked for, with the right that it needs."""

    method: str
    path: str
    body: Callable[[str], dict[str, Any]]
    operation: str
    kind: str = "TOPIC"


def items(**fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda topic: {"topics": [{"topic": topic, **fields}]}


CASES = [
    Case("POST", "/v1/topics", lambda t: {"topic": t, "partitions": 1, "validate_only": True}, "CREATE"),
    Case(
        "POST",
        "/v1/topics",
        lambda t: {"topic": t, "partitions": 1, "validate_only": True},
        "CREATE",
        "CLUSTER",
    ),
    Case(
        "POST",
        "/v1/topics",
        lambda t: {"topics": [{"topic": t, "partitions": 1}], "validate_only": True},
        "CREATE",
    ),
    Case("POST", "/v1/partition-counts", items(partition_count=2), "ALTER"),
    Case("POST", "/v1/topic-deletions", lambda t: {"topics": [t]}, "DELETE"),
    Case("PATCH", "/v1/topics/{topic}", lambda _: {"ordered_delivery": False}, "ALTER"),
    Case("POST", "/v1/writer-names", lambda t: {"topic": t}, "WRITE"),
    Case("POST", "/v1/writer-names/release", lambda t: {"topic": t, "writer": "none", "nonce": "n"}, "WRITE"),
    Case("PATCH", "/v1/topics/{topic}", lambda _: {"configs": {"retention.ms": "1"}}, "ALTER_CONFIGS"),
]


# Their rights are those of the request under review, or DESCRIBE, which others imply: tested apart.
ELSEWHERE = {
    ("POST", "/v1/layouts"),
    ("GET", "/v1/topics"),
    ("GET", "/v1/kafka-topics"),
    ("GET", "/v1/groups"),
    ("GET", "/v1/events"),
    ("GET", "/v1/autoscale"),
    ("POST", "/v1/reviews/{review_id}/approve"),
    ("POST", "/v1/reviews/{review_id}/discard"),
}


def test_no_route_is_left_out(service: Service) -> None:
    complicated = {
        (method, path)
        for method, path, rights in operations(service)
        if len(rights) != 1 or SIMPLE.fullmatch(rights[0]) is None
    }
    assert complicated == {(case.method, case.path) for case in CASES} | ELSEWHERE


def test_routes_that_check_by_item(service: Service, acls: Acls) -> None:
    prefix = unique_name("acc")

    def names(number: int) -> tuple[str, str, str]:
        return f"{prefix}-{number}", f"User:{prefix}-enough-{number}", f"User:{prefix}-less-{number}"

    bindings = []
    for number, case in enumerate(CASES):
        topic, enough, less = names(number)
        bindings.append(acl(enough, case.operation, case.kind, topic))
        bindings += [acl(less, other, "TOPIC", topic) for other in ON_TOPICS if other != case.operation]
    acls.add(*bindings)
    for number, case in enumerate(CASES):
        topic, enough, less = names(number)

        def asked(principal: str, case: Case = case, topic: str = topic) -> httpx2.Response:
            return service.ask(principal, case.method, filled(case.path, topic), json=case.body(topic))

        await_true(lambda asked=asked, enough=enough: not is_denied(asked(enough)), f"{case} is allowed")  # type: ignore[misc]
        assert is_denied(asked(less)), f"{case}: {asked(less).text}"


def test_a_request_about_several_topics_is_answered_topic_by_topic(service: Service, acls: Acls) -> None:
    mine, others = unique_name("mine"), unique_name("others")
    principal = f"User:{mine}"
    acls.add(acl(principal, "ALTER", "TOPIC", mine))
    body = {"topics": [{"topic": name, "partition_count": 3} for name in (others, mine)]}

    def errors() -> list[str]:
        answer = service.ask(principal, "POST", "/v1/partition-counts", json=body).json()
        return [row["error"] for row in answer["topics"]]

    await_true(lambda: errors()[1] not in DENIED, "the ACL counts")
    assert errors() == ["TOPIC_AUTHORIZATION_FAILED", "INVALID_TOPIC_EXCEPTION"]


def test_topics_that_may_not_be_described_are_hidden(service: Service, acls: Acls) -> None:
    prefix = unique_name("acc")
    shown, hidden, gone = f"{prefix}-shown", f"{prefix}-hidden", f"{prefix}-gone"
    principal = f"User:{prefix}"
    for topic in (shown, hidden):
        made = service.ask("User:admin", "POST", "/v1/topics", json={"topic": topic, "partitions": 1})
        assert made.status_code == 201, made.text
    acls.add(acl(principal, "READ", "TOPIC", shown))

    def listed(who: str) -> set[str]:
        rows = service.ask(who, "GET", "/v1/topics").json()["topics"]
        return {row["topic"] for row in rows if row["topic"].startswith(prefix)}

    await_true(lambda: listed(principal) == {shown}, "the list shows one topic")
    assert listed("User:admin") == {shown, hidden}

    def of_kafka(who: str, configs: str) -> dict[str, bool]:
        """The topics of the cluster that are shown, and whether with their configuration."""
        path = f"/v1/kafka-topics?topic={shown},{hidden}&configs={configs}"
        rows = service.ask(who, "GET", path).json()["topics"]
        return {row["topic"]: row["configs"] is not None for row in rows}

    assert of_kafka(principal, "true") == {shown: False}
    assert of_kafka("User:admin", "true") == {shown: True, hidden: True}
    assert of_kafka("User:admin", "false") == {shown: False, hidden: False}
    assert service.ask(principal, "GET", f"/v1/topics/{shown}?details=true").json()["configs"] is None
    acls.add(acl(principal, "DESCRIBE_CONFIGS", "TOPIC", shown))
    await_true(lambda: of_kafka(principal, "true") == {shown: True}, "the configuration is shown")
    assert service.ask(principal, "GET", f"/v1/topics/{shown}?details=true").json()["configs"] == {}
    there, absent = (service.ask(principal, "GET", f"/v1/topics/{name}") for name in (hidden, gone))
    assert there.status_code == absent.status_code == 403
    assert there.text.replace(hidden, gone) == absent.text
    body = {"topics": [{"topic": name} for name in (hidden, shown, gone)]}
    for who, errors in (
        (principal, ["TOPIC_AUTHORIZATION_FAILED", "NONE", "TOPIC_AUTHORIZATION_FAILED"]),
        (f"User:{prefix}-other", ["TOPIC_AUTHORIZATION_FAILED"] * 3),
        ("User:admin", ["NONE", "NONE", "UNKNOWN_TOPIC_OR_PARTITION"]),
    ):
        rows = service.ask(who, "POST", "/v1/layouts", json=body).json()["topics"]
        assert [row["error"] for row in rows] == errors
        assert [row["history"] is None for row in rows] == [error != "NONE" for error in errors]


def test_deny_wins_and_hosts_and_prefixes_count(service: Service, acls: Acls) -> None:
    prefix = unique_name("acc")
    principal = f"User:{prefix}"
    acls.add(
        acl(principal, "ALL", "TOPIC", prefix, prefixed=True),
        acl(principal, "DESCRIBE", "TOPIC", f"{prefix}-no", prefixed=True, allow=False),
        acl(f"{principal}-far", "DESCRIBE", "TOPIC", prefix, prefixed=True, host="10.1.2.3"),
        acl(f"{principal}-near", "DESCRIBE", "TOPIC", prefix, prefixed=True, host="testclient"),
    )

    def status(who: str, topic: str) -> int:
        return service.ask(who, "GET", f"/v1/topics/{topic}").status_code

    await_true(lambda: status(principal, f"{prefix}-yes") == 404, "the prefix counts")
    assert status(principal, f"{prefix}-no-1") == 403
    assert status(f"{principal}-near", prefix) == 404
    assert status(f"{principal}-far", prefix) == 403


def test_rights_are_given_and_withdrawn_while_the_controller_runs(service: Service, acls: Acls) -> None:
    topic = unique_name("acc")
    principal = f"User:{topic}"
    right = acl(principal, "DESCRIBE", "TOPIC", topic)

    def status() -> int:
        return service.ask(principal, "GET", f"/v1/topics/{topic}").status_code

    assert status() == 403
    acls.add(right)
    await_true(lambda: status() == 404, "given")
    acls.remove(right)
    await_true(lambda: status() == 403, "withdrawn")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_proves_passwords(secure_cluster: LocalCluster, mechanism: str) -> None:
    login = kafka_login(secure_cluster.kafka_properties(CONTROLLER), mechanism, TIMEOUT)
    password = secure_cluster.secrets.password("alice")
    assert login("alice", password)
    assert not login("alice", f"{password}x")
    assert not login("alice", secure_cluster.secrets.password("bob"))
    assert not login("nobody", password)
    # As names they would be alice with an attribute of SCRAM, or another identity of PLAIN.
    assert not login("alice,r=x", password)
    assert not login("alice,", password)


def test_kafka_being_away_is_not_taken_for_a_wrong_password(secure_cluster: LocalCluster) -> None:
    away = {**secure_cluster.kafka_properties(CONTROLLER), "bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(UnavailableError):
        kafka_login(away, "PLAIN", 1.0)("alice", secure_cluster.secrets.password("alice"))


@pytest.fixture
def impatient(secure_cluster: LocalCluster, tmp_path: Path) -> Iterator[Service]:
    """Soon tells that Kafka does not answer, and now and then on a busy machine, too."""
    with controller(secure_cluster, tmp_path / "tokens", request_timeout=2.0) as running:
        yield running


@pytest.mark.long
def test_a_hung_broker_lets_nobody_in_and_refuses_nobody(
    secure_cluster: LocalCluster, impatient: Service
) -> None:
    service, alice = impatient, ("alice", secure_cluster.secrets.password("alice"))

    def status(auth: tuple[str, str]) -> int:
        found = int(service.http.get("/v1/topics", auth=auth).status_code)
        assert found in (200, 503) or auth != alice, "she is refused"
        return found

    def takes_replicas() -> bool:
        """It may be fenced for a moment, and refuse what the next test asks of it."""
        body = {"topic": unique_name("again"), "partitions": 1}
        return service.ask("User:admin", "POST", "/v1/topics", json=body).status_code == 201

    pids = [server.pid for server in secure_cluster.status() if server.kind == "broker"]
    broker = psutil.Process(pids[0])
    await_true(lambda: status(alice) == 200, "alice is let in")
    broker.suspend()
    try:
        fresh = service.http.get("/v1/topics", auth=("alice", "never tried before"))
        assert fresh.status_code == 503, fresh.text
        assert fresh.json()["error"] == "REQUEST_TIMED_OUT"
        # Known, but what she may do is not, as soon as it is too old.
        await_true(lambda: status(alice) == 503, "rights are too old")
    finally:
        broker.resume()
    await_true(lambda: status(alice) == 200, "the broker is back")
    await_true(lambda: status(("alice", "never tried before")) == 401, "a wrong password is refused")
    await_true(takes_replicas, "the broker is not fenced")


def test_a_password_and_a_certificate_are_two_principals(secure_cluster: LocalCluster, acls: Acls) -> None:
    url, secrets = secure_cluster.controller_url, secure_cluster.secrets
    with ControllerClient(url, credentials=credentials(secure_cluster, "admin")) as admin:
        assert [row.id for row in admin.brokers().brokers] == [1]
    by_certificate = ControllerCredentials(
        ca_location=str(secrets.ca),
        certificate_location=str(secrets.certificate("bob")),
        key_location=str(secrets.key("bob")),
    )
    topic = unique_name("acc")
    with ControllerClient(url, credentials=by_certificate) as bob:
        with pytest.raises(RequestError) as refused:
            bob.topic(topic)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found = re.match(r"(User:CN=bob,.+) has no right to DESCRIBE", refused.value.message)
        assert found is not None, refused.value.message
        acls.add(acl(found.group(1), "DESCRIBE", "TOPIC", topic))

        def is_known() -> bool:
            with pytest.raises(RequestError) as error:
                bob.topic(topic)
            return error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        await_true(is_known, "the certificate's principal has the right")


def test_a_client_is_told_at_once_what_is_wrong(secure_cluster: LocalCluster) -> None:
    url = secure_cluster.controller_url

    def asked(shown: ControllerCredentials, at: str = url) -> None:
        with ControllerClient(at, retry_for=TIMEOUT, credentials=shown) as client:
            client.topics()

    def refusal(kind: type[Exception], **changes: str | None) -> str:
        shown = credentials(secure_cluster, "alice", **changes)
        with pytest.raises(kind) as found:
            asked(shown)
        return str(found.value)

    wrong = refusal(RequestError, password="wrong")
    assert "SASL_AUTHENTICATION_FAILED" in wrong
    assert "controller.username 'alice'" in wrong
    assert url in wrong
    assert "controller.username" in refusal(RequestError, username=None, password=None)
    assert "controller.ssl.ca.location is missing" in refusal(ConfigError, ca_location=None)
    assert "controller.ssl.ca.location" in refusal(ConfigError, ca_location=str(Path(__file__)))
    # The same address by a name that the certificate does not have.
    other = url.replace("127.0.0.1", "127.1")
    with pytest.raises(ConfigError, match=r"controller\.url .*another host"):
        asked(credentials(secure_cluster, "alice"), other)
