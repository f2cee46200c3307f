"""Kafka's ACLs, read from the brokers and cached for a few seconds (D-162)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    DescribeAclsRequest,
)

from spark_ordered_kafka.controller.access.acls import Acl, AclTable, Operation, ResourceType
from spark_ordered_kafka.controller.shared_query import Answer, SharedQuery
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error

MAX_AGE = 5.0
"""Seconds after which a right that was withdrawn in Kafka no longer counts, at the latest."""
_REFRESH_AGE = 2.0

_log = logging.getLogger(__name__)
_OPERATIONS: Final = {ACLOperation[operation.name]: operation for operation in Operation}
_TYPES: Final = {ACLResourceType[kind.name]: kind for kind in ResourceType}
_DENY_OR_ALLOW: Final = {ACLPermissionType.DENY: False, ACLPermissionType.ALLOW: True}
_PREFIXED: Final = {ACLResourcePatternType.LITERAL: False, ACLResourcePatternType.PREFIXED: True}


def read_acls(requests: BrokerRequests, timeout: float) -> list[Acl] | None:
    """All ACLs of topics, groups and the cluster (DescribeAcls); None: the brokers have no authorizer.

    Raises:
        RequestError: the controller's own principal may not read them (it needs DESCRIBE on the cluster).
        UnavailableError: no broker answered within ``timeout`` seconds.
    """
    found: list[Acl] | None = requests.retry(
        partial(_describe, requests), time.monotonic() + timeout, "read Kafka's ACLs"
    )
    return found


async def _describe(requests: BrokerRequests, deadline: float) -> list[Acl] | None:
    response = await requests.send(
        DescribeAclsRequest(
            resource_type_filter=ACLResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=ACLResourcePatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
        ),
        None,
        deadline,
    )
    if response.error_code == kafka_errors.SecurityDisabledError.errno:
        return None
    if response.error_code:
        raise broker_error(response.error_code, response.error_message)
    return [acl for resource in response.resources for acl in _acls(resource)]


def _acls(resource: Any) -> list[Acl]:
    kind = _TYPES.get(resource.resource_type)
    if kind is None:
        return []
    # Operations that no route needs (IDEMPOTENT_WRITE, ...) neither allow nor deny anything here, but with an ACL a
    # resource is not open by allow.everyone.if.no.acl.found.
    return [
        Acl(
            type=kind,
            name=resource.resource_name,
            prefixed=_PREFIXED[resource.pattern_type],
            principal=entry.principal,
            host=entry.host,
            operation=_OPERATIONS.get(entry.operation, Operation.UNKNOWN),
            allow=_DENY_OR_ALLOW[entry.permission_type],
        )
        for entry in resource.acls
    ]


class KafkaRights:
    """The current ACLs, at most :data:`MAX_AGE` seconds old. Thread-safe.

    Args:
        read: all ACLs, or None for a cluster without authorizer; called in a thread of its own.
        allow_if_none: see :class:`~spark_ordered_kafka.controller.access.acls.AclTable`.
        keep_disabled: whether "no authorizer" stays true while Kafka cannot be asked.
        timeout: seconds to wait for Kafka.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        read: Callable[[], list[Acl] | None],
        *,
        allow_if_none: bool,
        keep_disabled: bool,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep_disabled = keep_disabled
        self._timeout = timeout

        def ask() -> AclTable | None:
            acls = read()
            return None if acls is None else AclTable(acls, allow_if_none=allow_if_none)

        self._query = SharedQuery("rights", ask, clock)

    def table(self) -> AclTable | None:
        """The ACLs; None: the brokers have no authorizer.

        Raises:
            UnavailableError: Kafka does not answer, and the last answer is too old.
        """
        latest, age = self._query.latest, self._query.age()
        if latest is None or age is None or age >= _REFRESH_AGE:
            pending = self._query.outcome()
            if latest is None or age is None or age >= MAX_AGE:
                latest = self._outcome(pending, latest)
        return latest.value

    def close(self) -> None:
        """Wait for the current read; start no other."""
        self._query.close()

    def _outcome(
        self, pending: Future[Answer[AclTable | None]], latest: Answer[AclTable | None] | None
    ) -> Answer[AclTable | None]:
        if self._keep_disabled and latest is not None and latest.value is None:
            return latest
        try:
            return pending.result(self._timeout)
        except (OrderedKafkaError, FutureTimeoutError) as error:
            _log.warning("rights are unknown: %s", error)
            # For every cause: the caller may retry, and gets no details of the cluster.
            raise UnavailableError("Kafka cannot be asked for the rights of the caller") from error
