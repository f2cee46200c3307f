"""Requests to whichever of several controllers answers.

Over httpcore, the engine of httpx: httpx itself takes a tenth of a second to import, which each worker process of Spark
would pay before it writes its first row.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import httpcore
from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from spark_ordered_kafka.client.refusals import tls_refusal
from spark_ordered_kafka.config import Connection, is_http_url
from spark_ordered_kafka.credentials import NO_CREDENTIALS, PREFIX, ControllerCredentials
from spark_ordered_kafka.errors import (
    ClosedError,
    ConfigError,
    ErrorCode,
    LayoutChangingError,
    RequestError,
    ReviewPendingError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.security import ssl_context
from spark_ordered_kafka.parsing import without_user

if TYPE_CHECKING:
    from spark_ordered_kafka.client.schemas import Result

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
"""Header that names a request, so that a controller knows it again (draft-ietf-httpapi-idempotency-key-header)."""

TAKE_OVER: Final = 15.0
"""Seconds after which, by default settings, another controller leads for certain."""

_REPEATABLE = frozenset({"GET", "PUT"})
_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
_READING = frozenset({"GET"})
_FIRST_BACKOFF, _LAST_BACKOFF = 0.1, 1.0
_RETRY_AFTER = 0.2
# Below uvicorn's 5 s, so that a request is not sent into a connection that the controller is closing.
_KEEPALIVE = 2.0
_SHOWN = 200
# uvicorn reads no longer head of a request.
_LONGEST_TARGET = 65_536
# The request has not left this process.
_NOT_SENT = (
    httpcore.ConnectError,
    httpcore.ConnectTimeout,
    httpcore.PoolTimeout,
    httpcore.UnsupportedProtocol,
)
_FAILURES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)

_ParsedT = TypeVar("_ParsedT")


def new_key() -> str:
    """A key for :meth:`Transport.ask` that no other request has."""
    return uuid.uuid4().hex


def parse_urls(value: str) -> tuple[str, ...]:
    """Controller URLs from a comma-separated list, e.g. ``http://c1:8090,http://c2:8090``.

    Raises ConfigError when the list is empty or an item is not an http(s) URL.
    """
    urls = tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
    expected = "a comma-separated list of controller URLs such as http://host:8090"
    if not urls:
        raise ConfigError("controller.url", value, expected)
    for url in urls:
        if not is_http_url(url):
            raise ConfigError("controller.url", without_user(url), expected)
    return urls


@dataclass(frozen=True)
class _Request:
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
class _Response:
    """What came for a request."""

    request: _Request
    status: int
    body: bytes
    retry_after: str | None

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class _NoAnswerError(Exception):
    """A URL gave no controller's answer; ``in_doubt``: what was asked for may have been done all the same."""

    def __init__(self, reason: str, *, in_doubt: bool) -> None:
        super().__init__(reason)
        self.in_doubt = in_doubt


class _TlsError(_NoAnswerError):
    """TLS keeps this client and the controller at a URL apart; ``refusal`` says whose fault it is."""

    def __init__(self, refusal: ConfigError) -> None:
        super().__init__(f"failed: {refusal}", in_doubt=False)
        self.refusal = refusal


class _NoControllerError(UnavailableError):
    """None of the URLs gave a controller's answer, and asking again does no harm."""


class Transport:
    """Sends requests to one of several controllers. Safe to share between threads.

    Asks the URLs in turn, beginning with the one that answered last. Another one is asked only if it is certain that
    nothing was done yet, if doing it twice is the same as once, or if controllers know the request again by its key.

    Args:
        urls: of the controllers, see :func:`parse_urls`.
        timeout: seconds for a controller to accept a connection, and then to answer.
        retry_for: seconds in which further rounds through all URLs begin while none answers; None: :data:`TAKE_OVER`
            with several URLs, 0 with one.
        reason: why this client changes things: the query parameter ``reason`` of every request that may.
        credentials: what the controllers are shown.

    Raises:
        ConfigError: an argument is wrong, or a request cannot be written down as one, or TLS keeps every controller away.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        timeout: float,
        retry_for: float | None,
        reason: str | None = None,
        credentials: ControllerCredentials = NO_CREDENTIALS,
    ) -> None:
        self.urls = parse_urls(urls if isinstance(urls, str) else ",".join(urls))
        _require_seconds("timeout", timeout, timeout > 0.0)
        if retry_for is None:
            retry_for = TAKE_OVER if len(self.urls) > 1 else 0.0
        _require_seconds("retry_for", retry_for, retry_for >= 0.0)
        self._timeout = timeout
        self._retry_for = retry_for
        self._reason = reason
        self._preferred = 0
        self._credentials = credentials
        # Reading the authorities of the system takes as long as a request, or ten.
        secure = credentials.ssl_properties or any(urlsplit(url).scheme == "https" for url in self.urls)
        self._http = httpcore.ConnectionPool(
            ssl_context=ssl_context(credentials.ssl_properties, PREFIX) if secure else None,
            max_connections=None,
            keepalive_expiry=_KEEPALIVE,
        )
        self._is_closed = False

    @classmethod
    def of(cls, connection: Connection, *, timeout: float = 10.0, retry_for: float | None = None) -> Self:
        """To the controllers that belong to a cluster, with the credentials that were given for them."""
        return cls(
            connection.controller_url,
            timeout=timeout,
            retry_for=retry_for,
            credentials=connection.credentials,
        )

    def close(self) -> None:
        """Close the connections. Requests after that raise ClosedError."""
        self._is_closed = True
        self._http.close()

    def send(
        self,
        parse: Callable[[bytes], _ParsedT],
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        topic: str = "",
        extra_timeout: float | None = None,
        repeatable: bool | None = None,
        key: str | None = None,
        retry_for: float | None = None,
    ) -> _ParsedT:
        """The controller's answer.

        Args:
            parse: makes it of the body; raises ValueError saying what the body is not.
            topic: which one a LayoutChangingError names.
            extra_timeout: seconds that the controller may take beyond ``timeout``.
            repeatable: whether sending it twice does the same as once; None: as the method says.
            key: of :func:`new_key`, for routes that carry out the same request with the same key once, however often it
                comes.
            retry_for: instead of the transport's own.

        Raises:
            UnavailableError: no controller answered, or it is not known whether it did what was asked.
            LayoutChangingError: a change of the topic is closing.
            ReviewPendingError: the request waits for a second principal.
            RequestError: the controller refused.
            ClosedError: after :meth:`close`.
        """
        requests = [self._request(method, url, path, params, body, extra_timeout, key) for url in self.urls]
        if repeatable is None:
            repeatable = method in _REPEATABLE
        retrying = Retrying(
            retry=retry_if_exception_type(_NoControllerError),
            wait=wait_random_exponential(multiplier=_FIRST_BACKOFF, max=_LAST_BACKOFF),
            stop=stop_before_delay(self._retry_for if retry_for is None else retry_for),
            reraise=True,
        )
        what, doubts, may_repeat = f"{method} {path}", list[str](), repeatable or key is not None
        try:
            answer: _ParsedT = retrying(self._ask_in_turn, what, requests, parse, topic, may_repeat, doubts)
        except _NoControllerError as error:
            if repeatable or not doubts:
                raise
            raise UnavailableError(
                f"{what} was sent to {doubts[0]}. It may have been carried out: look before asking for it again ({error})"
            ) from error
        return answer

    def _request(
        self,
        method: str,
        url: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        extra_timeout: float | None,
        key: str | None,
    ) -> _Request:
        headers: dict[bytes | str, bytes | str] = {"content-type": "application/json"}
        if self._credentials.authorization is not None:
            headers["authorization"] = self._credentials.authorization
        if key is not None:
            headers[IDEMPOTENCY_KEY] = key
        if self._reason is not None and method not in _READING:
            params = {**(params or {}), "reason": self._reason}
        timeouts = dict.fromkeys(("connect", "write", "pool"), self._timeout)
        timeouts["read"] = self._timeout + (extra_timeout or 0.0)
        try:
            target = f"{path}?{urlencode(params)}" if params else path
            found = _url(url, target)
        except ValueError as error:
            raise ConfigError("the request", f"{method} {url}{path}", f"cannot be sent: {error}") from error
        headers["host"] = _host_header(found)
        return _Request(method, url, found, target, body, headers, timeouts)

    def _ask_in_turn(
        self,
        what: str,
        requests: Sequence[_Request],
        parse: Callable[[bytes], _ParsedT],
        topic: str,
        may_repeat: bool,
        doubts: list[str],
    ) -> _ParsedT:
        """``doubts`` takes who may have carried the request out all the same."""
        failures: list[str] = []
        unreached: list[_TlsError] = []
        first = self._preferred
        for turn in range(len(requests)):
            index = (first + turn) % len(requests)
            try:
                answer = self._answer(requests[index], parse, topic)
            except _NoAnswerError as error:
                if error.in_doubt:
                    doubts.append(f"{self.urls[index]}, which {error}")
                if error.in_doubt and not may_repeat:
                    raise UnavailableError(
                        f"{what} was sent to {self.urls[index]}, which {error}. It may have been carried out: look before "
                        "asking for it again"
                    ) from error
                failures.append(f"{self.urls[index]} {error}")
                if isinstance(error, _TlsError):
                    unreached.append(error)
                continue
            except (RequestError, LayoutChangingError):
                self._preferred = index
                raise
            self._preferred = index
            return answer
        if len(unreached) == len(requests):
            # None is away: asking again would not help.
            raise unreached[0].refusal from unreached[0]
        raise _NoControllerError(f"no controller answered {what}: {'; '.join(failures)}")

    def _answer(self, request: _Request, parse: Callable[[bytes], _ParsedT], topic: str) -> _ParsedT:
        response = self._response(request)
        if response.status == HTTPStatus.ACCEPTED:
            raise _pending(response)
        if response.is_success:
            try:
                return parse(response.body)
            except ValueError as error:
                raise _NoAnswerError(f"answered something that is not {error}", in_doubt=True) from error
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise _unauthorized(response, self._credentials)
        raise _refusal(response, topic)

    def _response(self, request: _Request) -> _Response:
        if self._is_closed:
            raise ClosedError("the client of the controller is closed")
        try:
            found = self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body,
                extensions={"timeout": request.timeouts},
            )
        except _FAILURES as error:
            untrusted = tls_refusal(error, request.root, self._credentials)
            if untrusted is not None:
                raise _TlsError(untrusted) from error
            in_doubt = not isinstance(error, _NOT_SENT)
            raise _NoAnswerError(f"failed: {error or type(error).__name__}", in_doubt=in_doubt) from error
        retry_after = next((value for name, value in found.headers if name.lower() == b"retry-after"), None)
        told = None if retry_after is None else retry_after.decode("latin-1")
        return _Response(request, found.status, found.content, told)


def _url(url: str, target: str) -> httpcore.URL:
    """``target`` at the controller of ``url``. Raises ValueError for what no server takes, a name that no host can have."""
    if len(target) > _LONGEST_TARGET:
        raise ValueError(
            f"its path and query have {len(target)} characters, at most {_LONGEST_TARGET} are taken"
        )
    parts = urlsplit(url)
    return httpcore.URL(
        scheme=parts.scheme.encode("ascii"),
        host=(parts.hostname or "").encode("idna"),
        port=parts.port,
        target=(parts.path + target).encode("ascii"),
    )


def _host_header(url: httpcore.URL) -> str:
    host = url.host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    return shown if url.port is None else f"{shown}:{url.port}"


def _pending(response: _Response) -> Exception:
    """What 202 means: nothing was done yet."""
    from spark_ordered_kafka.client.schemas import ReviewSummary

    try:
        return ReviewPendingError(ReviewSummary.model_validate_json(response.body).review_id)
    except ValueError:
        return _NoAnswerError(f"answered {response.status}: {response.text[:_SHOWN]}", in_doubt=True)


def _unauthorized(response: _Response, credentials: ControllerCredentials) -> RequestError:
    """Whoever answered, a controller or a proxy before it: asking again, or another one, would not help."""
    result = _result(response)
    told = None if result is None else result.error_message
    return RequestError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"{response.request.root} does not accept {credentials.described}: {told or response.status}",
    )


def _refusal(response: _Response, topic: str) -> Exception:
    """What a response other than a success means; _NoAnswerError when it is not an active controller's."""
    result = _result(response)
    if result is None or result.error_code == ErrorCode.NONE:
        # Of a proxy, or of another server. Its own errors do not tell whether a controller behind it was asked.
        return _NoAnswerError(
            f"answered {response.status}: {response.text[:_SHOWN]}", in_doubt=response.status >= 500
        )
    if result.error_code == ErrorCode.NOT_CONTROLLER:
        return _NoAnswerError(f"is not the active controller: {result.error_message}", in_doubt=False)
    if response.status in _GATEWAY:
        return _NoAnswerError(f"answered {response.status}: {result.error_message}", in_doubt=True)
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        if result.error_code == ErrorCode.INVALID_PARTITION_METADATA:
            return LayoutChangingError(topic, _seconds(response.retry_after))
        return UnavailableError(f"{response.request}: {result.error_message}")
    try:
        code = ErrorCode(result.error_code)
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return RequestError(code, result.error_message or "no reason given")


def _result(response: _Response) -> Result | None:
    # Here, and not for a writer whose controller has only layouts to tell: pydantic takes a while to import.
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


def _require_seconds(name: str, value: float, in_range: bool) -> None:
    if not in_range or not math.isfinite(value):
        raise ConfigError(name, value, "a number of seconds is needed")
