"""Requests that a web page may have sent: by a name it has taken over, or from another site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_ordered_kafka.controller.api.http.errors import answer_with
from spark_ordered_kafka.controller.api.http.routing import READING_METHODS
from spark_ordered_kafka.controller.settings import ALLOWED_HOSTS
from spark_ordered_kafka.errors import RequestError, invalid_request
from spark_ordered_kafka.parsing import is_loopback, url_parts

# RFC 9110, section 7.2; an IPv6 address is in brackets.
_AUTHORITY: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{0,5}))?")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_ALLOWED_SITES: Final = frozenset({"same-origin", "none"})
"""``Sec-Fetch-Site`` of requests by the user, and by pages of this controller."""
_SHOWN = 100


class Origins:
    """ASGI middleware: refuses requests that a page of another site makes a browser send (D-156).

    After DNS rebinding a page has the controller's origin for the browser, but sends its own name in ``Host``. So requests
    need one of the controller's names, or the address that they came to. Requests other than reads must not come from a page
    of another origin, with any ``Content-Type``.

    Args:
        url: the controller's own.
        allowed_hosts: further names of the controller.
    """

    def __init__(self, app: ASGIApp, url: str, allowed_hosts: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(map(host_name, (url_parts(url)[1], *allowed_hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called per request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            unknown = self._unknown_host(headers, scope)
            if unknown is not None:
                await answer_with(unknown, HTTPStatus.MISDIRECTED_REQUEST)(scope, receive, send)
                return
            foreign = None if scope["method"] in READING_METHODS else _foreign_page(headers, scope["scheme"])
            if foreign is not None:
                await answer_with(foreign, HTTPStatus.FORBIDDEN)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _unknown_host(self, headers: Headers, scope: Scope) -> RequestError | None:
        given = headers.getlist("host")
        if len(given) != 1:
            return invalid_request(f"the header Host is there {len(given)} times, not once")
        found = _AUTHORITY.fullmatch(given[0])
        if found is not None:
            name = host_name(found["name"])
            if name in self._names or is_loopback(name) or name == _own_address(scope):
                return None
        return invalid_request(
            f"the header Host has the value {given[0][:_SHOWN]!r}, which is not a name of this controller: "
            f"names other than that in advertised.url must be among {ALLOWED_HOSTS} of its configuration"
        )


def host_name(host: str) -> str:
    """A name or address in normal form for comparison: lower case, without brackets, zone and final dot."""
    plain = host.strip("[]").partition("%")[0].lower()
    try:
        address = ip_address(plain)
    except ValueError:
        return plain.removesuffix(".")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address if mapped is None else mapped)


def _own_address(scope: Scope) -> str | None:
    """The address that the connection came to: only this controller serves pages there."""
    server = scope.get("server")
    return None if server is None else host_name(server[0])


def _foreign_page(headers: Headers, scheme: str) -> RequestError | None:
    """The refusal of a browser's request for a page of another origin, by either header."""
    for origin in headers.getlist("origin"):
        if not _is_same(origin, headers["host"], scheme):
            return invalid_request(
                f"the header Origin has the value {origin[:_SHOWN]!r}: pages of other sites cannot ask for this"
            )
    for site in headers.getlist("sec-fetch-site"):
        if site.lower() not in _ALLOWED_SITES:
            return invalid_request(
                f"the header Sec-Fetch-Site has the value {site[:_SHOWN]!r}: pages of other sites cannot ask for this"
            )
    return None


def _is_same(origin: str, host: str, scheme: str) -> bool:
    """Whether ``origin`` is that of a page at ``host``. A server without TLS may be behind a proxy with it."""
    try:
        parts = urlsplit(origin)
    except ValueError:  # of an IPv6 address
        return False
    if parts.scheme not in _DEFAULT_PORTS or (scheme == "https" and parts.scheme == "http"):
        return False
    authority = _host_and_port(parts.netloc, parts.scheme)
    return authority is not None and authority == _host_and_port(host, parts.scheme)


def _host_and_port(authority: str, scheme: str) -> tuple[str, str] | None:
    found = _AUTHORITY.fullmatch(authority)
    return None if found is None else (host_name(found["name"]), found["port"] or _DEFAULT_PORTS[scheme])
