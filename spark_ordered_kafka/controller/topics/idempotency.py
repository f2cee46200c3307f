"""Requests that are sent again, because the first answer was lost with a connection or a controller.

A client that does not know whether its request was carried out sends it again with the same key. The first request's
result has an id derived from that key: a change's id, a topic's ``created_by``. So every controller finds it.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from spark_ordered_kafka.errors import invalid_request

_LENGTH = 12
_KEY = re.compile(r"[!-~]{1,128}")
_key: ContextVar[str | None] = ContextVar("idempotency_key", default=None)


def check_key(key: str | None) -> None:
    """Raises RequestError INVALID_REQUEST for a key that is not 1 to 128 visible ASCII characters."""
    if key is not None and _KEY.fullmatch(key) is None:
        raise invalid_request(
            f"Idempotency-Key has the value {key[:200]!r}: 1 to 128 visible ASCII characters are needed"
        )


@contextmanager
def keyed(key: str | None) -> Iterator[None]:
    """Inside the block, and in contexts copied from it, requests have ``key``; None: none.

    Raises as :func:`check_key`.
    """
    check_key(key)
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def has_key() -> bool:
    """Whether the request has a key."""
    return _key.get() is not None


def repeatable_id(*asked: object) -> str | None:
    """The id of ``asked`` under the current idempotency key, the same each time; None without a key."""
    key = _key.get()
    if key is None:
        return None
    digest = hashlib.sha256("\0".join([key, *map(str, asked)]).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:_LENGTH]


def new_id(*asked: object) -> str:
    """:func:`repeatable_id`, or a unique id without a key."""
    return repeatable_id(*asked) or uuid.uuid4().hex[:_LENGTH]
