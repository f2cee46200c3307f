"""Tells another program of findings, proposals and outcomes: an HTTP POST of a small JSON document for each."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

import httpx2
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from spark_ordered_kafka.controller.monitoring.metrics import counters
from spark_ordered_kafka.controller.settings import WebhookSettings
from spark_ordered_kafka.errors import ConfigError

_log = logging.getLogger(__name__)
_QUEUED = 1000
_ATTEMPTS = 5
_FIRST_PAUSE = 1.0


class Webhook(Collector):
    """Sends in a thread of its own, one document after another, so that :meth:`send` never blocks.

    A document is tried five times, with pauses of 1, 2, 4 and 8 seconds; then, and where more than 1,000 wait, it is dropped,
    which the log and the metric say. Documents that wait are lost when the process ends. ``clock`` gives seconds since the epoch.
    """

    def __init__(self, settings: WebhookSettings, controller: str, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._controller = controller
        self._clock = clock
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(_QUEUED)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._outcomes: Counter[str] = Counter()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send, if there is a URL."""
        if self._settings.url is not None:
            self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """Send nothing more; waits at most ``timeout`` seconds for the request in progress."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def send(self, source: str, event: str, fields: Mapping[str, Any]) -> None:
        """Queue a document: ``source`` and ``event`` with further ``fields``, and what all documents have."""
        if self._settings.url is None:
            return
        document = {
            "version": 1,
            "id": uuid4().hex,
            "at": self._clock(),
            "controller": self._controller,
            "source": source,
            "event": event,
            **fields,
        }
        try:
            self._queue.put_nowait(document)
        except queue.Full:
            self._count("dropped")
            _log.warning("webhook: %d documents wait, so one is dropped: %s", _QUEUED, document)

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        with self._lock:
            outcomes = dict(self._outcomes)
        found = counters("webhook_documents", "Documents for the webhook, by what became of them.", "outcome")
        for outcome in ("sent", "failed", "dropped"):
            found.add_metric([outcome], outcomes.get(outcome, 0))
        yield found

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            client = httpx2.AsyncClient(timeout=self._settings.timeout)
            while not self._stop.is_set():
                try:
                    document = self._queue.get(timeout=0.5)
                except queue.Empty:
                    continue
                self._deliver(lambda found: runner.run(self._status(client, found)), document)
            runner.run(client.aclose())

    def _deliver(self, post: Callable[[Mapping[str, Any]], int], document: Mapping[str, Any]) -> None:
        pause, why = _FIRST_PAUSE, ""
        for attempt in range(_ATTEMPTS):
            if attempt > 0:
                if self._stop.wait(pause):
                    return
                pause *= 2
            try:
                status = post(document)
            except TimeoutError:
                why = f"no answer within {self._settings.timeout:g} s"
                continue
            except (httpx2.HTTPError, ConfigError, OSError) as error:
                why = f"{type(error).__name__}: {error}"
                continue
            except Exception:  # noqa: BLE001 - a bug, and the documents that wait must not suffer from it
                _log.exception("webhook: a document was not sent")
                break
            if httpx2.codes.is_success(status):
                self._count("sent")
                return
            why = f"status {status}"
        self._count("failed")
        _log.warning(
            "webhook: a document was not sent in %d attempts (%s): %s", _ATTEMPTS, why, dict(document)
        )

    async def _status(self, client: httpx2.AsyncClient, document: Mapping[str, Any]) -> int:
        """The status of the answer to a document. Raises TimeoutError."""
        # The client's own timeout is for each read, and a byte may come again and again.
        async with asyncio.timeout(self._settings.timeout):
            # What follows the status is not read: it might not end.
            request = client.stream("POST", str(self._settings.url), json=document, headers=self._headers())
            async with request as answer:
                return answer.status_code

    def _headers(self) -> dict[str, str]:
        """Read each time, so that a token may be replaced."""
        token = self._settings.token()
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _count(self, outcome: str) -> None:
        with self._lock:
            self._outcomes[outcome] += 1
