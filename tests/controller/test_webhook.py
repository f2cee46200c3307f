"""The webhook's sender, before a receiver of its own."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spark_ordered_kafka.controller.config import controller_config
from spark_ordered_kafka.controller.monitoring.webhook import Webhook
from spark_ordered_kafka.controller.settings import WebhookSettings
from spark_ordered_kafka.errors import ConfigError
from tests.servers import TIMEOUT, await_true


def outcomes(webhook: Webhook) -> dict[str, float]:
    (family,) = webhook.collect()
    return {sample.labels["outcome"]: sample.value for sample in family.samples if sample.value}


@contextmanager
def endless(head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Iterator[str]:
    """The URL of a receiver whose answers do not end after ``head``."""
    done = threading.Event()

    def answer(taken: socket.socket) -> None:
        with closing(taken):
            taken.recv(65536)
            taken.sendall(head)
            try:
                while not done.wait(0.05):
                    taken.sendall(b": still here\n")
            except OSError:
                return

    def serve() -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(taken,), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/events"
        done.set()
        listening.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_does_not_end_holds_no_document_back() -> None:
    with endless() as url:
        webhook = Webhook(WebhookSettings(url), "http://c", lambda: 0.0)
        webhook.start()
        for number in range(3):
            webhook.send("healing", "finding", {"number": number})
        try:
            await_true(lambda: outcomes(webhook) == {"sent": 3}, "three documents are sent")
        finally:
            webhook.stop(TIMEOUT)


def test_an_answer_that_comes_byte_by_byte_holds_no_document_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_ordered_kafka.controller.monitoring.webhook._FIRST_PAUSE", 0.0)
    with endless(b"HTTP/1.1 200 OK\r\nX-Header: ") as url, caplog.at_level(logging.INFO):
        webhook = Webhook(WebhookSettings(url, timeout=0.3), "http://c", lambda: 0.0)
        webhook.start()
        for number in range(2):
            webhook.send("healing", "finding", {"number": number})
        try:
            await_true(lambda: outcomes(webhook) == {"failed": 2}, "both documents are given up")
        finally:
            webhook.stop(TIMEOUT)
    assert "no answer within 0.3 s" in caplog.text


@pytest.mark.parametrize("token", ["hidden1\nhidden2", "hidden\x00", "hidden-é", " \n"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(
    token: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text(token, encoding="utf-8")
    needed = {"kafka.bootstrap.servers": "k:1", "zookeeper.connect": "z:1", "webhook.url": "http://h/"}
    with pytest.raises(ConfigError, match=r"webhook\.token\.file has the value .*one line with the token"):
        controller_config(needed | {"webhook.token.file": str(path)}, default_host="h")
    # As after a start with another one.
    monkeypatch.setattr("spark_ordered_kafka.controller.monitoring.webhook._FIRST_PAUSE", 0.0)
    with endless() as url, caplog.at_level(logging.INFO):
        webhook = Webhook(WebhookSettings(url, str(path)), "http://c", lambda: 0.0)
        webhook.start()
        webhook.send("healing", "finding", {})
        try:
            await_true(lambda: outcomes(webhook) == {"failed": 1}, "the document is given up")
        finally:
            webhook.stop(TIMEOUT)
    assert "one line with the token" in caplog.text
    assert "hidden" not in caplog.text
