"""Connections to ZooKeeper: TLS, SASL, and why one cannot be opened."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import AuthFailedError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk.protection import acls, protect
from spark_ordered_kafka.controller.zk.requests import MECHANISM, PREFIX, Deadline, translated
from spark_ordered_kafka.errors import ConfigError, OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.security import certificate_refusal, is_other_host, speaks_tls, ssl_context
from spark_ordered_kafka.parsing import host_port

_CLOSED = (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
_PROBE_SECONDS = 2.0


def client_of(settings: ZooKeeperSettings, **options: Any) -> KazooClient:
    """A client that is not connected yet, for :func:`connect`. ``options`` are further ones of KazooClient.

    Everything it creates, including by kazoo's recipes, gets the ACL of the settings' user.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    sasl, digest = settings.sasl_username, settings.digest_username
    options.setdefault("connection_retry", KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=1.0))
    return KazooClient(
        hosts=settings.connect,
        timeout=settings.session_timeout,
        handler=_Handler(tls_context(settings)),
        use_ssl=settings.ssl_enabled,
        default_acl=acls(settings) or None,
        auth_data=None if digest is None else [("digest", f"{digest}:{settings.digest_password}")],
        sasl_options=None
        if sasl is None
        else {"mechanism": MECHANISM, "username": sasl, "password": settings.sasl_password},
        **options,
    )


def connect(client: KazooClient, settings: ZooKeeperSettings, root: str, timeout: float) -> None:
    """Open the session of a client made by :func:`client_of`, and give ``root`` to its user; close it on error.

    Args:
        timeout: seconds.

    Raises:
        ConfigError: the server's certificate is not trusted, it requires another one of ours, or any.
        RequestError: SASL_AUTHENTICATION_FAILED, or the tree belongs to another user.
        UnavailableError: no answer in time.
    """
    deadline = time.monotonic() + timeout
    try:
        _start(client, settings, root, deadline, timeout)
        _create_chroot(client, Deadline(settings, deadline))
        protect(client, settings, root, Deadline(settings, deadline))
    except BaseException:
        client.stop()
        client.close()
        raise


def reconnect(client: KazooClient, settings: ZooKeeperSettings, root: str, timeout: float) -> None:
    """Open a session if there is none: kazoo has not begun, or has given up.

    It gives up after a failed SASL authentication, also when only the connection broke during it.
    """
    if client.client_state in _CLOSED:
        client.stop()
        connect(client, settings, root, timeout)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo is not typed
    """Kazoo's threads; TLS connections trust only the given authority, and keep the reason of a failure (D-151).

    ``failure`` is why the last connection could not be opened; ``changed`` is set with it, and by :func:`_start`.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context
        self.failure: OSError | None = None
        self.changed = threading.Event()

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        try:
            return self._open(address, hostname, timeout)
        except OSError as error:
            self.failure = error
            self.changed.set()
            raise

    def alert(self, address: tuple[str, int]) -> OSError | None:
        """The server's alert about this side's certificate; TLS 1.3 sends it after the handshake (D-153)."""
        if self._context is None:
            return None
        try:
            with self._open(address, address[0], _PROBE_SECONDS) as connection:
                # ZooKeeper sends nothing before a request.
                connection.recv(1)
        except OSError as error:
            return error
        return None

    def _open(self, address: tuple[str, int], hostname: str, timeout: float) -> socket.socket:
        opened = socket.create_connection(address, timeout)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return opened
        try:
            return self._context.wrap_socket(opened, server_hostname=hostname)
        except OSError:
            opened.close()
            raise


def tls_context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    if not settings.ssl_enabled:
        return None
    files = {
        "ssl.ca.location": settings.ssl_ca_location,
        "ssl.certificate.location": settings.ssl_certificate_location,
        "ssl.key.location": settings.ssl_key_location,
        "ssl.key.password": settings.ssl_key_password,
    }
    return ssl_context({name: value for name, value in files.items() if value is not None}, PREFIX)


def _start(
    client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: float, timeout: float
) -> None:
    handler: _Handler = client.handler
    handler.failure = None
    rejected = threading.Event()

    def on_state(_: KazooState) -> None:
        # Kazoo is "connected" before it authenticates.
        if client.client_state == KeeperState.AUTH_FAILED:
            rejected.set()
        handler.changed.set()

    client.add_listener(on_state)
    try:
        # Stopped after giving up, kazoo keeps the request to close a session, and would close the next one with it.
        client._queue.clear()
        client.start_async()
        diagnose_at: float | None = time.monotonic() + _PROBE_SECONDS
        while not client.connected:
            until = deadline if diagnose_at is None else min(diagnose_at, deadline)
            handler.changed.wait(max(0.0, until - time.monotonic()))
            handler.changed.clear()
            if diagnose_at is not None and time.monotonic() >= diagnose_at and not client.connected:
                _diagnose(client, settings)
                diagnose_at = None
            if rejected.is_set():
                raise translated(AuthFailedError(), settings, root)
            refused = _refusal(handler.failure, settings)
            if refused is not None:
                raise refused from handler.failure
            if time.monotonic() >= deadline:
                reason = "" if handler.failure is None else f" ({handler.failure})"
                raise UnavailableError(
                    f"ZooKeeper at {settings.connect} did not answer within {timeout:g} s{reason}"
                ) from handler.failure
    finally:
        client.remove_listener(on_state)


def _diagnose(client: KazooClient, settings: ZooKeeperSettings) -> None:
    """Raises the reason why a port accepts connections but opens no session."""
    name = f"{PREFIX}ssl.enabled"
    for host, port in client.hosts:
        server = host_port(host, port)
        if not settings.ssl_enabled and speaks_tls(host, port):
            raise ConfigError(name, False, f"the server at {server} speaks TLS; it must be true")
        if isinstance(client.handler.failure, ssl.SSLEOFError) and _gives_session(server):
            raise ConfigError(name, True, f"the server at {server} speaks no TLS; it must be false")
        refused = _refusal(client.handler.alert((host, port)), settings)
        if refused is not None:
            raise refused


def _gives_session(server: str) -> bool:
    """Whether a server opens a session for a client without TLS."""
    client = KazooClient(server)
    try:
        return bool(client.start_async().wait(_PROBE_SECONDS))
    finally:
        client.stop()
        client.close()


def _refusal(failure: OSError | None, settings: ZooKeeperSettings) -> OrderedKafkaError | None:
    if not isinstance(failure, ssl.SSLError):
        return None
    if is_other_host(failure):
        hint = f"{failure.verify_message}; connect by a name in the server's certificate"
        return ConfigError(f"{PREFIX}connect", settings.connect, hint)
    return certificate_refusal(failure, PREFIX, settings.ssl_ca_location, settings.ssl_certificate_location)


def _create_chroot(client: KazooClient, deadline: Deadline) -> None:
    """Create the path behind the servers in the connect string, as Kafka does; kazoo creates its last part alone."""
    chroot = client.chroot
    if not chroot or deadline.result(client.exists_async("/"), chroot) is not None:
        return
    client.chroot = ""
    try:
        deadline.result(client.ensure_path_async(chroot), chroot)
    finally:
        client.chroot = chroot
