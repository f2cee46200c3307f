"""What a controller's answer to a request means, or that of another server that answered in its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import httpcore

from spark_ordered_kafka.credentials import ControllerCredentials
from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    LayoutChangingError,
    RequestError,
    ReviewPendingError,
    UnavailableError,
    refusal,
)

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import Result

_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
_RETRY_AFTER = 0.2
_SHOWN = 200


@dataclass(frozen=True)
class Request:
    """A request to the controller at ``base``. Its repr has no header, which may hold a secret."""

    method: str
    base: str
    url: httpcore.URL
    target: str
    body: bytes | None
    headers: Mapping[bytes | str, bytes | str] = field(repr=False)
    timeouts: Mapping[str, float]

    def __str__(self) -> str:
        return self.base + self.target

    @property
    def root(self) -> str:
        """The controller's URL without a path."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}/"


@dataclass(frozen=True)
class Response:
    """What came for a request."""

    request: Request
    status: int
    body: bytes
    headers: Sequence[tuple[bytes, bytes]]

    def header(self, name: str) -> str | None:
        """The first value of a header, whose name is in lower case; None: there is none."""
        return next(
            (value.decode("latin-1") for key, value in self.headers if key.lower() == name.encode()), None
        )

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class NoAnswerError(Exception):
    """A URL gave no controller's answer; ``in_doubt``: what was asked for may have been done all the same."""

    def __init__(self, reason: str, *, in_doubt: bool) -> None:
        super().__init__(reason)
        self.in_doubt = in_doubt


class TlsError(NoAnswerError):
    """The connection to the controller at a URL failed in TLS; ``refusal`` names the option that is the cause."""

    def __init__(self, refusal: ConfigError) -> None:
        super().__init__(f"failed: {refusal}", in_doubt=False)
        self.refusal = refusal


def redirected(response: Response) -> Request:
    """The request that ``response``, a redirect, asks for instead. Raises NoAnswerError when it names no place for it."""
    request, location = response.request, response.header("location")
    if location is None:
        raise NoAnswerError(f"answered {response.status}: {response.text[:_SHOWN]}", in_doubt=False)
    try:
        if not (location.isascii() and location.isprintable()):
            raise ValueError("the characters of a URL are needed")
        target = urlsplit(urljoin(str(request), location))
        url = httpcore.URL(
            scheme=target.scheme,
            host=(target.hostname or "").encode("idna"),
            port=target.port,
            target=f"{target.path}?{target.query}" if target.query else target.path,
        )
        if target.scheme not in ("http", "https") or not target.hostname:
            raise ValueError("an http or https URL is needed")
    except ValueError as error:
        raise NoAnswerError(f"redirects to {location[:_SHOWN]!r}: {error}", in_doubt=False) from error
    if request.url.scheme == b"https" and target.scheme == "http":
        raise NoAnswerError(f"redirects to {location[:_SHOWN]}, which has no TLS", in_doubt=False)
    path = target.path.removesuffix(request.target.partition("?")[0])
    return replace(
        request,
        base=f"{target.scheme}://{host_header(url)}{path}",
        url=url,
        headers={**request.headers, "host": host_header(url)},
    )


def host_header(url: httpcore.URL) -> str:
    """The value of ``Host`` for a request to ``url``."""
    host = url.host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    return shown if url.port is None else f"{shown}:{url.port}"


def error_of(response: Response, topic: str, credentials: ControllerCredentials) -> Exception:
    """What an answer means that is no success: an error to raise. ``topic``: which one a LayoutChangingError names."""
    if response.status == HTTPStatus.ACCEPTED:
        return _pending(response)
    if response.status == HTTPStatus.UNAUTHORIZED:
        return _unauthorized(response, credentials)
    return _refusal(response, topic)


def _pending(response: Response) -> Exception:
    """What 202 means: nothing was done yet."""
    from spark_ordered_kafka.client.schemas import ReviewSummary

    try:
        return ReviewPendingError(ReviewSummary.model_validate_json(response.body).review_id)
    except ValueError:
        return NoAnswerError(f"answered {response.status}: {response.text[:_SHOWN]}", in_doubt=True)


def _unauthorized(response: Response, credentials: ControllerCredentials) -> RequestError:
    """The refusal of credentials, by a controller or a proxy before it: asking again, or another one, would not help."""
    result = _result(response)
    reason = None if result is None else result.error_message
    return RequestError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"{response.request.root} does not accept {credentials.described}: {reason or response.status}",
    )


def _refusal(response: Response, topic: str) -> Exception:
    """What a response other than a success means; NoAnswerError when it is not an active controller's."""
    result = _result(response)
    if result is None or result.error_code == ErrorCode.NONE:
        # Of a proxy, or of another server. Its own errors do not show whether a controller behind it was asked.
        return NoAnswerError(
            f"answered {response.status}: {response.text[:_SHOWN]}", in_doubt=response.status >= 500
        )
    if result.error_code == ErrorCode.NOT_CONTROLLER:
        return NoAnswerError(f"is not the active controller: {result.error_message}", in_doubt=False)
    if response.status in _GATEWAY:
        return NoAnswerError(f"answered {response.status}: {result.error_message}", in_doubt=True)
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        if result.error_code == ErrorCode.INVALID_PARTITION_METADATA:
            return LayoutChangingError(topic, _seconds(response.header("retry-after")))
        return UnavailableError(f"{response.request}: {result.error_message}")
    return refusal(result.error_code, result.error, result.error_message)


def _result(response: Response) -> Result | None:
    # Here, since writers only get layouts, and pydantic takes a while to import (D-214).
    from spark_ordered_kafka.client.schemas import Result

    try:
        return Result.model_validate_json(response.body)
    except ValueError:
        return None


def _seconds(retry_after: str | None) -> float:
    """Of a Retry-After header, which may also be a date."""
    try:
        seconds = float(retry_after or _RETRY_AFTER)
    except ValueError:
        return _RETRY_AFTER
    return seconds if 0.0 <= seconds < math.inf else _RETRY_AFTER
