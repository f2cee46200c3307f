"""What proves to the leader that another controller has handed a request on.

An HMAC under the key that the leader has put into its znode, which only controllers read: the key itself never crosses the
network, and what does is of no use to whoever overhears it. It is for one request alone (method, path and query, caller,
body and the headers that matter), for a few minutes, and once.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from pydantic_core import to_json

from spark_ordered_kafka.client.transport import IDEMPOTENCY_KEY
from spark_ordered_kafka.controller.zk.session import DeposedError
from spark_ordered_kafka.errors import ErrorCode, RequestError

CALLER_HEADER: Final = "x-ordered-kafka-caller"
FORWARDED_HEADER: Final = "x-ordered-kafka-forwarded"
SIGNED_HEADERS: Final = (CALLER_HEADER, "content-type", IDEMPOTENCY_KEY.lower(), "x-request-id")
VALID_FOR: Final = 300.0
"""Seconds that the clocks of two controllers, and the way between them, may differ."""

_HEADER: Final = re.compile(
    r"(?P<at>[0-9]{1,15});(?P<nonce>[\w-]{1,64});(?P<body>[0-9a-f]{64});(?P<mac>[0-9a-f]{64})"
)


def target_of(path: bytes, query: bytes) -> str:
    """Path and query as they are signed."""
    return (path + (b"?" + query if query else b"")).decode("latin-1")


def sign(key: str, method: str, target: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The header :data:`FORWARDED_HEADER`. ``headers`` are those that are sent; ``now`` is seconds since the epoch."""
    at, nonce = str(int(now)), secrets.token_urlsafe(16)
    digest = hashlib.sha256(body).hexdigest()
    return f"{at};{nonce};{digest};{_mac(key, at, nonce, digest, method, target, headers)}"


class Signatures:
    """Checks what is handed on to this process. Not safe to share between threads; ``clock`` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # Of requests that came, until nobody would take them any more; the oldest first.
        self._seen: OrderedDict[str, float] = OrderedDict()

    def check(self, key: str | None, method: str, target: str, headers: Mapping[str, str]) -> str:
        """The SHA-256, in hexadecimal digits, that the body must have. ``key`` None: this process does not lead.

        Raises:
            DeposedError: the signature is not by this leader's key. Whoever handed it on asks the next one.
            RequestError: NOT_CONTROLLER, it is too old or too new, or has come before.
        """
        match = _HEADER.fullmatch(headers.get(FORWARDED_HEADER, ""))
        if key is None or match is None:
            raise DeposedError
        expected = _mac(key, match["at"], match["nonce"], match["body"], method, target, headers)
        if not hmac.compare_digest(match["mac"], expected):
            raise DeposedError
        now, at = self._clock(), float(match["at"])
        if abs(now - at) > VALID_FOR:
            raise RequestError(
                ErrorCode.NOT_CONTROLLER,
                f"what was handed on says {at:.0f} s since 1970, and it is {now:.0f} here: set the controllers' clocks",
            )
        while self._seen and next(iter(self._seen.values())) < now:
            self._seen.popitem(last=False)
        if match["nonce"] in self._seen:
            raise RequestError(ErrorCode.NOT_CONTROLLER, "what was handed on has come before")
        self._seen[match["nonce"]] = now + 2 * VALID_FOR
        return match["body"]


def is_body(body: bytes, digest: str) -> bool:
    """Whether ``body`` is what was signed."""
    return hmac.compare_digest(hashlib.sha256(body).hexdigest(), digest)


def _mac(
    key: str, at: str, nonce: str, digest: str, method: str, target: str, headers: Mapping[str, str]
) -> str:
    signed = [at, nonce, digest, method, target, *(headers.get(name) for name in SIGNED_HEADERS)]
    return hmac.new(key.encode(), to_json(signed), "sha256").hexdigest()
