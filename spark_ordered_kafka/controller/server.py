"""The HTTP server of a controller process."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any

import uvicorn

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.connections import raise_file_limit
from spark_ordered_kafka.controller.api.peers import PeerProtocol
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import TlsSettings
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.security import load_authorities, load_own
from spark_ordered_kafka.parsing import is_loopback

_log = logging.getLogger(__name__)
_GRACE = 5  # seconds for requests in progress when the process stops
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def bind(host: str, port: int) -> socket.socket:
    """A socket bound before anything else starts, so that a port in use fails early. Raises ConfigError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError("host and port", f"{host}:{port}", f"cannot listen there: {error}") from error
    return listener


def serve(service: ControllerService, listener: socket.socket) -> None:
    """Answer requests on ``listener`` until SIGTERM or SIGINT.

    Then no change begins a further step, the service stops, so that another one leads, and the signal has its default
    effect.
    """
    address = listener.getsockname()[0]
    if service.settings.tls is None and service.settings.authentication.required and not is_loopback(address):
        _log.warning("passwords and tokens reach this controller unencrypted: set ssl.certificate.location")
    PeerProtocol.max_connections = raise_file_limit()
    _Server(server_config(service), service).run(sockets=[listener])


def server_config(service: ControllerService) -> uvicorn.Config:
    """The server's limits and timeouts for requests to ``service``."""
    return uvicorn.Config(
        create_app(service),
        http=PeerProtocol,
        log_config=None,
        access_log=False,
        # Otherwise a local client could forge its address by X-Forwarded-For; rights and limits on failed logins are by
        # address (D-155).
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        **_tls_options(service.settings.tls),
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: ControllerService) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called a tenth of a second after the signal; waits for requests in progress."""
        self._service.begin_stop()
        await super().shutdown(sockets)
        # Here, since uvicorn raises the signal again at its end, and SIGTERM ends the process.
        await asyncio.get_running_loop().run_in_executor(None, self._service.stop)


def check_tls(tls: TlsSettings | None) -> None:
    """Raises ConfigError naming the key whose file cannot be used."""
    if tls is not None:
        _context(tls)


def _context(tls: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    load_own(context, tls.certificate_location, tls.key_location, tls.key_password, "")
    if tls.ca_location is not None:
        load_authorities(context, tls.ca_location, "")
    return context


def _tls_options(tls: TlsSettings | None) -> dict[str, Any]:
    return {} if tls is None else {"ssl_context_factory": lambda _, __: _context(tls)}
