"""Which requests a web page may have sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spark_ordered_kafka.controller.api.middleware.origins import Origins
from spark_ordered_kafka.controller.settings import ALLOWED_HOSTS

URL = "https://controller-1.example.com:8090"
SERVER = ("10.1.2.3", 8090)


def asked(
    method: str, *headers: tuple[str, str], scheme: str = "http", server: Any = SERVER
) -> tuple[int, str]:
    """Status and message of the answer; 200: the request came through."""
    answered: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message: Any) -> None:
        answered.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": method, "scheme": scheme, "server": server, "headers": raw}
    asyncio.run(Origins(app, URL, ("lb.example.com", "fd00::8"))(scope, receive, send))
    body = json.loads(answered[1]["body"])
    return answered[0]["status"], body.get("error_message", "")


@pytest.mark.parametrize(
    "host",
    [
        *("controller-1.example.com", "controller-1.example.com:8090", "CONTROLLER-1.Example.COM.:1"),
        *("lb.example.com", "lb.example.com:443", "lb.example.com:", "[fd00::8]", "[FD00:0::8]:8090"),
        *("localhost", "LocalHost:8090", "localhost.", "127.0.0.1", "127.8.8.8:80", "[::1]", "[::1]:8090"),
        *("[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]:8090", "10.1.2.3", "10.1.2.3:30090", "[::ffff:10.1.2.3]"),
    ],
)  # fmt: skip
def test_the_controller_is_asked_by_its_names(host: str) -> None:
    for method in ("GET", "POST"):
        assert asked(method, ("Host", host)) == (200, "")


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8090", "EVIL.EXAMPLE.", "localhost.evil.example", "127.0.0.1.nip.io"),
        *("controller-1.example.com.evil.example", "evil-lb.example.com", "lb.example.com..", "10.1.2.4"),
        *("", " ", ":8090", "localhost@evil.example", "evil.example@localhost", "localhost:8090:1", "localhost:x"),
        *("localhost, evil.example", "localhost/evil", "[::2]", "[::1", "::1", "[localhost]", "127.1", "0x7f000001"),
        *("2130706433", "locälhost", "localhost\tevil", "localhost:999999"),
    ],
)  # fmt: skip
def test_no_other_name_is_answered(host: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        status, message = asked(method, ("Host", host))
        assert (status, ALLOWED_HOSTS in message, repr(host) in message) == (421, True, True)


def test_a_host_is_said_once() -> None:
    for headers in (
        [],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Host", "evil"), ("Host", "localhost")],
    ):
        assert asked("GET", *headers)[0] == 421


def test_the_address_that_a_request_comes_to_is_its_own_also_by_ipv6() -> None:
    for address, host in (
        ("fe80::1%eth0", "[fe80::1]"),
        ("::ffff:10.9.9.9", "10.9.9.9:8090"),
        ("fd00::1", "[fd00:0::1]"),
    ):
        assert asked("GET", ("Host", host), server=(address, 8090))[0] == 200
        assert asked("GET", ("Host", host), server=("10.1.2.3", 8090))[0] == 421
        assert asked("GET", ("Host", host), server=None)[0] == 421


@pytest.mark.parametrize(
    ("host", "origin", "scheme"),
    [
        ("localhost:8090", "http://localhost:8090", "http"),
        ("LOCALHOST:8090", "http://localhost:8090", "http"),
        ("lb.example.com", "https://lb.example.com", "http"),
        ("lb.example.com:443", "https://lb.example.com", "https"),
        ("lb.example.com", "http://lb.example.com:80", "http"),
        ("[::1]:8090", "http://[::1]:8090", "http"),
    ],
)
def test_pages_of_its_own_may_ask(host: str, origin: str, scheme: str) -> None:
    for site in ("same-origin", "none"):
        headers = [("Host", host), ("Origin", origin), ("Sec-Fetch-Site", site)]
        assert asked("POST", *headers, scheme=scheme) == (200, "")


@pytest.mark.parametrize(
    ("origin", "scheme"),
    [
        *(("null", "http"), ("https://evil.example", "http"), ("http://evil.example:8090", "http"), ("", "http")),
        *(("http://localhost:3000", "http"), ("http://127.0.0.1:8090", "http"), ("http://localhost", "http")),
        *(("http://localhost:8090", "https"), ("file://", "http"), ("chrome-extension://localhost:8090", "http")),
        *(("http://localhost:8090.evil.example", "http"), ("http://[::1", "http")),
        *(("http://localhost:8090@evil.example", "http"), ("http://u@localhost:8090", "http")),
    ],
)  # fmt: skip
def test_pages_of_other_origins_change_nothing(origin: str, scheme: str) -> None:
    headers = [("Host", "localhost:8090"), ("Origin", origin)]
    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        status, message = asked(method, *headers, scheme=scheme)
        assert (status, message.startswith(f"the header Origin has the value {origin!r}")) == (403, True)
    assert asked("GET", *headers, scheme=scheme)[0] == 200
    both = [*headers, ("Origin", "http://localhost:8090")]
    assert asked("POST", *both, scheme=scheme)[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "", "same-origin, none"])
def test_what_a_browser_says_of_the_site_counts_without_an_origin(site: str) -> None:
    status, message = asked("DELETE", ("Host", "localhost:8090"), ("Sec-Fetch-Site", site))
    assert (status, "Sec-Fetch-Site" in message) == (403, True)
    assert asked("GET", ("Host", "localhost:8090"), ("Sec-Fetch-Site", site))[0] == 200
