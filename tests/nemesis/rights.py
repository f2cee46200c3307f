"""Kafka's ACLs of a secured run: each user has what docs/security.md says is enough, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import AclBinding

from spark_ordered_kafka.local.secrets import CONTROLLER
from tests.integration.acls import acl

CLIENT, OPERATOR = "alice", "bob"
_TO_CONTROL = {
    "CLUSTER": ("DESCRIBE", "CREATE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "TOPIC": ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "CREATE", "ALTER", "ALTER_CONFIGS", "DELETE"),
    "GROUP": ("DESCRIBE",),
}
_TO_OPERATE = {
    "CLUSTER": ("DESCRIBE", "CREATE", "ALTER", "ALTER_CONFIGS", "CLUSTER_ACTION"),
    "TOPIC": ("DESCRIBE", "ALTER", "DELETE"),
}


def bindings(topics: Iterable[str], groups: Iterable[str]) -> list[AclBinding]:
    """The rights of all users: clients write and read ``topics``, read in ``groups``, and know nothing else."""
    controller, client, operator = (f"User:{name}" for name in (CONTROLLER, CLIENT, OPERATOR))
    found = [
        acl(user, operation, kind, "*")
        for user, rights in ((controller, _TO_CONTROL), (operator, _TO_OPERATE))
        for kind, operations in rights.items()
        for operation in operations
    ]
    found += [
        acl(controller, one, "TRANSACTIONAL_ID", "ordered:", prefixed=True) for one in ("DESCRIBE", "WRITE")
    ]
    found.append(acl(controller, "DELETE", "GROUP", "ordered:", prefixed=True))
    for topic in topics:
        ledger = f"ordered:{topic}:"
        found += [acl(client, operation, "TOPIC", topic) for operation in ("WRITE", "READ")]
        found.append(acl(client, "WRITE", "TRANSACTIONAL_ID", ledger, prefixed=True))
        found.append(acl(client, "READ", "GROUP", ledger, prefixed=True))
    return [*found, *(acl(client, "READ", "GROUP", group) for group in groups)]
