"""Where rights come from, and that nothing is allowed on a guess."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.protocol.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ACLResourceType

from spark_ordered_kafka.controller.access.access import Access
from spark_ordered_kafka.controller.access.acls import (
    CLUSTER,
    Acl,
    AclTable,
    Operation,
    ResourceType,
    group_resource,
    topic_resource,
)
from spark_ordered_kafka.controller.access.caller import Caller
from spark_ordered_kafka.controller.access.rights import MAX_AGE, KafkaRights
from spark_ordered_kafka.controller.access.rights import _acls as acls_of
from spark_ordered_kafka.controller.access.roles import role_table
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.errors import ConfigError, ErrorCode, RequestError, UnavailableError
from tests.servers import TIMEOUT

ALICE = Caller("User:alice", "10.0.0.1")
KNOWN = AuthenticationSettings(required=True, tokens_file="unused")
NOBODY = AuthorizationSettings()
READ_ORDERS = Acl(ResourceType.TOPIC, "orders", "User:alice", Operation.READ)


def access(
    table: AclTable | None,
    authentication: AuthenticationSettings = KNOWN,
    authorization: AuthorizationSettings = NOBODY,
) -> Access:
    return Access(authentication, authorization, lambda: table)


def test_acls_decide() -> None:
    rights = access(AclTable([READ_ORDERS]))
    assert rights.allowed(ALICE, Operation.DESCRIBE, "orders")
    assert not rights.allowed(ALICE, Operation.ALTER, "orders")
    assert rights.among(ALICE, Operation.READ, ["payments", "orders"]) == ["orders"]
    assert list(rights.refusals(ALICE, Operation.READ, ["orders", "payments", "payments"])) == ["payments"]


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("payments", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (group_resource("g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_the_error_says_what_is_missing(resource: object, code: ErrorCode) -> None:
    with pytest.raises(RequestError, match=r"User:alice has no right to ALTER on ") as found:
        access(AclTable([READ_ORDERS])).check(ALICE, Operation.ALTER, resource)  # type: ignore[arg-type]
    assert found.value.code is code


def test_create_on_the_cluster_is_create_on_every_topic() -> None:
    create = Acl(ResourceType.CLUSTER, "kafka-cluster", "User:alice", Operation.CREATE)
    assert access(AclTable([create])).refusals(ALICE, Operation.CREATE, ["a", "b"]) == {}


def test_super_users_need_no_acl_and_no_kafka() -> None:
    def unknown() -> AclTable | None:
        raise UnavailableError("Kafka is away")

    settings = AuthorizationSettings(super_users=frozenset({"User:alice"}))
    assert Access(KNOWN, settings, unknown).allowed(ALICE, Operation.DELETE, "orders")
    with pytest.raises(UnavailableError):
        Access(KNOWN, settings, unknown).allowed(Caller("User:bob", ""), Operation.DESCRIBE, "orders")


def test_without_authorizer_and_roles_only_super_users_may_do_anything() -> None:
    assert not access(None).allowed(ALICE, Operation.DESCRIBE, "orders")
    assert access(None, AuthenticationSettings()).allowed(ALICE, Operation.DELETE, "orders")


ROLES = """
[[grants]]
role = "viewer"
principals = ["User:*"]

[[grants]]
role = "operator"
principals = ["User:alice", "User:bob"]
topics = ["orders", "logs-*"]

[[grants]]
role = "operator"
principals = ["User:ops"]

[[grants]]
role = "admin"
principals = ["User:CN=root,O=Example"]
topics = ["*"]
"""


@pytest.mark.parametrize(
    ("principal", "operation", "resource", "allowed"),
    [
        ("User:anybody", Operation.DESCRIBE, "orders", True),
        ("User:anybody", Operation.DESCRIBE, CLUSTER, True),
        ("User:anybody", Operation.ALTER, "orders", False),
        ("User:ANONYMOUS", Operation.DESCRIBE, "orders", False),
        ("User:ANONYMOUS", Operation.DESCRIBE, CLUSTER, False),
        ("User:alice", Operation.ALTER, "orders", True),
        ("User:bob", Operation.ALTER, "orders-2", False),
        ("User:bob", Operation.CREATE, "logs-2", True),
        ("User:alice", Operation.DELETE, "orders", False),
        ("User:alice", Operation.CLUSTER_ACTION, CLUSTER, False),
        ("User:ops", Operation.CLUSTER_ACTION, CLUSTER, True),
        ("User:ops", Operation.DELETE, "orders", False),
        ("User:CN=root,O=Example", Operation.DELETE, "orders", True),
        ("User:CN=root,O=Example", Operation.CLUSTER_ACTION, CLUSTER, False),
    ],
)
def test_roles(tmp_path: Path, principal: str, operation: Operation, resource: object, allowed: bool) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(ROLES)
    rights = access(None, authorization=AuthorizationSettings(roles_file=str(path)))
    assert rights.allowed(Caller(principal, "h"), operation, resource) is allowed  # type: ignore[arg-type]


def test_the_example_of_a_role_file_works() -> None:
    table = role_table((Path(__file__).parents[3] / "conf" / "roles.toml").read_text(encoding="utf-8"))
    assert table.allows("User:alice", "h", Operation.ALTER, topic_resource("logs-1"))
    assert not table.allows("User:alice", "h", Operation.CLUSTER_ACTION, CLUSTER)
    assert table.allows("User:root", "h", Operation.DELETE, topic_resource("orders"))


def test_kafkas_acls_win_over_the_role_file(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(ROLES)
    rights = access(AclTable([]), authorization=AuthorizationSettings(roles_file=str(path)))
    assert not rights.allowed(ALICE, Operation.DESCRIBE, "orders")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("grants = 1", "grants"),
        ('[[grants]]\nrole = "king"\nprincipals = ["User:a"]', "grants.0.role"),
        ('[[grants]]\nrole = "admin"\nprincipals = ["alice"]', "grants.0.principals.0"),
        ('[[grants]]\nrole = "admin"\nprincipals = []', "grants.0.principals"),
        ('[[grants]]\nrole = "admin"\nprincipals = ["User:a"]\ntopics = ["a*b"]', "grants.0.topics.0"),
        ('[[grants]]\nrole = "admin"\nprincipals = ["User:a"]\ntopic = ["a"]', "grants.0.topic"),
        ("[[grants", "TOML"),
    ],
)
def test_a_wrong_role_file_is_refused_with_the_place(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        role_table(text)


def test_an_acl_for_something_else_takes_a_resource_from_everyone() -> None:
    """As in Kafka: only a resource without any ACL is everyone's."""
    described = SimpleNamespace(
        resource_type=ACLResourceType.CLUSTER,
        resource_name=CLUSTER.name,
        pattern_type=ACLResourcePatternType.LITERAL,
        acls=[
            SimpleNamespace(
                principal="User:writer",
                host="*",
                operation=ACLOperation.IDEMPOTENT_WRITE,
                permission_type=ACLPermissionType.ALLOW,
            )
        ],
    )
    table = AclTable(acls_of(described), allow_if_none=True)
    for operation in Operation:
        assert not table.allows("User:alice", "h", operation, CLUSTER)
    assert table.allows("User:alice", "h", Operation.READ, topic_resource("t"))


class Kafka:
    """What the brokers answer, and a clock that tests turn."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.acls: list[Acl] | None = [READ_ORDERS]
        self.away = False
        self.asked = 0
        self.read = threading.Condition()
        self.rights = KafkaRights(
            self._answer, allow_if_none=False, keep_disabled=False, timeout=TIMEOUT, clock=lambda: self.now
        )

    def _answer(self) -> list[Acl] | None:
        with self.read:
            self.asked += 1
            self.read.notify_all()
            if self.away:
                raise UnavailableError("no broker answers")
            return self.acls

    def allowed(self) -> bool:
        table = self.rights.table()
        return table is not None and table.allows("User:alice", "h", Operation.READ, topic_resource("orders"))

    def await_asked(self, times: int) -> None:
        with self.read:
            assert self.read.wait_for(lambda: self.asked >= times, TIMEOUT), f"asked {self.asked} times only"


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    made = Kafka()
    yield made
    made.rights.close()


def test_kafka_is_asked_once_for_many_checks(kafka: Kafka) -> None:
    assert all(kafka.allowed() for _ in range(100))
    assert kafka.asked == 1


def test_what_kafka_withdrew_is_gone_after_the_greatest_age(kafka: Kafka) -> None:
    assert kafka.allowed()
    kafka.acls = []
    kafka.now += MAX_AGE
    assert not kafka.allowed()


def test_before_that_it_is_read_again_without_making_anybody_wait(kafka: Kafka) -> None:
    assert kafka.allowed()
    kafka.acls = []
    kafka.now += MAX_AGE * 0.9
    kafka.allowed()
    kafka.await_asked(2)


def test_old_rights_do_not_count_while_kafka_is_away(kafka: Kafka) -> None:
    assert kafka.allowed()
    kafka.away = True
    kafka.now += MAX_AGE * 0.9
    assert kafka.allowed()
    kafka.await_asked(2)
    kafka.now += MAX_AGE
    with pytest.raises(UnavailableError) as found:
        kafka.allowed()
    assert found.value.retriable
    kafka.away = False
    assert kafka.allowed()


def test_known_rights_count_until_they_are_too_old_while_the_controller_ends(kafka: Kafka) -> None:
    # Requests that come now are refused by what follows, with the error that lets clients turn to the next controller.
    assert kafka.allowed()
    kafka.rights.close()
    kafka.now += MAX_AGE * 0.9
    assert kafka.allowed()
    kafka.now += MAX_AGE
    with pytest.raises(UnavailableError):
        kafka.allowed()


@pytest.mark.parametrize("keep", [False, True])
def test_that_there_is_no_authorizer_outlives_kafkas_absence_only_where_nobody_is_authenticated(
    keep: bool,
) -> None:
    now, answers = 0.0, [None]

    def read() -> list[Acl] | None:
        if not answers:
            raise UnavailableError("no broker answers")
        return answers.pop()

    rights = KafkaRights(read, allow_if_none=False, keep_disabled=keep, timeout=TIMEOUT, clock=lambda: now)
    assert rights.table() is None
    now += MAX_AGE
    if keep:
        assert rights.table() is None
    else:
        with pytest.raises(UnavailableError):
            rights.table()
    rights.close()
