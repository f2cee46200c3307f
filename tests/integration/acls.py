"""Kafka's ACLs for tests on the secured cluster."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.servers import TIMEOUT, await_true


def acl(
    principal: str,
    operation: str,
    kind: str,
    name: str,
    *,
    prefixed: bool = False,
    allow: bool = True,
    host: str = "*",
) -> AclBinding:
    return AclBinding(
        ResourceType.BROKER if kind == "CLUSTER" else ResourceType[kind],
        "kafka-cluster" if kind == "CLUSTER" else name,
        ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
        principal,
        host,
        AclOperation[operation],
        AclPermissionType.ALLOW if allow else AclPermissionType.DENY,
    )


@dataclass
class Acls:
    """Kafka's ACLs, changed as its super user.

    Kafka answers before its brokers go by a change; here the one broker does when a call returns.
    """

    admin: AdminClient

    def add(self, *bindings: AclBinding) -> None:
        for future in self.admin.create_acls(list(bindings), request_timeout=TIMEOUT).values():
            future.result(TIMEOUT)
        for binding in bindings:
            await_true(lambda one=binding: self._counts(one), f"{binding} counts")  # type: ignore[misc]

    def remove(self, binding: AclBinding) -> None:
        for future in self.admin.delete_acls([_itself(binding)], request_timeout=TIMEOUT).values():
            assert len(future.result(TIMEOUT)) == 1
        await_true(lambda: not self._counts(binding), f"{binding} counts no more")

    def _counts(self, binding: AclBinding) -> bool:
        described = self.admin.describe_acls(_itself(binding), request_timeout=TIMEOUT)
        found: list[AclBinding] = described.result(TIMEOUT)
        return found != []


def _itself(binding: AclBinding) -> AclBindingFilter:
    """As a filter, a binding matches itself."""
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
