"""Whether a caller may do something: super users, Kafka's ACLs, or the role file of a cluster without authorizer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from spark_ordered_kafka.controller.access import roles
from spark_ordered_kafka.controller.access.acls import (
    CLUSTER,
    AclTable,
    Operation,
    Resource,
    ResourceType,
    topic_resource,
)
from spark_ordered_kafka.controller.access.caller import ANONYMOUS, Caller
from spark_ordered_kafka.controller.access.files import WatchedFile
from spark_ordered_kafka.controller.settings import AuthenticationSettings, AuthorizationSettings
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError

_log = logging.getLogger(__name__)
_CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class Access:
    """Rights of callers. Thread-safe.

    A resource is a topic's name or a :class:`~spark_ordered_kafka.controller.access.acls.Resource`. Every check raises
    UnavailableError while the rights are not known (D-162).

    Args:
        authentication: says whether callers are known.
        authorization: super users and role file.
        acls: Kafka's ACLs of now; None: the brokers have no authorizer.

    Raises:
        ConfigError: the role file cannot be used.
    """

    def __init__(
        self,
        authentication: AuthenticationSettings,
        authorization: AuthorizationSettings,
        acls: Callable[[], AclTable | None],
    ) -> None:
        self._authenticated = authentication.required
        self._super_users = authorization.super_users
        self._acls = acls
        path = authorization.roles_file
        self._roles = None if path is None else WatchedFile(roles.KEY, path, roles.role_table)

    def check(self, caller: Caller, operation: Operation, resource: Resource | str) -> None:
        """Raises RequestError TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED unless the caller may do it.

        As in Kafka, the error does not reveal whether the topic or group exists.
        """
        if not self.allowed(caller, operation, resource):
            raise refusal(caller, operation, resource)

    def allowed(self, caller: Caller, operation: Operation, resource: Resource | str) -> bool:
        """Whether the caller may do ``operation`` to ``resource``."""
        return bool(self.among(caller, operation, [resource]))

    def check_any(self, caller: Caller, kinds: Sequence[tuple[Operation, ResourceType]]) -> None:
        """Raises RequestError unless the caller may do one of ``kinds`` to some resource, as Kafka's
        ``authorizeByResourceType`` (KIP-679); other checks decide about the single resource."""
        if caller.principal in self._super_users:
            return
        table = self._table()
        if table is None:
            allowed = not self._authenticated
        else:
            allowed = any(
                table.allows_somewhere(caller.principal, caller.host, operation, kind)
                for operation, kind in kinds
            )
        if not allowed:
            operation, kind = kinds[0]
            raise RequestError(
                _CODES[kind],
                f"{caller.principal} has no right to {operation.value} on any {kind.value.lower()}",
            )

    def among(
        self, caller: Caller, operation: Operation, resources: Iterable[Resource | str]
    ) -> list[Resource | str]:
        """Those of ``resources`` to which the caller may do it, by one state of the ACLs."""
        if caller.principal in self._super_users:
            return list(resources)
        table = self._table()
        if table is None:
            # Without rules, an authenticated caller alone has no rights (D-161).
            return [] if self._authenticated else list(resources)
        return [
            resource
            for resource in resources
            if table.allows(caller.principal, caller.host, operation, _resource(resource))
        ]

    def _table(self) -> AclTable | None:
        table = self._acls()
        return self._roles.get() if table is None and self._roles is not None else table

    def refusals(
        self, caller: Caller, operation: Operation, topics: Iterable[str]
    ) -> dict[str, RequestError]:
        """Those of ``topics`` to which the caller may not do it, each with the error that says so.

        As in Kafka, CREATE on the cluster implies CREATE on every topic.
        """
        named = list(dict.fromkeys(topics))
        if operation is Operation.CREATE and self.allowed(caller, operation, CLUSTER):
            return {}
        granted = set(self.among(caller, operation, named))
        return {topic: refusal(caller, operation, topic) for topic in named if topic not in granted}

    def log_source(self) -> None:
        """Log where rights come from; as a warning where that is risky."""
        try:
            authorizer = self._acls() is not None
        except OrderedKafkaError as error:
            _log.warning("where rights come from is not known yet: %s", error)
            return
        if not self._authenticated and (authorizer or self._roles is not None):
            _log.warning("authentication is not required: who shows no credentials is %s", ANONYMOUS)
        if authorizer:
            if self._roles is not None:
                _log.warning("%s is not used: the brokers have an authorizer, whose ACLs count", roles.KEY)
            _log.info("rights are those of Kafka's ACLs")
        elif self._roles is not None:
            _log.info("rights are those of %s: the brokers have no authorizer", roles.KEY)
        elif self._authenticated:
            _log.warning(
                "only %s may do anything: the brokers have no authorizer, and %s is not set",
                ", ".join(sorted(self._super_users)) or "nobody (authorization.super.users is empty)",
                roles.KEY,
            )
        else:
            _log.warning("everybody may do everything: no authentication, no authorizer and no role file")


def refusal(caller: Caller, operation: Operation, resource: Resource | str) -> RequestError:
    """The error of a caller without the right."""
    what = _resource(resource)
    shown = "the cluster" if what.type is ResourceType.CLUSTER else f"{what.type.value.lower()} {what.name!r}"
    return RequestError(_CODES[what.type], f"{caller.principal} has no right to {operation.value} on {shown}")


def _resource(resource: Resource | str) -> Resource:
    return topic_resource(resource) if isinstance(resource, str) else resource
