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
    """Kafka's ACLs, changed as its super user."""

    admin: AdminClient

    def add(self, *bindings: AclBinding) -> None:
        """Returns when the broker goes by them: it hears of them a moment after they are made."""
        for future in self.admin.create_acls(list(bindings), request_timeout=TIMEOUT).values():
            future.result(TIMEOUT)
        await_true(lambda: all(map(self._is_there, bindings)), "the rights are known")

    def remove(self, binding: AclBinding) -> None:
        """Returns when the broker goes by it no more."""
        for future in self.admin.delete_acls([_alone(binding)], request_timeout=TIMEOUT).values():
            assert len(future.result(TIMEOUT)) == 1
        await_true(lambda: not self._is_there(binding), "the right is gone")

    def _is_there(self, binding: AclBinding) -> bool:
        return bool(self.admin.describe_acls(_alone(binding), request_timeout=TIMEOUT).result(TIMEOUT))


def _alone(binding: AclBinding) -> AclBindingFilter:
    # As a filter, a binding matches itself.
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
