"""A controller that answers as many questions as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2

from spark_ordered_kafka.local import LocalCluster


class Gateway:
    """Passes questions on to the controller: the next ``left`` ones; to the others the connection is closed.

    While ``answers`` is not set, none is answered, and each that comes waits.
    """

    def __init__(self, controller: str) -> None:
        self.left = 0
        self.answers = threading.Event()
        self.answers.set()
        self._lock = threading.Lock()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on(None)

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

            def _pass_on(self, body: bytes | None) -> None:
                gateway.answers.wait()
                if not gateway.takes():
                    self.close_connection = True
                    return
                sent = {"content-type": self.headers.get("content-type", "application/json")}
                url = controller + self.path
                answer = httpx2.request(self.command, url, content=body, headers=sent, timeout=10)
                # Who waited too long has closed the connection.
                with suppress(BrokenPipeError):
                    self.send_response(answer.status_code)
                    self.send_header("Content-Length", str(len(answer.content)))
                    self.end_headers()
                    self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def takes(self) -> bool:
        """Whether one more question is passed on."""
        with self._lock:
            self.left -= 1
            return self.left >= 0


@contextmanager
def gateway_to(cluster: LocalCluster) -> Iterator[Gateway]:
    """A gateway to the cluster's controller."""
    gateway = Gateway(cluster.controller_url)
    thread = threading.Thread(target=gateway.server.serve_forever)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.answers.set()
        gateway.server.shutdown()
        gateway.server.server_close()
        thread.join()
