"""The HTTP server of a controller process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl

import uvicorn

from spark_ordered_kafka.controller.api import create_app
from spark_ordered_kafka.controller.api.connections import raise_file_limit
from spark_ordered_kafka.controller.api.peers import PeerProtocol
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.controller.settings import TlsSettings
from spark_ordered_kafka.errors import ConfigError
from spark_ordered_kafka.kafka.security import load_authorities, load_own
from spark_ordered_kafka.parsing import host_port, is_loopback

_log = logging.getLogger(__name__)
# Ticks of uvicorn, ten a second, between two looks at the certificate: a minute.
_RENEWAL_TICKS = 600
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
        raise ConfigError("host and port", host_port(host, port), f"cannot listen there: {error}") from error
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
    certificate = None if service.settings.tls is None else Certificate(service.settings.tls)
    _Server(server_config(service, certificate), service, certificate).run(sockets=[listener])


def server_config(service: ControllerService, certificate: Certificate | None = None) -> uvicorn.Config:
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
        ssl_context_factory=None if certificate is None else certificate.for_uvicorn,
    )


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, service: ControllerService, certificate: Certificate | None
    ) -> None:
        super().__init__(config)
        self._service = service
        self._certificate = certificate

    async def on_tick(self, counter: int) -> bool:
        """Called about ten times a second, in the thread that makes connections."""
        if self._certificate is not None and counter % _RENEWAL_TICKS == 0:
            self._certificate.renew()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called a tenth of a second after the signal; waits for requests in progress."""
        self._service.begin_stop()
        await super().shutdown(sockets)
        # Here, since uvicorn raises the signal again at its end, and SIGTERM ends the process.
        await asyncio.get_running_loop().run_in_executor(None, self._service.stop)


class Certificate:
    """The server's own certificate and key, and those that replace them: they are often renewed in place (D-373).

    For one thread. Authorities of clients are read at the start alone. Raises ConfigError as :func:`check_tls`.
    """

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._marks = self._current()
        self.context = _context(tls)

    def for_uvicorn(self, *_: object) -> ssl.SSLContext:
        """The context, which uvicorn asks for once."""
        return self.context

    def renew(self) -> None:
        """Show new connections what is in the files now; while that does not fit together, the former ones."""
        marks = self._current()
        if marks == self._marks:
            return
        self._marks = marks
        tls = self._tls
        try:
            _context(tls)  # a pair that does not fit must not reach the one in use
            load_own(self.context, tls.certificate_location, tls.key_location, tls.key_password, "")
        except ConfigError as error:
            _log.error("the certificate of before is shown: %s", error)
        else:
            _log.info("ssl.certificate.location: %s was read again", tls.certificate_location)

    def _current(self) -> list[tuple[int, int, int] | None]:
        """What changes with the files; None for one that cannot be found."""
        found: list[tuple[int, int, int] | None] = []
        for path in (self._tls.certificate_location, self._tls.key_location):
            try:
                status = os.stat(path)
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return found


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
