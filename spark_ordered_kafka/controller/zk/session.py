"""The ZooKeeper session: reads, the claim to be the controller, and writes that only the controller can make.

Every write is one ZooKeeper transaction that checks the version of ``/controller_epoch``, so that all writes of a deposed
controller fail. Reads need only ZooKeeper's quorum, so every controller can serve them (D-125).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kazoo.client import KazooState, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from spark_ordered_kafka.controller.settings import ZooKeeperSettings
from spark_ordered_kafka.controller.zk import connection as zookeeper
from spark_ordered_kafka.controller.zk.records import LeaderRecord, dump, number, parse
from spark_ordered_kafka.controller.zk.requests import result_of
from spark_ordered_kafka.controller.zk.single_flight import SingleFlight
from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError, UnavailableError
from spark_ordered_kafka.listed import listed

ROOT = "/ordered-kafka"
CONTROLLER = f"{ROOT}/controller"
CONTROLLER_EPOCH = f"{ROOT}/controller_epoch"
_POLL = 0.2
_ANY_VERSION = -1
_ATTEMPTS = 5
"""Attempts of a compare-and-set."""
_SHOWN = 3
"""Paths in an error."""

_log = logging.getLogger(__name__)

_ResultT = TypeVar("_ResultT")


class DeposedError(RequestError):
    """Another controller has taken over: stop, and write nothing."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "this process is not the active controller (any more)")


class ZooKeeperError(UnavailableError):
    """ZooKeeper did not answer this process: the request may have been carried out, and another controller may answer."""


class ConflictError(RequestError):
    """A guarded write lost against another one; nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path} was changed by another request")


class Znode(NamedTuple):
    """What was read of a znode. ``created`` is the transaction that created it: a znode that replaces it has another one."""

    data: bytes
    version: int
    created: int


class Session:
    """A ZooKeeper session that may hold the claim to be the controller. Thread-safe.

    ``hosts`` is ZooKeeper's connect string; ``timeout`` is in seconds. Raises ZooKeeperError when ZooKeeper does not
    answer within ``timeout``, and DeposedError where the claim is required and missing. ``lost`` is set when the claim is
    lost: the session has expired, or there is another controller; ``on_lost`` is called then.
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
        self._suspended = threading.Event()
        self.lost = threading.Event()
        self._single_flight = SingleFlight(self._confirm)
        self.client.add_listener(self._on_state)

    # -- connection ---------------------------------------------------------------------------------------------

    def connect(self, timeout: float, paths: Sequence[str]) -> None:
        """Open the session and create the fixed znodes; raises what :func:`zookeeper.connect` raises.

        Where the connection breaks meanwhile, all is done again, for ``timeout`` seconds.
        """
        deadline, remaining = time.monotonic() + timeout, timeout
        while True:
            try:
                zookeeper.reconnect(self.client, self._settings, ROOT, remaining)
                return self._create(paths)
            except UnavailableError as error:
                remaining = round(deadline - time.monotonic(), 1)
                if remaining <= 0:
                    raise
                _log.info("connecting to ZooKeeper is tried again: %s", error)

    def _create(self, paths: Sequence[str]) -> None:
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
        """As :func:`result_of`, but ZooKeeperError when there is no answer."""
        try:
            return result_of(pending, self._settings, path, self._timeout)
        except UnavailableError as error:
            raise ZooKeeperError(str(error)) from error

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._suspended.clear()
        elif state == KazooState.SUSPENDED:
            self._suspended.set()
        else:
            self._lose()

    # -- the claim ----------------------------------------------------------------------------------------------

    def prepare(self, election: str) -> None:
        """Prepare a candidacy: remove this session's znodes of earlier ones, below ``election`` too.

        A claim or resignation whose answer was lost may leave ephemeral znodes, which would stay as long as the session.
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
            record = LeaderRecord(id=controller_id, url=url, epoch=number(data, CONTROLLER_EPOCH) + 1)
            transaction = self.client.transaction()
            transaction.set_data(CONTROLLER_EPOCH, str(record.epoch).encode(), version=stat.version)
            transaction.create(CONTROLLER, dump(record), ephemeral=True)
            if _first_failure(self.wait(transaction.commit_async(), CONTROLLER)) is None:
                self._epoch = (record.epoch, stat.version + 1)
                if self.lost.is_set():  # before the line above
                    self._epoch = None
                    return None
                return record
        return None

    def resign(self) -> None:
        """Resign, so that the next controller need not wait for the end of this session."""
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
        """Whether this process is the controller by its own state, with a live session."""
        return self._epoch is not None and not self._suspended.is_set() and not self.lost.is_set()

    def _await_vacancy(self, stop: threading.Event) -> bool:
        while not stop.is_set():
            gone = threading.Event()
            # After any event of the znode, check it again.
            watch = partial(lambda gone, _: gone.set(), gone)
            stat = self.wait(self.client.exists_async(CONTROLLER, watch=watch), CONTROLLER)
            if stat is None:
                return not self.lost.is_set()
            _log.info("another controller is active; waiting for it to leave")
            while not gone.wait(_POLL):
                if stop.is_set() or self.lost.is_set():
                    return False
        return False

    # -- reads --------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make later reads of this session see at least all that ZooKeeper's quorum has committed so far."""
        self._single_flight.confirm()

    def read(self, path: str) -> Znode | None:
        """Linearizable read: a znode, None when there is none.

        The quorum commits an empty write first, one for all simultaneous reads; a server that answers it has all earlier
        writes. ``sync`` would not do: ZooKeeper's leader answers it alone, even after it was replaced without knowing
        (D-124).
        """
        (found,) = self.read_each([path])
        return _there(found)

    def read_each(self, paths: Sequence[str]) -> list[Znode | RequestError | None]:
        """As :meth:`read` of each, with one write for all; an error that is one znode's own is in its place."""
        session = self.client.client_id
        self._single_flight.confirm()
        found = self.peek_each(paths)
        # A new session may have begun at a server that lags.
        if self.client.client_id != session:
            raise ZooKeeperError(
                f"the session with ZooKeeper at {self.hosts} was replaced while {listed(paths, _SHOWN)} was read"
            )
        return found

    def peek(self, path: str) -> Znode | None:
        """A znode as this session sees it, None when there is none."""
        (found,) = self.peek_each([path])
        return _there(found)

    def peek_each(self, paths: Sequence[str]) -> list[Znode | RequestError | None]:
        """As :meth:`peek` of each; an error that is one znode's own is in its place."""
        reads = [(path, self.client.get_async(path)) for path in paths]
        found: list[Znode | RequestError | None] = []
        for path, read in reads:
            try:
                data, stat = self.wait(read, path)
            except NoNodeError:
                found.append(None)
            except RequestError as error:
                found.append(error)
            else:
                found.append(Znode(data, int(stat.version), int(stat.czxid)))
        return found

    def version(self, path: str) -> int:
        """Linearizable read of the version of a znode that is always there; raises RequestError UNKNOWN_SERVER_ERROR."""
        found = self.read(path)
        if found is None:
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {path} is not there any more")
        return found[1]

    def children(self, path: str) -> dict[str, bytes]:
        """name -> data of the znodes right below ``path``, as this session sees them; raises NoNodeError without ``path``.

        Omits a child that was deleted between the two requests.
        """
        names = self.wait(self.client.get_children_async(path), path)
        found = zip(names, self.peek_each([f"{path}/{name}" for name in names]), strict=True)
        return {name: znode.data for name, one in found if (znode := _there(one)) is not None}

    def leader(self) -> LeaderRecord | None:
        """The current controller; a linearizable read."""
        found = self.read(CONTROLLER)
        return None if found is None else parse(LeaderRecord, found[0], CONTROLLER)

    def _confirm(self) -> None:
        """Commit an empty write."""
        if (
            not self.connected
        ):  # kazoo would wait for the connection, and the caller can use another controller
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
        """Raises DeposedError unless this process is the controller: an empty write asks ZooKeeper's quorum (D-123).

        After a pause of the process, neither its memory nor a clock is enough.
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
        is_reported = False
        while not stop.is_set():
            try:
                self.verify()
            except ZooKeeperError as error:
                if not is_reported:
                    _log.info("nothing is begun before ZooKeeper confirms the claim: %s", error)
                is_reported = True
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

    def compare_and_set(self, path: str, fill: Callable[[TransactionRequest], _ResultT]) -> _ResultT:
        """Commit a transaction that ``fill`` fills; what it returned. It runs again when the transaction loses a race.

        ``fill`` reads what its write depends on, adds the write with the versions that it has read, and refuses by
        raising. ``path`` is for error messages. Raises ConflictError when the transaction loses five times.
        """
        for _ in range(_ATTEMPTS):
            transaction = self.transaction()
            result = fill(transaction)
            try:
                self.commit(transaction, path)
            except ConflictError:
                continue
            return result
        raise ConflictError(path)

    def _deposed(self) -> DeposedError:
        self._lose()
        return DeposedError()

    def _lose(self) -> None:
        self._epoch = None
        self.lost.set()
        self._on_lost()


def _first_failure(results: Sequence[object]) -> tuple[int, Exception] | None:
    """Index and error of the operation that failed; the other operations of its transaction only have "rolled back"."""
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            return index, result
    return None


def _there(found: Znode | RequestError | None) -> Znode | None:
    if isinstance(found, RequestError):
        raise found
    return found
