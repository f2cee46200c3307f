"""Kafka's access control lists, evaluated as Kafka's StandardAuthorizer does it. Pure.

Sources: KIP-11 (operations, DENY first), KIP-290 (prefixed patterns), ``StandardAuthorizerData`` of Apache Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_ordered_kafka.controller.access.caller import ANONYMOUS

WILDCARD: Final = "*"
"""As a resource's name, a host, and behind ``User:`` in a principal."""
ANYONE: Final = "User:*"


class Operation(StrEnum):
    """An operation on a resource (``org.apache.kafka.common.acl.AclOperation``)."""

    ALL = "ALL"
    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    UNKNOWN = "UNKNOWN"
    """An operation that no route needs, such as IDEMPOTENT_WRITE; its ACLs still count as ACLs of their resource."""


class ResourceType(StrEnum):
    """A kind of resource (``org.apache.kafka.common.resource.ResourceType``)."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"


@dataclass(frozen=True)
class Resource:
    """A resource by its name."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The cluster; Kafka gives it a name (``Resource.CLUSTER_NAME``)."""


def topic_resource(topic: str) -> Resource:
    """The resource of a topic."""
    return Resource(ResourceType.TOPIC, topic)


def group_resource(group: str) -> Resource:
    """The resource of a consumer group."""
    return Resource(ResourceType.GROUP, group)


@dataclass(frozen=True)
class Acl:
    """An access control entry with the pattern it is bound to (``org.apache.kafka.common.acl.AclBinding``).

    ``allow`` False denies. ``prefixed``: ``name`` is the beginning of names; otherwise it is a name, or ``*`` for all.
    ``principal`` is ``User:alice`` or ``User:*``, ``host`` an address or ``*``.
    """

    type: ResourceType
    name: str
    principal: str
    operation: Operation
    prefixed: bool = False
    allow: bool = True
    host: str = WILDCARD

    def matches(self, resource: Resource) -> bool:
        """Whether the pattern is one of ``resource``."""
        if self.type is not resource.type:
            return False
        if self.prefixed:
            return resource.name.startswith(self.name)
        return self.name in (WILDCARD, resource.name)

    def grants(self, operation: Operation) -> bool:
        """Whether an ALLOW entry allows ``operation``."""
        return self.operation is Operation.ALL or self.operation in _IMPLIED_BY.get(operation, (operation,))


# An ALLOW for one of these allows the key, too; a DENY for one of them does not deny it.
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


class AclTable:
    """ACLs indexed by resource. Immutable.

    Args:
        acls: in any order.
        allow_if_none: whether a resource without ACLs is open to all (``allow.everyone.if.no.acl.found``).
        anonymous_is_anyone: whether ``User:*`` means callers without credentials, too, as it does in Kafka.
    """

    def __init__(
        self, acls: Iterable[Acl], *, allow_if_none: bool = False, anonymous_is_anyone: bool = True
    ) -> None:
        self._allow_if_none = allow_if_none
        self._anonymous_is_anyone = anonymous_is_anyone
        self._named: defaultdict[Resource, list[Acl]] = defaultdict(list)
        self._prefixed: defaultdict[Resource, list[Acl]] = defaultdict(list)
        lengths: defaultdict[ResourceType, set[int]] = defaultdict(set)
        for acl in acls:
            key = Resource(acl.type, acl.name)
            if acl.prefixed:
                self._prefixed[key].append(acl)
                lengths[acl.type].add(len(acl.name))
            else:
                self._named[key].append(acl)
        self._lengths = {kind: sorted(found) for kind, found in lengths.items()}

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether ``principal`` (``User:alice``) at ``host`` (an address) may do ``operation`` to ``resource``."""
        about = self._about(resource)
        if not about:
            return self._allow_if_none
        allowed = False
        principals = self._names_of(principal)
        for acl in about:
            if acl.principal not in principals or acl.host not in (host, WILDCARD):
                continue
            if not acl.allow:
                if acl.operation in (operation, Operation.ALL):
                    return False
            elif acl.grants(operation):
                allowed = True
        return allowed

    def allows_somewhere(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether any ACL allows ``principal`` at ``host`` to do ``operation`` to something of that kind.

        Ignores DENY entries: the check of the single resource applies them.
        """
        principals = self._names_of(principal)
        return self._allow_if_none or any(
            acl.type is kind
            and acl.principal in principals
            and acl.host in (host, WILDCARD)
            and acl.allow
            and acl.grants(operation)
            for acls in (*self._named.values(), *self._prefixed.values())
            for acl in acls
        )

    def _names_of(self, principal: str) -> tuple[str, ...]:
        if principal == ANONYMOUS and not self._anonymous_is_anyone:
            return (principal,)
        return principal, ANYONE

    def _about(self, resource: Resource) -> list[Acl]:
        found = [
            *self._named.get(resource, ()),
            *self._named.get(Resource(resource.type, WILDCARD), ()),
        ]
        for length in self._lengths.get(resource.type, ()):
            if length > len(resource.name):
                break
            found += self._prefixed.get(Resource(resource.type, resource.name[:length]), ())
        return found
