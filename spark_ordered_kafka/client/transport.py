"""Requests to whichever of several controllers answers.

Over httpcore: httpcore2, httpx2 and urllib3 take longer to import (D-214, D-233).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Final, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import httpcore
from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from spark_ordered_kafka import parsing
from spark_ordered_kafka.client.refusals import tls_refusal
from spark_ordered_kafka.client.responses import (
    NoAnswerError,
    Request,
    Response,
    TlsError,
    error_of,
    host_header,
    redirected,
)
from spark_ordered_kafka.config import Connection
from spark_ordered_kafka.credentials import NO_CREDENTIALS, PREFIX, URL, ControllerCredentials
from spark_ordered_kafka.errors import ClosedError, ConfigError, UnavailableError
from spark_ordered_kafka.kafka.security import ssl_context

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
"""Header that names a request, so that a controller knows it again (draft-ietf-httpapi-idempotency-key-header)."""

TAKE_OVER: Final = 15.0
"""Seconds after which, by default settings, another controller leads for certain."""

_REPEATABLE = frozenset({"GET", "PUT"})
_READING = frozenset({"GET"})
_FIRST_BACKOFF, _LAST_BACKOFF = 0.1, 1.0
# Those after which a request is repeated as it was (RFC 9110, section 15.4).
_REDIRECTS = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_MOST_REDIRECTS = 3
# Seconds without an answer to what takes a controller milliseconds, after which others are asked first: this one may hang (D-492).
_SILENCE = 2.0
# Below uvicorn's 5 s, so that a request is not sent into a connection that the controller is closing.
_KEEPALIVE = 2.0
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


class _NoControllerError(UnavailableError):
    """None of the URLs gave a controller's answer, and asking again does no harm."""


class Transport:
    """Sends requests to one of several controllers. Safe to share between threads.

    Asks the URLs in turn, beginning with the one that answered last, and goes where they redirect to, which is to the leader.
    Another one is asked only if it is certain that nothing was done yet, if doing it twice is the same as once, or if
    controllers know the request again by its key (D-107).

    Args:
        urls: of the controllers, see :func:`parse_urls`.
        timeout: seconds for a controller to accept a connection, and then to answer.
        retry_for: seconds in which further rounds through all URLs begin while none answers; None: :data:`TAKE_OVER`
            with several controllers (several URLs, or a redirect), 0 with one.
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
        given = urls if isinstance(urls, str) else ",".join(urls)
        self.urls = tuple(parsing.urls(URL, given).split(","))
        _require_seconds("timeout", timeout, timeout > 0.0)
        if retry_for is not None:
            _require_seconds("retry_for", retry_for, retry_for >= 0.0)
        self._timeout = timeout
        self._retry_for = retry_for
        self._has_several = len(self.urls) > 1
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

    @property
    def asker(self) -> tuple[tuple[str, ...], ControllerCredentials]:
        """Which controllers are asked, and as whom."""
        return self.urls, self._credentials

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
        is_quick: bool = False,
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
            is_quick: whether controllers answer at once: one that is silent is asked in earnest after the others only.

        Raises:
            UnavailableError: no controller answered, or it is not known whether it did what was asked.
            LayoutChangingError: a change of the topic is closing.
            ReviewPendingError: the request waits for a second principal.
            RequestError: the controller refused.
            ClosedError: after :meth:`close`.
        """
        requests = [self._request(method, url, path, params, body, extra_timeout, key) for url in self.urls]
        rounds = [requests]
        if is_quick and len(requests) > 1 and self._timeout > _SILENCE:
            rounds.insert(
                0, [replace(one, timeouts=dict.fromkeys(one.timeouts, _SILENCE)) for one in requests]
            )
        if repeatable is None:
            repeatable = method in _REPEATABLE
        retrying = Retrying(
            retry=retry_if_exception_type(_NoControllerError),
            wait=wait_random_exponential(multiplier=_FIRST_BACKOFF, max=_LAST_BACKOFF),
            stop=lambda state: stop_before_delay(self._patience(retry_for))(state),
            reraise=True,
        )
        what, doubts, may_repeat = f"{method} {path}", list[str](), repeatable or key is not None
        try:
            answer: _ParsedT = retrying(self._ask_in_turn, what, rounds, parse, topic, may_repeat, doubts)
        except _NoControllerError as error:
            if repeatable or not doubts:
                raise
            raise UnavailableError(
                f"{what} was sent to {doubts[0]}. It may have been carried out: look before asking for it again ({error})"
            ) from error
        return answer

    @contextmanager
    def through_take_overs(self) -> Iterator[None]:
        """Within the block questions are asked again as if ``retry_for`` was None. Not where threads share this transport."""
        own, self._retry_for = self._retry_for, None
        try:
            yield
        finally:
            self._retry_for = own

    def _patience(self, retry_for: float | None) -> float:
        """How long to ask again, by what is known of the controllers by now."""
        if retry_for is None:
            retry_for = self._retry_for
        if retry_for is None:
            return TAKE_OVER if self._has_several else 0.0
        return retry_for

    def _request(
        self,
        method: str,
        url: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        extra_timeout: float | None,
        key: str | None,
    ) -> Request:
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
        headers["host"] = host_header(found)
        return Request(method, url, found, target, body, headers, timeouts)

    def _ask_in_turn(
        self,
        what: str,
        rounds: Sequence[Sequence[Request]],
        parse: Callable[[bytes], _ParsedT],
        topic: str,
        may_repeat: bool,
        doubts: list[str],
    ) -> _ParsedT:
        """Ask each URL once in each round. Those that may have carried the request out without an answer are added to
        ``doubts``."""
        failures: dict[int, str] = {}
        refusals: dict[int, TlsError] = {}
        first = self._preferred
        for requests in rounds:
            for turn in range(len(requests)):
                index = (first + turn) % len(requests)
                try:
                    return self._answer(requests[index], parse, topic)
                except NoAnswerError as error:
                    failures[index] = f"{self.urls[index]} {error}"
                    if isinstance(error, TlsError):
                        refusals[index] = error
                    if error.in_doubt:
                        doubts.append(f"{self.urls[index]}, which {error}")
                    if error.in_doubt and not may_repeat:
                        raise UnavailableError(
                            f"{what} was sent to {self.urls[index]}, which {error}. It may have been carried out: look "
                            "before asking for it again"
                        ) from error
        if len(refusals) == len(failures):
            # None is away: asking again would not help.
            raise refusals[first].refusal from refusals[first]
        raise _NoControllerError(f"no controller answered {what}: {'; '.join(failures.values())}")

    def _answer(self, request: Request, parse: Callable[[bytes], _ParsedT], topic: str) -> _ParsedT:
        response = self._followed(request)
        if not response.is_success or response.status == HTTPStatus.ACCEPTED:
            refusal = error_of(response, topic, self._credentials)
            if not isinstance(refusal, NoAnswerError):
                self._prefer(response)
            raise refusal
        try:
            answer = parse(response.body)
        except ValueError as error:
            raise NoAnswerError(f"answered something that is not {error}", in_doubt=True) from error
        self._prefer(response)
        return answer

    def _prefer(self, response: Response) -> None:
        if response.request.base in self.urls:
            self._preferred = self.urls.index(response.request.base)

    def _followed(self, request: Request) -> Response:
        """The last response of as many redirects as are followed."""
        response = self._response(request)
        for _ in range(_MOST_REDIRECTS):
            if response.status not in _REDIRECTS:
                break
            self._has_several = True
            further = redirected(response)
            try:
                response = self._response(further)
            except TlsError:
                raise
            except NoAnswerError as error:
                raise NoAnswerError(
                    f"redirects to {further.base}, which {error}", in_doubt=error.in_doubt
                ) from error
        return response

    def _response(self, request: Request) -> Response:
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
                raise TlsError(untrusted) from error
            in_doubt = not isinstance(error, _NOT_SENT)
            raise NoAnswerError(f"failed: {error or type(error).__name__}", in_doubt=in_doubt) from error
        return Response(request, found.status, found.content, found.headers)


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


def _require_seconds(name: str, value: float, in_range: bool) -> None:
    if not in_range or not math.isfinite(value):
        raise ConfigError(name, value, "a number of seconds is needed")
