"""Requests to reassign partitions, in ZooKeeper (docs/architecture.md, "What is in ZooKeeper").

``/admin/reassign_partitions`` holds the newest request's plan, in the JSON of kafka-reassign-partitions; the znode's
version after the write is the request's id (KIP-179), so ids only grow. ``/admin/reassign_partitions_status/<id>`` and its
child ``moves`` are written by the same transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError
from pydantic import BaseModel

from spark_ordered_kafka.controller.state.reassignment_records import (
    ANY,
    ENDED,
    Move,
    MovesRecord,
    RequestRecord,
)
from spark_ordered_kafka.controller.zk.records import (
    OPEN,
    Record,
    UnreadableRecordError,
    dump,
    number,
    owned,
    parse,
)
from spark_ordered_kafka.controller.zk.session import ROOT, ConflictError, Session
from spark_ordered_kafka.errors import RequestError, invalid_request
from spark_ordered_kafka.kafka.values import PartitionId

_log = logging.getLogger(__name__)

REASSIGNMENTS = f"{ROOT}/admin/reassign_partitions"
STATUS = f"{ROOT}/admin/reassign_partitions_status"
REASSIGNMENT_PATHS = (REASSIGNMENTS, STATUS)
"""To be made at the start of every controller: the version of a fresh znode is 0, so the first request is 1."""
MAX_BYTES = 900_000
"""Of what one transaction writes. A ZooKeeper packet may have 1 MB (``jute.maxbuffer``)."""

# What ``copied`` of a receiving replica adds to the moves later on, compressed: two numbers of up to 13 digits.
_GROWTH = 16
# Number of requests whose moves are cached.
_REMEMBERED = 4


class _PlannedPartition(BaseModel):
    model_config = OPEN

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]


class PlanRecord(Record):
    """``/admin/reassign_partitions``: what kafka-reassign-partitions reads and writes."""

    partitions: tuple[_PlannedPartition, ...]


class ReassignmentStore:
    """Reads and guarded writes of requests. Safe to share between threads.

    Raises ZooKeeperError when ZooKeeper does not answer, and DeposedError when this controller does not lead any more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: dict[int, RequestRecord] = {}
        self._moves: dict[int, tuple[bytes, MovesRecord]] = {}
        # Members of the records of moves that a newer controller has written.
        self._unknown: dict[int, dict[str, Any]] = {}
        self._left_alone: set[str] = set()
        # Requests whose record, or whose moves, could not be read the last time.
        self._unread_records: frozenset[int] = frozenset()
        self._unread_moves: set[int] = set()

    @property
    def has_unreadable(self) -> bool:
        """Whether there are requests that could not be read the last time, and may not have ended."""
        return bool(self._unread_records or self._unread_moves)

    def create(self, fields: Callable[[int], RequestRecord], moves: Sequence[Move]) -> RequestRecord:
        """Store a request under the next id, which ``fields`` is given to make its record; may run it again.

        Raises RequestError INVALID_REQUEST, and writes nothing, when ZooKeeper could not hold it.
        """
        plan, children = dump(_plan(moves)), dump(MovesRecord(moves=tuple(moves)))

        def fill(transaction: TransactionRequest) -> RequestRecord:
            version = self._session.version(REASSIGNMENTS)
            record = fields(version + 1)
            data = dump(record)
            _check_size(len(plan) + len(children) + len(data), moves)
            transaction.set_data(REASSIGNMENTS, plan, version=version)
            transaction.create(_path(record.request_id), data)
            transaction.create(_moves_path(record.request_id), children)
            return record

        return self._session.compare_and_set(REASSIGNMENTS, fill)

    def ids(self) -> list[int]:
        """Ids of all stored requests, ascending; a linearizable read."""
        self._session.sync()
        names = self._session.wait(self._session.client.get_children_async(STATUS), STATUS)
        found = []
        for name in names:
            try:
                found.append(number(name, f"{STATUS}/{name}"))
            except UnreadableRecordError as error:
                self._leave_alone(name, error)
        return sorted(found)

    def latest(self) -> int | None:
        """Id of the newest stored request."""
        return max(self.ids(), default=None)

    def records(self) -> dict[int, RequestRecord]:
        """All stored requests that can be read by id, ascending, without their moves; a linearizable read.

        Requests that have ended never change and are read once, since there may be thousands.
        """
        ids, ended = self.ids(), self._ended
        get = self._session.client.get_async
        reads = {request_id: get(_path(request_id)) for request_id in ids if request_id not in ended}
        found: dict[int, RequestRecord] = {}
        unread = set()
        for request_id in ids:
            path = _path(request_id)
            try:
                found[request_id] = (
                    parse(RequestRecord, self._session.wait(reads[request_id], path)[0], path)
                    if request_id in reads
                    else ended[request_id]
                )
            except NoNodeError:
                continue  # deleted by the sweep meanwhile
            except UnreadableRecordError as error:
                self._leave_alone(path, error)
                unread.add(request_id)
        self._unread_records = frozenset(unread)
        for request_id in tuple(self._unread_moves):
            if request_id not in found or found[request_id].ended:
                self._unread_moves.discard(request_id)
        self._ended = {request_id: record for request_id, record in found.items() if record.ended}
        return found

    def active(self) -> list[tuple[RequestRecord, MovesRecord]]:
        """Requests that have not ended, ascending by id, with their moves."""
        reads = [self.find(request_id) for request_id, record in self.records().items() if not record.ended]
        return [read for read in reads if read is not None and not read[0].ended]

    def pending(self) -> dict[PartitionId, tuple[int, Move]]:
        """Moves that have not ended: partition -> request id and move."""
        return {
            move.tp: (record.request_id, move)
            for record, moves in self.active()
            for move in moves.moves
            if move.state not in ENDED
        }

    def find(self, request_id: int) -> tuple[RequestRecord, MovesRecord] | None:
        """As :meth:`read`; None, and a line in the log, also for what cannot be read, as after a repair by hand."""
        try:
            found = self.read(request_id)
        except UnreadableRecordError as error:
            self._leave_alone(_path(request_id), error)
            self._unread_moves.add(request_id)
            return None
        self._unread_moves.discard(request_id)
        return found

    def _leave_alone(self, path: str, error: UnreadableRecordError) -> None:
        if path not in self._left_alone:
            self._left_alone.add(path)
            _log.warning("a reassignment request is left alone: %s", error.message)

    def read(self, request_id: int) -> tuple[RequestRecord, MovesRecord] | None:
        """A request and its moves, read linearizably; None if it is not stored. Raises UnreadableRecordError."""
        found = self._session.read(_path(request_id))
        if found is None:
            return None
        moves = self._session.peek(_moves_path(request_id))
        if moves is None:
            return None  # deleted between the two
        return parse(RequestRecord, found[0], _path(request_id)), self._parsed(request_id, moves[0])

    def _parsed(self, request_id: int, data: bytes) -> MovesRecord:
        """The moves; those of the requests read last are cached until they change."""
        known = self._moves.get(request_id)
        if known is not None and known[0] == data:
            return known[1]
        parsed = parse(MovesRecord, data, _moves_path(request_id))
        if parsed.model_extra:
            self._unknown[request_id] = parsed.model_extra
        others = [other for other in self._moves.items() if other[0] != request_id]
        self._moves = dict([*others[1 - _REMEMBERED :], (request_id, (data, parsed))])
        return parsed

    def update(
        self,
        request_id: int,
        transform: Callable[[RequestRecord], RequestRecord],
        moves: Sequence[Move] | None = None,
    ) -> RequestRecord:
        """Replace the record by ``transform`` of it, and its moves, unless None, by ``moves`` in the same transaction.

        ``transform`` may run again after a lost race, and refuses by raising. Raises RequestError INVALID_REQUEST for
        a request that is not stored, and NewerRecordError for one that only a newer controller understands.
        """
        path = _path(request_id)

        def fill(transaction: TransactionRequest) -> RequestRecord:
            found = self._session.read(path)
            if found is None:
                raise unknown_request(request_id)
            new = transform(owned(parse(RequestRecord, found[0], path), path))
            transaction.set_data(path, dump(new), version=found[1])
            if moves is not None:
                transaction.set_data(_moves_path(request_id), self._dumped(request_id, moves))
            return new

        return self._session.compare_and_set(path, fill)

    def write_moves(self, request_id: int, moves: Sequence[Move]) -> None:
        """Replace the moves of a request; only for the thread that executes it. Raises ConflictError if it is not
        stored."""
        path = _moves_path(request_id)
        transaction = self._session.transaction()
        transaction.set_data(path, self._dumped(request_id, moves))
        self._session.commit(transaction, path)

    def _dumped(self, request_id: int, moves: Sequence[Move]) -> bytes:
        return dump(MovesRecord(moves=tuple(moves), **self._unknown.get(request_id, {})))

    def delete(self, request_id: int) -> None:
        """Delete a request, if it is stored."""
        self._unknown.pop(request_id, None)
        transaction = self._session.transaction()
        transaction.delete(_moves_path(request_id))
        transaction.delete(_path(request_id))
        try:
            self._session.commit(transaction, _path(request_id))
        except ConflictError:
            if self._session.read(_path(request_id)) is not None:
                raise


def unknown_request(request_id: object, field: str = "request_id") -> RequestError:
    """The error for an unknown request id: INVALID_REQUEST, as in KIP-179."""
    return invalid_request(f"{field} has the value {request_id!r}: no such reassignment is kept (any more)")


def _check_size(size: int, moves: Sequence[Move]) -> None:
    size += _GROWTH * sum(len(move.receiving) for move in moves)
    if size > MAX_BYTES:
        raise invalid_request(
            f"the request's {len(moves)} partitions would take {size} bytes in ZooKeeper, compressed, but at most "
            f"{MAX_BYTES} can be kept: divide it into several requests"
        )


def _plan(moves: Sequence[Move]) -> PlanRecord:
    return PlanRecord(
        partitions=tuple(
            _PlannedPartition(
                topic=move.topic,
                partition=move.partition,
                replicas=move.after,
                log_dirs=tuple(
                    ANY if path is None else path for path in move.after_log_dirs or [None] * len(move.after)
                ),
            )
            for move in moves
        )
    )


def _path(request_id: int) -> str:
    return f"{STATUS}/{request_id}"


def _moves_path(request_id: int) -> str:
    return f"{STATUS}/{request_id}/moves"
