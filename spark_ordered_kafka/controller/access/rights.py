"""Kafka's ACLs as a controller sees them: read from the brokers, kept for a few seconds, never older than that."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
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
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error

MAX_AGE = 5.0
"""Seconds after which a right that Kafka has withdrawn is withdrawn here, at the latest."""
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
    # Operations that no route asks for (IDEMPOTENT_WRITE, ...) neither allow nor deny anything here, but a resource that
    # has an ACL is not everyone's by allow.everyone.if.no.acl.found.
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


@dataclass(frozen=True)
class _Reading:
    table: AclTable | None
    at: float


class KafkaRights:
    """The ACLs of now, at most :data:`MAX_AGE` seconds old. Safe to share between threads.

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
        self._read = read
        self._allow_if_none = allow_if_none
        self._keep_disabled = keep_disabled
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: _Reading | None = None
        self._pending: Future[_Reading] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="acls")

    def table(self) -> AclTable | None:
        """The ACLs; None: the brokers have no authorizer.

        Raises:
            UnavailableError: Kafka cannot be asked, and what it said before is too old.
        """
        latest = self._latest
        age = None if latest is None else self._clock() - latest.at
        if latest is None or age is None or age >= _REFRESH_AGE:
            pending = self._refresh()
            if age is None or age >= MAX_AGE:
                latest = self._outcome(pending, latest)
        return None if latest is None else latest.table

    def close(self) -> None:
        """Let the reading under way end; nothing is read afterwards."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _refresh(self) -> Future[_Reading]:
        with self._lock:
            if self._pending is None or self._pending.done():
                try:
                    self._pending = self._reader.submit(self._take_reading)
                except RuntimeError as error:
                    raise UnavailableError("the controller is ending") from error
            return self._pending

    def _take_reading(self) -> _Reading:
        # The age counts from before the question: what changes while it is answered may be missing.
        at = self._clock()
        try:
            acls = self._read()
        except OrderedKafkaError as error:
            _log.warning("rights are unknown: %s", error)
            raise
        table = None if acls is None else AclTable(acls, allow_if_none=self._allow_if_none)
        self._latest = _Reading(table, at)
        return self._latest

    def _outcome(self, pending: Future[_Reading], latest: _Reading | None) -> _Reading:
        if self._keep_disabled and latest is not None and latest.table is None:
            return latest
        try:
            return pending.result(self._timeout)
        except (OrderedKafkaError, FutureTimeoutError) as error:
            # Whatever the reason: the caller is not to blame, may ask again, and learns nothing of the cluster.
            raise UnavailableError("Kafka cannot be asked for the rights of the caller") from error
