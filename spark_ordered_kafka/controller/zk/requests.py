"""Answers of ZooKeeper to one request: waited for with a limit, and their errors as those of this package."""

from __future__ import annotations

import time
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

PREFIX = "zookeeper."
"""What the names of ZooKeeper's options begin with."""
MECHANISM = "DIGEST-MD5"
"""Of SASL: the one that both ZooKeeper and kazoo have for a password."""


class Deadline:
    """Waits for answers until a deadline; its errors name the request."""

    def __init__(self, settings: ZooKeeperSettings, deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline

    def result(self, pending: Any, path: str) -> Any:
        """As :func:`result_of`."""
        return result_of(pending, self._settings, path, max(0.0, self._deadline - time.monotonic()))


def result_of(pending: Any, settings: ZooKeeperSettings, path: str, timeout: float) -> Any:
    """The result of an asynchronous request for ``path``.

    Raises NoNodeError, NodeExistsError and BadVersionError as they are, UnavailableError when there is no answer within
    ``timeout`` seconds, and RequestError when it is refused.
    """
    try:
        return pending.get(timeout=timeout)
    except (NoNodeError, NodeExistsError, BadVersionError):
        raise
    except KazooTimeoutError as error:
        raise UnavailableError(
            f"ZooKeeper at {settings.connect} did not answer for {path} within {timeout:g} s"
        ) from error
    except KazooException as error:
        raise translated(error, settings, path) from error


def translated(error: KazooException, settings: ZooKeeperSettings, path: str) -> OrderedKafkaError:
    """ZooKeeper's answer to a request for ``path`` as an error of this package."""
    servers = f"ZooKeeper at {settings.connect}"
    if isinstance(error, AuthFailedError):
        return RequestError(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"{PREFIX}sasl.username has the value {settings.sasl_username!r}: {servers} refuses this user or "
            f"{PREFIX}sasl.password by {MECHANISM}",
        )
    if isinstance(error, NoAuthError):
        users = {"sasl": settings.sasl_username, "digest": settings.digest_username}
        given = {scheme: user for scheme, user in users.items() if user is not None}
        name = " or ".join(f"{PREFIX}{scheme}.username" for scheme in given or users)
        shown = f"has the value {', '.join(map(repr, given.values()))}" if given else "is missing"
        return RequestError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{name} {shown}: znode {path} of {servers} belongs to another user or password",
        )
    if isinstance(error, InvalidACLError):
        return RequestError(
            ErrorCode.INVALID_CONFIG,
            f"{PREFIX}sasl.username has the value {settings.sasl_username!r}: {servers} has not authenticated it; "
            "is SASL switched on there?",
        )
    return UnavailableError(f"{servers}: {error!r} for {path}")
