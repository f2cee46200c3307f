"""Connections to ZooKeeper: TLS, SASL, and ACLs that give access to the controllers' user alone."""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, make_acl, make_digest_acl

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.errors import (
    ConfigError,
    ErrorCode,
    OrderedKafkaError,
    RequestError,
    UnavailableError,
)
from spark_ordered_kafka.kafka.security import certificate_refusal, is_other_host, speaks_tls, ssl_context
from spark_ordered_kafka.parsing import host_port

_PREFIX = "zookeeper."
_MECHANISM = "DIGEST-MD5"
_CLOSED = (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
_PROBE_SECONDS = 2.0
_CHUNK = 1000
_ACL_MARK = "protected"

_log = logging.getLogger(__name__)


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
        else {"mechanism": _MECHANISM, "username": sasl, "password": settings.sasl_password},
        **options,
    )


def acls(settings: ZooKeeperSettings) -> list[ACL]:
    """All rights for each user that the settings name, none for others; empty without a user."""
    found = []
    if settings.sasl_username is not None:
        found.append(make_acl("sasl", settings.sasl_username, all=True))
    if settings.digest_username is not None and settings.digest_password is not None:
        found.append(make_digest_acl(settings.digest_username, settings.digest_password, all=True))
    return found


def connect(client: KazooClient, settings: ZooKeeperSettings, root: str, timeout: float) -> None:
    """Open the session of a client made by :func:`client_of`, and give ``root`` to its user; close it on error.

    Existing znodes get the ACL from the top down, each before its children are listed, so that others cannot add to the
    listed ones. A mark shows that all have it, and for which root (D-152).

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
        _create_chroot(client, _Deadline(settings, deadline))
        _protect(client, settings, root, _Deadline(settings, deadline))
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


class _Deadline:
    """Waits for answers until a deadline; its errors name the request."""

    def __init__(self, settings: ZooKeeperSettings, deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline

    def result(self, pending: Any, path: str) -> Any:
        """As :func:`result_of`."""
        return result_of(pending, self._settings, path, max(0.0, self._deadline - time.monotonic()))


def result_of(pending: Any, settings: ZooKeeperSettings, path: str, timeout: float) -> Any:
    """The result of an asynchronous request for ``path``.

    Raises NoNodeError, NodeExistsError and BadVersionError as they are, UnavailableError when there is no answer within
    ``timeout`` seconds, and RequestError when it is refused.
    """
    try:
        return pending.get(timeout=timeout)
    except (NoNodeError, NodeExistsError, BadVersionError):
        raise
    except KazooTimeoutError as error:
        raise UnavailableError(
            f"ZooKeeper at {settings.connect} did not answer for {path} within {timeout:g} s"
        ) from error
    except KazooException as error:
        raise translated(error, settings, path) from error


def translated(error: KazooException, settings: ZooKeeperSettings, path: str) -> OrderedKafkaError:
    """ZooKeeper's answer to a request for ``path`` as an error of this package."""
    servers = f"ZooKeeper at {settings.connect}"
    if isinstance(error, AuthFailedError):
        return RequestError(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"{_PREFIX}sasl.username has the value {settings.sasl_username!r}: {servers} refuses this user or "
            f"{_PREFIX}sasl.password by {_MECHANISM}",
        )
    if isinstance(error, NoAuthError):
        users = {"sasl": settings.sasl_username, "digest": settings.digest_username}
        given = {scheme: user for scheme, user in users.items() if user is not None}
        name = " or ".join(f"{_PREFIX}{scheme}.username" for scheme in given or users)
        shown = f"has the value {', '.join(map(repr, given.values()))}" if given else "is missing"
        return RequestError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{name} {shown}: znode {path} of {servers} belongs to another user or password",
        )
    if isinstance(error, InvalidACLError):
        return RequestError(
            ErrorCode.INVALID_CONFIG,
            f"{_PREFIX}sasl.username has the value {settings.sasl_username!r}: {servers} has not authenticated it; "
            "is SASL switched on there?",
        )
    return UnavailableError(f"{servers}: {error!r} for {path}")


def tls_context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    if not settings.ssl_enabled:
        return None
    files = {
        "ssl.ca.location": settings.ssl_ca_location,
        "ssl.certificate.location": settings.ssl_certificate_location,
        "ssl.key.location": settings.ssl_key_location,
        "ssl.key.password": settings.ssl_key_password,
    }
    return ssl_context({name: value for name, value in files.items() if value is not None}, _PREFIX)


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
    name = f"{_PREFIX}ssl.enabled"
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
        return ConfigError(f"{_PREFIX}connect", settings.connect, hint)
    return certificate_refusal(failure, _PREFIX, settings.ssl_ca_location, settings.ssl_certificate_location)


def _create_chroot(client: KazooClient, deadline: _Deadline) -> None:
    """Create the path behind the servers in the connect string, as Kafka does; kazoo creates its last part alone."""
    chroot = client.chroot
    if not chroot or deadline.result(client.exists_async("/"), chroot) is not None:
        return
    client.chroot = ""
    try:
        deadline.result(client.ensure_path_async(chroot), chroot)
    finally:
        client.chroot = chroot


def _protect(client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: _Deadline) -> None:
    wanted = acls(settings)
    with suppress(NoNodeError):
        # The first answer also shows that SASL has succeeded.
        deadline.result(client.get_async(root), root)
    while wanted and not _is_protected(client, settings, root, deadline):
        _log.info("giving %s, and the znodes below it, their ACL", root)
        _create_root(client, root, wanted, deadline)
        level = [root]
        while level:
            # Listed after they have their ACL, so that later znodes come from permitted users only.
            below = [
                f"{path}/{name}"
                for path, names in _each(level, client.get_children_async, deadline)
                for name in names
            ]
            for _ in _each(below, lambda path: client.set_acls_async(path, wanted), deadline):
                pass
            level = below
        # A znode in it keeps users with rights on its parent from replacing the root.
        _write_mark(client, settings, root, deadline)


def _create_root(client: KazooClient, root: str, wanted: Sequence[ACL], deadline: _Deadline) -> None:
    """Create the root, or give an existing one its ACL."""
    parent = root.rpartition("/")[0] or "/"
    try:
        deadline.result(client.ensure_path_async(parent), parent)
        deadline.result(client.create_async(root, b"", acl=wanted), root)
    except NodeExistsError:
        try:
            deadline.result(client.set_acls_async(root, wanted), root)
        except NoNodeError:
            _log.debug("%s was deleted: checking again", root)


def _is_protected(client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: _Deadline) -> bool:
    """Whether all existing znodes have their ACL, so that only their owners can have added any since.

    The root's ACL alone proves nothing: before the first controller, every user could have set it.
    """
    try:
        found, stat = deadline.result(client.get_acls_async(root), root)
        mark, _ = deadline.result(client.get_async(f"{root}/{_ACL_MARK}"), f"{root}/{_ACL_MARK}")
    except NoNodeError:
        return False
    return _same(found, acls(settings)) and hmac.compare_digest(mark, _mark(settings, stat.czxid))


def _write_mark(client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: _Deadline) -> None:
    path = f"{root}/{_ACL_MARK}"
    try:
        stat = deadline.result(client.exists_async(root), root)
        mark = _mark(settings, 0 if stat is None else stat.czxid)
        try:
            deadline.result(client.create_async(path, mark, acl=acls(settings)), path)
        except NodeExistsError:
            deadline.result(client.set_async(path, mark), path)
    except NoNodeError:
        _log.debug("%s was deleted: checking again", root)


def _mark(settings: ZooKeeperSettings, created: int) -> bytes:
    """A mark that only owners of the password can write, for the root created by the transaction ``created``."""
    password = settings.sasl_password or settings.digest_password or ""
    return hmac.new(password.encode(), f"{_ACL_MARK} {created}".encode(), "sha256").hexdigest().encode()


def _each(paths: Sequence[str], ask: Callable[[str], Any], deadline: _Deadline) -> list[tuple[str, Any]]:
    """Read many znodes in batches; omits deleted ones."""
    found = []
    for start in range(0, len(paths), _CHUNK):
        asked = [(path, ask(path)) for path in paths[start : start + _CHUNK]]
        for path, pending in asked:
            try:
                found.append((path, deadline.result(pending, path)))
            except NoNodeError:
                continue
    return found


def _same(found: Sequence[ACL], wanted: Sequence[ACL]) -> bool:
    return {(acl.perms, acl.id) for acl in found} == {(acl.perms, acl.id) for acl in wanted}
