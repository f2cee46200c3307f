"""The ZooKeeper session, the claim to be the controller, and writes that only the controller can make.

Every write is one ZooKeeper transaction that checks the version of ``/controller_epoch``, so that whatever a deposed
controller still sends fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from spark_ordered_kafka.controller.records import LeaderRecord, dump, parse
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError

ROOT = "/ordered-kafka"
CONTROLLER = f"{ROOT}/controller"
CONTROLLER_EPOCH = f"{ROOT}/controller_epoch"
_POLL = 0.2

_log = logging.getLogger(__name__)


class DeposedError(RequestError):
    """Another controller has taken over: stop, and write nothing."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "this process is not the active controller (any more)")


class ConflictError(RequestError):
    """A guarded write lost against another one; nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path} was changed by another request")


class Session:
    """A ZooKeeper session that may hold the claim to be the controller. Safe to share between threads.

    ``hosts`` is a ZooKeeper connection string; times are seconds. Raises UnavailableError when ZooKeeper does not
    answer within ``timeout``, and DeposedError where the claim is needed and not held. ``lost`` is set when the claim
    is gone: the session has expired, or another controller was seen.
    """

    def __init__(self, hosts: str, *, session_timeout: float, timeout: float) -> None:
        self.hosts = hosts
        self._timeout = timeout
        self.client = KazooClient(
            hosts=hosts,
            timeout=session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=1.0),
        )
        self._epoch: tuple[int, int] | None = None  # epoch, version of CONTROLLER_EPOCH
        self._suspended = threading.Event()
        self.lost = threading.Event()
        self.client.add_listener(self._on_state)

    # -- connection ---------------------------------------------------------------------------------------------

    def connect(self, timeout: float, paths: Sequence[str]) -> None:
        """Open the session and make the fixed znodes; raises UnavailableError after ``timeout`` seconds."""
        try:
            self.client.start(timeout=timeout)
        except KazooTimeoutError as error:
            self.close()
            raise UnavailableError(
                f"ZooKeeper at {self.hosts} did not answer within {timeout:g} s"
            ) from error
        for path in paths:
            self.wait(self.client.ensure_path_async(path), path)
        try:
            self.wait(self.client.create_async(CONTROLLER_EPOCH, b"0"), CONTROLLER_EPOCH)
        except NodeExistsError:
            _log.debug("%s is there already", CONTROLLER_EPOCH)

    def close(self) -> None:
        """End the session; the claim ends with it."""
        self.resign()
        self.client.stop()
        self.client.close()

    @property
    def connected(self) -> bool:
        """Whether ZooKeeper answers."""
        return bool(self.client.connected) and not self._suspended.is_set()

    def wait(self, pending: Any, path: str) -> Any:
        """The result of an asynchronous request for ``path``.

        Raises NoNodeError, NodeExistsError and BadVersionError as they are, UnavailableError for everything else.
        """
        try:
            return pending.get(timeout=self._timeout)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except KazooTimeoutError as error:
            raise UnavailableError(
                f"ZooKeeper at {self.hosts} did not answer for {path} within {self._timeout:g} s"
            ) from error
        except KazooException as error:
            raise UnavailableError(f"ZooKeeper at {self.hosts}: {error!r} for {path}") from error

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._suspended.clear()
        elif state == KazooState.SUSPENDED:
            self._suspended.set()
        else:
            self._epoch = None
            self.lost.set()

    # -- the claim ----------------------------------------------------------------------------------------------

    def claim(self, controller_id: str, url: str, stop: threading.Event) -> int | None:
        """Wait until no other controller is registered, then register; the new controller epoch.

        None when ``stop`` was set or the session lost first.
        """
        self.lost.clear()
        while self._await_vacancy(stop):
            data, stat = self.wait(self.client.get_async(CONTROLLER_EPOCH), CONTROLLER_EPOCH)
            epoch = int(data) + 1
            transaction = self.client.transaction()
            transaction.set_data(CONTROLLER_EPOCH, str(epoch).encode(), version=stat.version)
            record = LeaderRecord(id=controller_id, url=url, epoch=epoch)
            transaction.create(CONTROLLER, dump(record), ephemeral=True)
            if _first_failure(self.wait(transaction.commit_async(), CONTROLLER)) is None:
                self._epoch = (epoch, stat.version + 1)
                return epoch
        return None

    def resign(self) -> None:
        """Forget the claim: no write and no linearizable read succeeds until the next one."""
        self._epoch = None

    @property
    def leading(self) -> bool:
        """Whether this process believes to be the controller and its session is alive."""
        return self._epoch is not None and not self._suspended.is_set() and not self.lost.is_set()

    def _await_vacancy(self, stop: threading.Event) -> bool:
        while not stop.is_set():
            gone = threading.Event()
            stat = self.wait(self.client.exists_async(CONTROLLER, watch=_Setter(gone)), CONTROLLER)
            if stat is None:
                return True
            if stat.ephemeralOwner == self.client.client_id[0]:
                # A claim of this session whose answer got lost. Which epoch it was is not known: claim again.
                self.wait(self.client.delete_async(CONTROLLER), CONTROLLER)
                continue
            _log.info("another controller is active; waiting for it to leave")
            while not gone.wait(_POLL):
                if stop.is_set() or self.lost.is_set():
                    return False
        return False

    # -- what only the controller may do ------------------------------------------------------------------------

    def guard(self) -> tuple[int, int]:
        """Controller epoch and version of its znode; raises DeposedError when the claim is not held."""
        epoch = self._epoch
        if epoch is None or self.lost.is_set():
            raise DeposedError
        if self._suspended.is_set():
            raise UnavailableError(f"the connection to ZooKeeper at {self.hosts} is interrupted")
        return epoch

    def read(self, path: str) -> tuple[bytes, int] | None:
        """Linearizable read: data and version of a znode, None when there is none.

        ``sync`` makes the server catch up with the leader, and the ephemeral read after it shows that nobody else
        has become controller meanwhile. The three requests travel together on one connection, in order.
        """
        epoch, _ = self.guard()
        synced = self.client.sync_async(CONTROLLER)
        node = self.client.get_async(path)
        leader = self.client.get_async(CONTROLLER)
        self.wait(synced, CONTROLLER)
        try:
            found = self.wait(node, path)
        except NoNodeError:
            found = None
        try:
            data, _ = self.wait(leader, CONTROLLER)
        except NoNodeError:
            raise self._deposed() from None
        if parse(LeaderRecord, data, CONTROLLER).epoch != epoch:
            raise self._deposed()
        return None if found is None else (found[0], int(found[1].version))

    def transaction(self) -> TransactionRequest:
        """A transaction that fails once another controller has claimed; for :meth:`commit`."""
        _, version = self.guard()
        transaction = self.client.transaction()
        transaction.check(CONTROLLER_EPOCH, version)
        return transaction

    def commit(self, transaction: TransactionRequest, path: str) -> None:
        """Carry a transaction out; ``path`` is for error messages. Raises ConflictError when a version or the
        existence of a znode is not as expected."""
        failure = _first_failure(self.wait(transaction.commit_async(), path))
        if failure is None:
            return
        index, error = failure
        if index == 0:
            raise self._deposed()
        if isinstance(error, (BadVersionError, NodeExistsError, NoNodeError)):
            raise ConflictError(path) from error
        raise UnavailableError(f"ZooKeeper at {self.hosts} refused to write {path}: {error!r}") from error

    def _deposed(self) -> DeposedError:
        self.lost.set()
        return DeposedError()


class _Setter:
    """A watch that sets an event; whatever happened to the znode, it is looked at again."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __call__(self, _: object) -> None:
        self._event.set()


def _first_failure(results: Sequence[object]) -> tuple[int, Exception] | None:
    """Index and error of the operation that failed; the others of its transaction only say "rolled back"."""
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            return index, result
    return None
