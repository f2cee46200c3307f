"""Limits of connections' time and number; uvicorn limits only the time between requests."""

from __future__ import annotations

import asyncio
import logging
import resource
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from spark_ordered_kafka.controller.api.http.errors import answer_with
from spark_ordered_kafka.errors import invalid_request

_log = logging.getLogger(__name__)
_MAX_CONNECTIONS = 5000
_RESERVED_FILES = 500
"""File descriptors for Kafka, ZooKeeper, followers' requests and files."""


class BoundedProtocol(H11Protocol):
    """Closes a connection whose client takes too long to send a request or to receive an answer, or when there are too
    many connections (D-147).

    Attributes:
        request_deadline: seconds from the connection, or from the first byte of a later request, to the last byte of the
            request.
        answer_deadline: seconds for the rest of an answer once the client's buffers are full.
        max_connections: maximum number of connections.
    """

    request_deadline: ClassVar[float] = 30.0
    answer_deadline: ClassVar[float] = 60.0
    max_connections: ClassVar[int] = _MAX_CONNECTIONS

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._request_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called when a client has connected, with TLS after the handshake."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.abort()
            return
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when it is closed, by either side."""
        super().connection_lost(exc)
        for timer in (self._request_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Called with what the client has sent."""
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """Called when an answer is being sent."""
        super().on_response_complete()
        self._watch_request()

    def pause_writing(self) -> None:
        """Called when the client does not receive its answer fast enough."""
        super().pause_writing()
        self._answer_timer = self.loop.call_later(self.answer_deadline, self.transport.abort)

    def resume_writing(self) -> None:
        """Called when it has received nearly all of it."""
        super().resume_writing()
        if self._answer_timer is not None:
            self._answer_timer.cancel()

    def _watch_request(self) -> None:
        if self._is_request_awaited():
            if self._request_timer is None:
                self._request_timer = self.loop.call_later(self.request_deadline, self._end)
        elif self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _is_request_awaited(self) -> bool:
        """Whether a request is incomplete, or the first one has not begun."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return True
        return state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))

    def _end(self) -> None:
        if self.transport.is_closing():
            return
        begun = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        unanswered = self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        if begun and unanswered:
            self._answer_timeout()
        if self.cycle is not None:  # which must not answer any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _answer_timeout(self) -> None:
        late = invalid_request(f"the request was not there as a whole after {self.request_deadline:g} s")
        answer = answer_with(late, HTTPStatus.REQUEST_TIMEOUT, {"Connection": "close"})
        _log.info("%s, sent from %s", late, self.client)
        for event in (
            h11.Response(
                status_code=answer.status_code, headers=answer.raw_headers, reason=b"Request Timeout"
            ),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))


def raise_file_limit() -> int:
    """Raise this process's limit of open files to the maximum; returns how many may be clients' connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return (
        _MAX_CONNECTIONS
        if soft == resource.RLIM_INFINITY
        else min(_MAX_CONNECTIONS, max(soft - _RESERVED_FILES, soft // 2))
    )
