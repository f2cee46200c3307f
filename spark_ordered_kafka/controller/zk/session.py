"""The ZooKeeper session: reads, the claim to be the controller, and writes that only the controller can make.

Every write is one ZooKeeper transaction that checks the version of ``/controller_epoch``, so that whatever a deposed
controller still sends fails. Reads ask ZooKeeper's quorum alone, so that they are as good from any controller.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooState, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk import connection as zookeeper
from spark_ordered_kafka.controller.zk.records import LeaderRecord, dump, parse
from spark_ordered_kafka.controller.zk.single_flight import SingleFlight
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError

ROOT = "/ordered-kafka"
CONTROLLER = f"{ROOT}/controller"
CONTROLLER_EPOCH = f"{ROOT}/controller_epoch"
_POLL = 0.2
_ANY_VERSION = -1

_log = logging.getLogger(__name__)


class DeposedError(RequestError):
    """Another controller has taken over: stop, and write nothing."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "this process is not the active controller (any more)")


class ZooKeeperError(UnavailableError):
    """ZooKeeper did not answer this process: what was asked for may have been done, and another controller may answer."""


class ConflictError(RequestError):
    """A guarded write lost against another one; nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path} was changed by another request")


class Session:
    """A ZooKeeper session that may hold the claim to be the controller. Safe to share between threads.

    ``hosts`` is ZooKeeper's connect string; ``timeout`` is in seconds. Raises ZooKeeperError when ZooKeeper does not
    answer within ``timeout``, and DeposedError where the claim is needed and not held. ``lost`` is set when the claim
    is gone: the session has expired, or another controller was seen; ``on_lost`` is called then.
    """

    def __init__(
        self, settings: ZooKeeperSettings, *, timeout: float, on_lost: Callable[[], None] = lambda: None
    ) -> None:
        self.hosts = settings.connect
        self._settings = settings
        self._timeout = timeout
        self._on_lost = on_lost
        self.client = zookeeper.client_of(settings)
        self._epoch: tuple[int, int] | None = None  # epoch, version of CONTROLLER_EPOCH
        self._token: str | None = None
        self._suspended = threading.Event()
        self.lost = threading.Event()
        self._single_flight = SingleFlight(self._confirm)
        self.client.add_listener(self._on_state)

    # -- connection ---------------------------------------------------------------------------------------------

    def connect(self, timeout: float, paths: Sequence[str]) -> None:
        """Open the session and make the fixed znodes; raises what :func:`zookeeper.connect` raises."""
        zookeeper.connect(self.client, self._settings, ROOT, timeout)
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

        Raises NoNodeError, NodeExistsError and BadVersionError as they are, ZooKeeperError when there is no answer, and
        RequestError when it is refused.
        """
        try:
            return pending.get(timeout=self._timeout)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except KazooTimeoutError as error:
            raise ZooKeeperError(
                f"ZooKeeper at {self.hosts} did not answer for {path} within {self._timeout:g} s"
            ) from error
        except KazooException as error:
            translated = zookeeper.translated(error, self._settings, path)
            if isinstance(translated, UnavailableError):
                translated = ZooKeeperError(str(translated))
            raise translated from error

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._suspended.clear()
        elif state == KazooState.SUSPENDED:
            self._suspended.set()
        else:
            self._lose()

    # -- the claim ----------------------------------------------------------------------------------------------

    def prepare(self, election: str) -> None:
        """Get ready for a candidacy: remove what this session has left of earlier ones, below ``election`` too.

        A claim, or the end of one, whose answer got lost leaves znodes that last as long as the session: for ever, if
        it goes well.
        """
        zookeeper.reconnect(self.client, self._settings, ROOT, self._timeout)
        self.lost.clear()
        try:
            names = self.wait(self.client.get_children_async(election), election)
        except NoNodeError:
            names = []
        for path in (CONTROLLER, *(f"{election}/{name}" for name in names)):
            stat = self.wait(self.client.exists_async(path), path)
            if stat is not None and stat.ephemeralOwner == self.client.client_id[0]:
                try:
                    self.wait(self.client.delete_async(path), path)
                except NoNodeError:
                    _log.debug("%s is gone already", path)

    def claim(self, controller_id: str, url: str, stop: threading.Event) -> LeaderRecord | None:
        """Wait until no other controller is registered, then register, under the next controller epoch.

        None when ``stop`` was set or the session lost first.
        """
        while self._await_vacancy(stop):
            data, stat = self.wait(self.client.get_async(CONTROLLER_EPOCH), CONTROLLER_EPOCH)
            record = LeaderRecord(
                id=controller_id, url=url, epoch=int(data) + 1, token=secrets.token_urlsafe(32)
            )
            transaction = self.client.transaction()
            transaction.set_data(CONTROLLER_EPOCH, str(record.epoch).encode(), version=stat.version)
            transaction.create(CONTROLLER, dump(record), ephemeral=True)
            if _first_failure(self.wait(transaction.commit_async(), CONTROLLER)) is None:
                self._token = record.token
                self._epoch = (record.epoch, stat.version + 1)
                if self.lost.is_set():  # before the line above
                    self._epoch = None
                    return None
                return record
        return None

    def resign(self) -> None:
        """Give the claim up, so that the next controller need not wait for the end of this session."""
        epoch, self._epoch = self._epoch, None
        if epoch is None or not self.connected:
            return
        transaction = self.client.transaction()
        transaction.check(CONTROLLER_EPOCH, epoch[1])
        transaction.delete(CONTROLLER)
        try:
            self.wait(transaction.commit_async(), CONTROLLER)
        except OrderedKafkaError as error:
            _log.info("%s is removed later: %s", CONTROLLER, error)

    @property
    def leading(self) -> bool:
        """Whether this process believes to be the controller and its session is alive."""
        return self._epoch is not None and not self._suspended.is_set() and not self.lost.is_set()

    @property
    def token(self) -> str | None:
        """That of the claim; None when none is held."""
        return self._token if self._epoch is not None else None

    def _await_vacancy(self, stop: threading.Event) -> bool:
        while not stop.is_set():
            gone = threading.Event()
            stat = self.wait(self.client.exists_async(CONTROLLER, watch=_Setter(gone)), CONTROLLER)
            if stat is None:
                return not self.lost.is_set()
            _log.info("another controller is active; waiting for it to leave")
            while not gone.wait(_POLL):
                if stop.is_set() or self.lost.is_set():
                    return False
        return False

    # -- reads --------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """What this session reads from now on is at least what ZooKeeper's quorum has agreed on by now."""
        self._single_flight.confirm()

    def read(self, path: str) -> tuple[bytes, int] | None:
        """Linearizable read: data and version of a znode, None when there is none.

        The quorum agrees on a write of nothing first, one for all who read at the same time; a server that answers it has
        seen whatever was written before. ``sync`` would not do: ZooKeeper's leader answers it alone, also one that has been
        replaced and does not know it yet.
        """
        session = self.client.client_id
        self._single_flight.confirm()
        try:
            data, stat = self.wait(self.client.get_async(path), path)
        except NoNodeError:
            data = stat = None
        # A new session may have begun at a server that is behind.
        if self.client.client_id != session:
            raise ZooKeeperError(
                f"the session with ZooKeeper at {self.hosts} was replaced while {path} was read"
            )
        return None if stat is None else (data, int(stat.version))

    def children(self, path: str) -> dict[str, bytes]:
        """name -> data of the znodes right below ``path``, as this session sees them; raises NoNodeError without ``path``.

        One that was deleted between the two requests is left out.
        """
        names = self.wait(self.client.get_children_async(path), path)
        reads = [(name, self.client.get_async(f"{path}/{name}")) for name in names]
        found = {}
        for name, read in reads:
            try:
                data, _ = self.wait(read, f"{path}/{name}")
            except NoNodeError:
                continue
            found[name] = data
        return found

    def leader(self) -> LeaderRecord | None:
        """Whoever is the controller now; a linearizable read."""
        found = self.read(CONTROLLER)
        return None if found is None else parse(LeaderRecord, found[0], CONTROLLER)

    def _confirm(self) -> None:
        """Have the quorum agree on a write of nothing."""
        if (
            not self.connected
        ):  # kazoo would wait for the connection, and whoever asks had better ask another controller
            raise ZooKeeperError(f"the connection to ZooKeeper at {self.hosts} is interrupted")
        transaction = self.client.transaction()
        transaction.check(ROOT, _ANY_VERSION)
        failure = _first_failure(self.wait(transaction.commit_async(), ROOT))
        if failure is not None:
            raise ZooKeeperError(f"ZooKeeper at {self.hosts} refused to check {ROOT}: {failure[1]!r}")

    # -- what only the controller may do ------------------------------------------------------------------------

    def guard(self) -> tuple[int, int]:
        """Controller epoch and version of its znode; raises DeposedError when the claim is not held."""
        epoch = self._epoch
        if epoch is None or self.lost.is_set():
            raise DeposedError
        if self._suspended.is_set():
            raise ZooKeeperError(f"the connection to ZooKeeper at {self.hosts} is interrupted")
        return epoch

    def verify(self) -> None:
        """Raises DeposedError unless this process is the controller: ZooKeeper's quorum is asked, by a write of nothing.

        After a pause of the process nothing else tells: not its memory, not a clock.
        """
        transaction = self.transaction()
        transaction.check(CONTROLLER, 0)
        try:
            self.commit(transaction, CONTROLLER)
        except ConflictError:
            raise self._deposed() from None

    def await_claim(self, stop: threading.Event) -> None:
        """Return once ZooKeeper has confirmed that this process is the controller; wait while it does not answer.

        Raises DeposedError when it is not, or ``stop`` was set.
        """
        while not stop.is_set():
            try:
                self.verify()
            except ZooKeeperError as error:
                _log.info("nothing is begun before ZooKeeper confirms the claim: %s", error)
                stop.wait(_POLL)
            else:
                return
        raise DeposedError

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
        raise ZooKeeperError(f"ZooKeeper at {self.hosts} refused to write {path}: {error!r}") from error

    def _deposed(self) -> DeposedError:
        self._lose()
        return DeposedError()

    def _lose(self) -> None:
        self._epoch = None
        self.lost.set()
        self._on_lost()


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
