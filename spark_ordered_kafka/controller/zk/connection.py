"""Connections to ZooKeeper: TLS, SASL, and ACLs by which only the controllers can read and write what is theirs."""

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

_PREFIX = "zookeeper."
_MECHANISM = "DIGEST-MD5"
_CLOSED = (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
_PROBE_SECONDS = 2.0
_CHUNK = 1000
_SEAL = "protected"

_log = logging.getLogger(__name__)


def client_of(settings: ZooKeeperSettings, **options: Any) -> KazooClient:
    """A client that is not connected yet: hand it to :func:`connect`. ``options`` are further ones of KazooClient.

    Whatever it creates, kazoo's recipes included, gets the ACL of the settings' user.

    Raises:
        ConfigError: a setting is missing beside another one, or a certificate or key cannot be used.
    """
    for user, password in (("sasl.username", "sasl.password"), ("digest.username", "digest.password")):
        _require_both(settings, user, password)
    sasl, digest = settings.sasl_username, settings.digest_username
    options.setdefault("connection_retry", KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=1.0))
    return KazooClient(
        hosts=settings.connect,
        timeout=settings.session_timeout,
        handler=_Handler(_context(settings)),
        use_ssl=settings.ssl_enabled,
        default_acl=acls(settings) or None,
        auth_data=None if digest is None else [("digest", f"{digest}:{settings.digest_password}")],
        sasl_options=None
        if sasl is None
        else {"mechanism": _MECHANISM, "username": sasl, "password": settings.sasl_password},
        **options,
    )


def acls(settings: ZooKeeperSettings) -> list[ACL]:
    """All rights for each user that the settings name, and none for anybody else; empty without a user."""
    found = []
    if settings.sasl_username is not None:
        found.append(make_acl("sasl", settings.sasl_username, all=True))
    if settings.digest_username is not None and settings.digest_password is not None:
        found.append(make_digest_acl(settings.digest_username, settings.digest_password, all=True))
    return found


def connect(client: KazooClient, settings: ZooKeeperSettings, root: str, timeout: float) -> None:
    """Open the session of a client made by :func:`client_of`, and see that ``root`` is this user's; close it on error.

    What is there already gets the ACL now: ``root`` first, then from the top down, each znode before its children are
    listed, so that nobody without rights can add to what is done. A mark says that all is, and what it is about.

    Args:
        timeout: seconds.

    Raises:
        ConfigError: the server's certificate is not trusted, it wants another one of ours, or none.
        RequestError: SASL_AUTHENTICATION_FAILED, or the tree belongs to another user.
        UnavailableError: no answer in time.
    """
    deadline = time.monotonic() + timeout
    try:
        _start(client, settings, root, deadline, timeout)
        _protect(client, settings, root, _Patience(settings, deadline))
    except BaseException:
        client.stop()
        client.close()
        raise


def reconnect(client: KazooClient, settings: ZooKeeperSettings, root: str, timeout: float) -> None:
    """Open a new session if kazoo has given up.

    It does so after an authentication by SASL that failed, also when only the connection broke off in the middle of it.
    """
    if client.client_state in _CLOSED:
        client.stop()
        connect(client, settings, root, timeout)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo is not typed
    """Kazoo's threads; connections by TLS trust nobody beside the given authority, and are refused for a known reason.

    ``failure`` is why the last connection could not be opened; ``news`` is set with it, and by :func:`_start`.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context
        self.failure: OSError | None = None
        self.news = threading.Event()

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        try:
            return self._open(address, hostname, timeout)
        except OSError as error:
            self.failure = error
            self.news.set()
            raise

    def alert(self, address: tuple[str, int]) -> OSError | None:
        """What a server says against this side's certificate: in TLS 1.3, after the connection has been made."""
        if self._context is None:
            return None
        try:
            with self._open(address, address[0], _PROBE_SECONDS) as connection:
                # ZooKeeper says nothing before it is asked.
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


class _Patience:
    """Waits for answers until a deadline, and says what they were about."""

    def __init__(self, settings: ZooKeeperSettings, deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline

    def result(self, pending: Any, path: str) -> Any:
        """Raises NoNodeError and NodeExistsError as they are; NoAuthError and others as errors of this package."""
        try:
            return pending.get(timeout=max(0.0, self._deadline - time.monotonic()))
        except (NoNodeError, NodeExistsError):
            raise
        except KazooTimeoutError as error:
            raise UnavailableError(
                f"ZooKeeper at {self._settings.connect} did not answer for {path} in time"
            ) from error
        except KazooException as error:
            raise translated(error, self._settings, path) from error


def translated(error: KazooException, settings: ZooKeeperSettings, path: str) -> OrderedKafkaError:
    """What ZooKeeper says about a request for ``path``, as an error of this package."""
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


def _context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    files = {
        "ssl.ca.location": settings.ssl_ca_location,
        "ssl.certificate.location": settings.ssl_certificate_location,
        "ssl.key.location": settings.ssl_key_location,
        "ssl.key.password": settings.ssl_key_password,
    }
    given = {name: value for name, value in files.items() if value is not None}
    if not settings.ssl_enabled:
        if given:
            raise ConfigError(f"{_PREFIX}ssl.enabled", False, f"with {_PREFIX}{min(given)} it must be true")
        return None
    _require_both(settings, "ssl.certificate.location", "ssl.key.location")
    return ssl_context(given, _PREFIX)


def _require_both(settings: ZooKeeperSettings, *names: str) -> None:
    values = {name: getattr(settings, name.replace(".", "_")) for name in names}
    missing = [name for name, value in values.items() if not value]
    if len(missing) == 1:
        (there,) = set(names) - set(missing)
        raise ConfigError(f"{_PREFIX}{missing[0]}", None, f"{_PREFIX}{there} needs it")


def _start(
    client: KazooClient, settings: ZooKeeperSettings, root: str, deadline: float, timeout: float
) -> None:
    handler: _Handler = client.handler
    handler.failure = None
    rejected = threading.Event()

    def on_state(_: KazooState) -> None:
        # Kazoo calls itself connected before it authenticates.
        if client.client_state == KeeperState.AUTH_FAILED:
            rejected.set()
        handler.news.set()

    client.add_listener(on_state)
    try:
        # Stopped after it had given up, kazoo keeps the request to end a session, and would end the next one with it.
        client._queue.clear()
        client.start_async()
        look_at: float | None = time.monotonic() + _PROBE_SECONDS
        while not client.connected:
            until = deadline if look_at is None else min(look_at, deadline)
            handler.news.wait(max(0.0, until - time.monotonic()))
            handler.news.clear()
            if look_at is not None and time.monotonic() >= look_at and not client.connected:
                _look_closer(client, settings)
                look_at = None
            if rejected.is_set():
                raise translated(AuthFailedError(), settings, root)
            refused = _refusal(handler.failure, settings)
            if refused is not None:
                raise refused from handler.failure
            if time.monotonic() >= deadline:
                told = "" if handler.failure is None else f" ({handler.failure})"
                raise UnavailableError(
                    f"ZooKeeper at {settings.connect} did not answer within {timeout:g} s{told}"
                ) from handler.failure
    finally:
        client.remove_listener(on_state)


def _look_closer(client: KazooClient, settings: ZooKeeperSettings) -> None:
    """Raises what is wrong with a port at which connections can be opened but no session is given."""
    name = f"{_PREFIX}ssl.enabled"
    for host, port in client.hosts:
        if not settings.ssl_enabled and speaks_tls(host, port):
            raise ConfigError(name, False, f"the server at {host}:{port} speaks TLS; it must be true")
        if isinstance(client.handler.failure, ssl.SSLEOFError) and _gives_session(f"{host}:{port}"):
            raise ConfigError(name, True, f"the server at {host}:{port} speaks no TLS; it must be false")
        refused = _refusal(client.handler.alert((host, port)), settings)
        if refused is not None:
            raise refused


def _gives_session(server: str) -> bool:
    """Whether a server gives a session to a client that does not speak TLS."""
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


def _protect(client: KazooClient, settings: ZooKeeperSettings, root: str, patience: _Patience) -> None:
    wanted = acls(settings)
    with suppress(NoNodeError):
        # The first answer also shows that SASL has succeeded.
        patience.result(client.get_async(root), root)
    while wanted and not _is_protected(client, settings, root, patience):
        _log.info("giving %s, and the znodes below it, their ACL", root)
        _take(client, root, wanted, patience)
        level = [root]
        while level:
            # Listed when they have their ACL: what comes later comes from who has the right.
            below = [
                f"{path}/{name}"
                for path, names in _each(level, client.get_children_async, patience)
                for name in names
            ]
            for _ in _each(below, lambda path: client.set_acls_async(path, wanted), patience):
                pass
            level = below
        # With a znode in it, the root can no longer be replaced by those who may write beside it.
        _seal(client, settings, root, patience)


def _take(client: KazooClient, root: str, wanted: Sequence[ACL], patience: _Patience) -> None:
    """Make the root, or give it its ACL if somebody has made it."""
    parent = root.rpartition("/")[0] or "/"
    try:
        patience.result(client.ensure_path_async(parent), parent)
        patience.result(client.create_async(root, b"", acl=wanted), root)
    except NodeExistsError:
        try:
            patience.result(client.set_acls_async(root, wanted), root)
        except NoNodeError:
            _log.debug("%s is gone again: it is looked at once more", root)


def _is_protected(client: KazooClient, settings: ZooKeeperSettings, root: str, patience: _Patience) -> bool:
    """Whether all that there is has been given its ACL, since when only its owners could add to it.

    That the root has it says nothing: anybody may give a znode of his own any ACL, before there is a controller.
    """
    try:
        found, stat = patience.result(client.get_acls_async(root), root)
        mark, _ = patience.result(client.get_async(f"{root}/{_SEAL}"), f"{root}/{_SEAL}")
    except NoNodeError:
        return False
    return _same(found, acls(settings)) and hmac.compare_digest(mark, _mark(settings, stat.czxid))


def _seal(client: KazooClient, settings: ZooKeeperSettings, root: str, patience: _Patience) -> None:
    path = f"{root}/{_SEAL}"
    try:
        stat = patience.result(client.exists_async(root), root)
        mark = _mark(settings, 0 if stat is None else stat.czxid)
        try:
            patience.result(client.create_async(path, mark, acl=acls(settings)), path)
        except NodeExistsError:
            patience.result(client.set_async(path, mark), path)
    except NoNodeError:
        _log.debug("%s is gone again: it is looked at once more", root)


def _mark(settings: ZooKeeperSettings, created: int) -> bytes:
    """What only who has the password can write, about the root that was made by the transaction ``created``."""
    password = settings.sasl_password or settings.digest_password or ""
    return hmac.new(password.encode(), f"{_SEAL} {created}".encode(), "sha256").hexdigest().encode()


def _each(paths: Sequence[str], ask: Callable[[str], Any], patience: _Patience) -> list[tuple[str, Any]]:
    """Ask for many znodes, many at a time; those that are gone are left out."""
    found = []
    for start in range(0, len(paths), _CHUNK):
        asked = [(path, ask(path)) for path in paths[start : start + _CHUNK]]
        for path, pending in asked:
            try:
                found.append((path, patience.result(pending, path)))
            except NoNodeError:
                continue
    return found


def _same(found: Sequence[ACL], wanted: Sequence[ACL]) -> bool:
    return {(acl.perms, acl.id) for acl in found} == {(acl.perms, acl.id) for acl in wanted}
