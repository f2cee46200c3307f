"""The table of ACLs against a model that reads Kafka's rules one by one, over every ACL."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_ordered_kafka.controller.access.acls import (
    CLUSTER,
    Acl,
    AclTable,
    Operation,
    Resource,
    ResourceType,
)
from tests.seeds import examples

# Few values, so that rules meet: most that is interesting happens between two rules about one resource.
PRINCIPALS = ("User:alice", "User:*")
HOSTS = ("10.0.0.1", "*")
NAMES = ("a", "ab", "abc", "*")
OPERATIONS = (
    Operation.ALL,
    Operation.READ,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)

acls = st.builds(
    Acl,
    type=st.sampled_from((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.CLUSTER)),
    name=st.sampled_from((*NAMES, "kafka-cluster")),
    prefixed=st.booleans(),
    principal=st.sampled_from(PRINCIPALS),
    operation=st.sampled_from(OPERATIONS),
    allow=st.booleans(),
    host=st.sampled_from(HOSTS),
)
topics = st.builds(Resource, st.just(ResourceType.TOPIC), st.sampled_from(("a", "ab", "abcd")))
groups = st.builds(Resource, st.just(ResourceType.GROUP), st.sampled_from(("a", "ab")))
resources = st.one_of(topics, topics, topics, st.just(CLUSTER), groups)


def about(acl: Acl, resource: Resource) -> bool:
    if acl.type != resource.type:
        return False
    if acl.prefixed:
        return resource.name.startswith(acl.name)
    return acl.name == "*" or acl.name == resource.name


def concerns(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    """Kafka's StandardAuthorizerData.findResult, in its order."""
    if acl.principal not in (principal, "User:*"):
        return False
    if acl.host not in ("*", host):
        return False
    if acl.operation == Operation.ALL:
        return True
    if acl.allow and operation == Operation.DESCRIBE:
        return acl.operation.value in ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER")
    if acl.allow and operation == Operation.DESCRIBE_CONFIGS:
        return acl.operation.value in ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    return acl.operation == operation


def judged(
    rules: list[Acl], principal: str, host: str, operation: Operation, resource: Resource, if_none: bool
) -> bool:
    there = [acl for acl in rules if about(acl, resource)]
    if not there:
        return if_none
    found = [acl for acl in there if concerns(acl, principal, host, operation)]
    return bool(found) and all(acl.allow for acl in found)


TOPIC = Resource(ResourceType.TOPIC, "ab")
EVERYBODY = Acl(ResourceType.TOPIC, "*", "User:*", Operation.ALL)


@settings(max_examples=examples(1600))
@given(
    rules=st.lists(acls, max_size=6),
    principal=st.sampled_from(("User:alice", "User:alice", "User:bob")),
    host=st.sampled_from(("10.0.0.1", "10.0.0.2")),
    operation=st.sampled_from([Operation.ALTER, *OPERATIONS[1:]]),
    resource=resources,
    if_none=st.booleans(),
)
@example([EVERYBODY], "User:alice", "h", Operation.ALTER, TOPIC, False)
@example(
    [EVERYBODY, Acl(ResourceType.TOPIC, "a", "User:alice", Operation.READ, prefixed=True, allow=False)],
    "User:alice",
    "h",
    Operation.READ,
    TOPIC,
    False,
)
def test_the_table_judges_as_kafka_does(
    rules: list[Acl], principal: str, host: str, operation: Operation, resource: Resource, if_none: bool
) -> None:
    expected = judged(rules, principal, host, operation, resource, if_none)
    table = AclTable(rules, allow_if_none=if_none)
    assert table.allows(principal, host, operation, resource) == expected
    # Who may do it to this may do it to something.
    assert table.allows_somewhere(principal, host, operation, resource.type) or not expected
