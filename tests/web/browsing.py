"""A browser at the web page: what it shows, and what it must never do."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.peers import PeerProtocol
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.local import LocalCluster
from tests.servers import TIMEOUT, await_true, commit_offsets

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
VIEWS = ("", "topics", "reassignments", "brokers", "groups", "controllers", "healing", "reviews", "audit")
DESKTOP, PHONE = (1280, 800), (390, 844)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_PATIENCE = 4 * TIMEOUT
_KEEP_TOASTS = """
window.toasts = [];
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("toast");
  const keep = () => { if (place.textContent !== "") window.toasts.push(place.textContent); };
  new MutationObserver(keep).observe(place, { childList: true, characterData: true, subtree: true });
});
"""
_TAKE_TOAST = """text => {
  const at = window.toasts.findIndex((one) => one.includes(text));
  return at >= 0 && window.toasts.splice(at, 1).length > 0;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium or Chrome of this machine; ``make chromium`` installs one."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    assert path is not None, f"none of {', '.join(_NAMES)} is on the PATH: make chromium"
    # Chromium has no sandbox for root.
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=args, timeout=_PATIENCE * 1000)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A tab at the page of a controller."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self._asked: set[Request] = set()
        page.set_default_timeout(_PATIENCE * 1000)
        page.add_init_script(_KEEP_TOASTS)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._on_console)
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_end)
        page.on("requestfailed", self._on_end)

    def open(self, view: str = "") -> None:
        """Load the page at a view, and wait until it is live."""
        self.page.goto(f"{self.url}/#/{view}")
        self.page.reload()
        self.page.locator("#connection.online").wait_for()

    def go(self, view: str) -> None:
        """Another view, as a link to it would."""
        self.page.goto(f"{self.url}/#/{view}")

    def hide(self) -> None:
        """From now on the views are as old as in a tab that is not shown."""
        self.page.evaluate("() => Object.defineProperty(document, 'hidden', { get: () => true })")

        def is_quiet() -> bool:
            self.page.wait_for_timeout(20)  # events are told meanwhile
            return not self._asked

        # What had been asked for before would still be shown.
        await_true(is_quiet, "the last answer to the views", _PATIENCE)

    def text(self, selector: str = "main") -> str:
        """What is shown in an element."""
        return self.page.locator(selector).inner_text()

    def await_text(self, text: str, selector: str = "main") -> None:
        """Wait until an element shows a text."""
        self.page.locator(selector).filter(has_text=text).first.wait_for()

    def await_toast(self, text: str) -> None:
        """Wait until the page has said this, at the bottom and for a few seconds; it may be over. Each counts once."""
        self.page.wait_for_function(_TAKE_TOAST, arg=text)

    def button(self, name: str) -> Any:
        """The button with exactly this text."""
        return self.page.get_by_role("button", name=name, exact=True)

    def field(self, label: str) -> Any:
        """The text field with this label in the open dialog."""
        return self.page.locator("dialog").get_by_role("textbox", name=label)

    def preview(self) -> None:
        """Ask for the preview of a dialog, and wait for it."""
        self.button("Preview").click()
        self.page.locator("dialog .preview .plan").wait_for()

    def picture(self, name: str) -> None:
        """Keep a screenshot in build/screenshots."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def violations(self) -> list[str]:
        """What axe-core finds wrong with what is shown, by WCAG 2.2 AA."""
        self.page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
        options = json.dumps({"runOnly": {"type": "tag", "values": _WCAG}})
        found = self.page.evaluate(f"() => axe.run(document, {options})")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def overflow(self) -> int:
        """Pixels that the page is wider than its window."""
        width: int = self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return width

    def _on_console(self, message: ConsoleMessage) -> None:
        # The browser logs each answer that is an error, and each connection that is refused; the page shows them.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(f"{self.url}/"):
            self.problems.append(f"loaded from elsewhere: {request.url}")
        # The stream of events does not end.
        if not request.url.endswith("/v1/events"):
            self._asked.add(request)

    def _on_end(self, request: Request) -> None:
        self._asked.discard(request)


class Browsing:
    """Opens tabs, each with storage of its own; at its end no tab may have had a problem."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._stack = ExitStack()
        self._visits: list[Visit] = []

    def visit(
        self,
        url: str,
        view: str = "",
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        live: bool = True,
        certificate: tuple[Path, Path] | None = None,
    ) -> Visit:
        """A new tab. ``live``: wait until it follows the events; ``certificate``: the browser's own, and its key."""
        own: list[Any] = []
        if certificate is not None:
            own.append({"origin": url, "certPath": certificate[0], "keyPath": certificate[1]})
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            # Test servers have an authority of their own.
            ignore_https_errors=True,
            client_certificates=own,
        )
        self._stack.callback(context.close)
        visit = Visit(context.new_page(), url)
        self._visits.append(visit)
        if live:
            visit.open(view)
        else:
            visit.go(view)
        return visit

    def close(self) -> None:
        """Close all tabs; fails for what one of them should not have done."""
        self._stack.close()
        problems = [problem for visit in self._visits for problem in visit.problems]
        assert problems == []


class Server:
    """A controller's HTTP server that can be ended and started again at the same port, which stays its own meanwhile."""

    def __init__(self, service: ControllerService) -> None:
        self._service = service
        self._place = _bound(0)
        self._port: int = self._place.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Serve; returns when it does."""
        config = uvicorn.Config(
            create_app(self._service),
            log_level="error",
            http=PeerProtocol,
            # Open streams end at once.
            timeout_graceful_shutdown=0,
        )
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=server.run, args=([_bound(self._port)],), daemon=True)
        self._thread.start()
        await_true(lambda: server.started, "the server starts")

    def end(self) -> None:
        """End it, and with it all connections."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(TIMEOUT)
            assert not self._thread.is_alive()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._place.close()


def _bound(port: int) -> socket.socket:
    """A socket at a port, beside others of this function. One that does not listen refuses connections, and keeps others away."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def starts_with_number(text: str) -> int:
    """The number that a text begins with."""
    found = re.match(r"[0-9,]+", text)
    assert found is not None, text
    return int(found.group().replace(",", ""))


def commit(cluster: LocalCluster, group: str, topic: str, offset: int = 0) -> None:
    """A group's offset of the first partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        commit_offsets(consumer, [TopicPartition(topic, 0, offset)])
    finally:
        consumer.close()


def open_group(visit: Visit, group: str) -> None:
    """By its link; of many groups, such as other tests may have left, only some are in the document."""
    visit.page.get_by_label("Filter groups by name").fill(group)
    visit.page.get_by_role("link", name=group).click()
