"""Who receives what a controller tells by webhook."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import TIMEOUT


class Receiver:
    """A webhook's receiver; the first request of all is answered by 503."""

    def __init__(self) -> None:
        self.documents: list[Any] = []
        self.tokens: set[str | None] = set()
        self.requests = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests += 1
                receiver.tokens.add(self.headers["authorization"])
                if receiver.requests > 1:
                    receiver.documents.append(json.loads(body))
                self.send_response(503 if receiver.requests == 1 else 204)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Receiver:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(TIMEOUT)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook?key=secret"
