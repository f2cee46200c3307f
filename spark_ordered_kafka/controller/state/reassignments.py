"""Requests to reassign partitions, in ZooKeeper (docs/architecture.md, "What is in ZooKeeper").

``/admin/reassign_partitions`` holds the newest request's plan, in the JSON of kafka-reassign-partitions; the version that
it gets by the write is the request's id (KIP-179), so ids only grow. ``/admin/reassign_partitions_status/<id>`` and its
child ``moves`` are written by the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kazoo.exceptions import NoNodeError
from pydantic import BaseModel, ConfigDict

from spark_ordered_kafka.controller.state.reassignment_records import ANY, Move, MovesRecord, RequestRecord
from spark_ordered_kafka.controller.zk.records import Record, dump, parse
from spark_ordered_kafka.controller.zk.session import ROOT, ConflictError, Session
from spark_ordered_kafka.errors import ErrorCode, RequestError

REASSIGNMENTS = f"{ROOT}/admin/reassign_partitions"
STATUS = f"{ROOT}/admin/reassign_partitions_status"
REASSIGNMENT_PATHS = (REASSIGNMENTS, STATUS)
"""To be made at the start of every controller: the version of a fresh znode is 0, so the first request is 1."""
MAX_BYTES = 900_000
"""Of what one transaction writes. A ZooKeeper packet may have 1 MB (``jute.maxbuffer``)."""

# What ``copied`` of a receiving replica adds to the moves later on, compressed: two numbers of up to 13 digits.
_GROWTH = 16
_CAS_ATTEMPTS = 5
# Requests whose moves are kept in memory as they were read last.
_REMEMBERED = 4


class _PlannedPartition(BaseModel):
    model_config = ConfigDict(frozen=True)

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]


class PlanRecord(Record):
    """``/admin/reassign_partitions``: what kafka-reassign-partitions reads and writes."""

    partitions: tuple[_PlannedPartition, ...]


class ReassignmentStore:
    """Reads and guarded writes of requests. Safe to share between threads.

    Raises ZooKeeperError when ZooKeeper does not answer, and DeposedError when a write is not this controller's to make
    (any more).
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: dict[int, RequestRecord] = {}
        self._moves: dict[int, tuple[bytes, MovesRecord]] = {}

    def create(self, fields: Callable[[int], RequestRecord], moves: Sequence[Move]) -> RequestRecord:
        """Store a request under the next id, which ``fields`` is given to make its record; may run it again.

        Raises RequestError INVALID_REQUEST, and writes nothing, when ZooKeeper could not hold it.
        """
        plan, children = dump(_plan(moves)), dump(MovesRecord(moves=tuple(moves)))
        for _ in range(_CAS_ATTEMPTS):
            version = self._version()
            record = fields(version + 1)
            data = dump(record)
            _check_size(len(plan) + len(children) + len(data), moves)
            path = _path(record.request_id)
            transaction = self._session.transaction()
            transaction.set_data(REASSIGNMENTS, plan, version=version)
            transaction.create(path, data)
            transaction.create(_moves_path(record.request_id), children)
            try:
                self._session.commit(transaction, REASSIGNMENTS)
            except ConflictError:
                continue
            return record
        raise ConflictError(REASSIGNMENTS)

    def ids(self) -> list[int]:
        """Of the requests that are kept, ascending; a linearizable read."""
        self._session.sync()
        return sorted(map(int, self._session.wait(self._session.client.get_children_async(STATUS), STATUS)))

    def latest(self) -> int | None:
        """The id of the newest request that is kept."""
        return max(self.ids(), default=None)

    def records(self) -> dict[int, RequestRecord]:
        """id -> request, ascending, of all that are kept, without their moves; a linearizable read.

        Requests that have ended do not change any more, and are read once: thousands may be kept.
        """
        ids, ended = self.ids(), self._ended
        get = self._session.client.get_async
        reads = {request_id: get(_path(request_id)) for request_id in ids if request_id not in ended}
        found: dict[int, RequestRecord] = {}
        for request_id in ids:
            path = _path(request_id)
            try:
                found[request_id] = (
                    parse(RequestRecord, self._session.wait(reads[request_id], path)[0], path)
                    if request_id in reads
                    else ended[request_id]
                )
            except NoNodeError:
                continue  # swept meanwhile
        self._ended = {request_id: record for request_id, record in found.items() if record.ended}
        return found

    def active(self) -> list[tuple[RequestRecord, MovesRecord]]:
        """Requests that have not ended, ascending by id, with their moves."""
        reads = [self.read(request_id) for request_id, record in self.records().items() if not record.ended]
        return [read for read in reads if read is not None and not read[0].ended]

    def read(self, request_id: int) -> tuple[RequestRecord, MovesRecord] | None:
        """A request and its moves, read linearizably; None when it is not kept."""
        found = self._session.read(_path(request_id))
        if found is None:
            return None
        path = _moves_path(request_id)
        try:
            data, _ = self._session.wait(self._session.client.get_async(path), path)
        except NoNodeError:
            return None  # deleted between the two
        return parse(RequestRecord, found[0], _path(request_id)), self._parsed(request_id, data)

    def _parsed(self, request_id: int, data: bytes) -> MovesRecord:
        """The moves; those of the last few requests that were read are not parsed again while they stay the same."""
        known = self._moves.get(request_id)
        if known is not None and known[0] == data:
            return known[1]
        parsed = parse(MovesRecord, data, _moves_path(request_id))
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
        a request that is not kept.
        """
        path = _path(request_id)
        for _ in range(_CAS_ATTEMPTS):
            found = self._session.read(path)
            if found is None:
                raise unknown_request(request_id)
            new = transform(parse(RequestRecord, found[0], path))
            transaction = self._session.transaction()
            transaction.set_data(path, dump(new), version=found[1])
            if moves is not None:
                transaction.set_data(_moves_path(request_id), dump(MovesRecord(moves=tuple(moves))))
            try:
                self._session.commit(transaction, path)
            except ConflictError:
                continue
            return new
        raise ConflictError(path)

    def write_moves(self, request_id: int, moves: Sequence[Move]) -> None:
        """Replace the moves of a request; for the one thread that carries it out. Raises ConflictError when it is not
        kept."""
        path = _moves_path(request_id)
        transaction = self._session.transaction()
        transaction.set_data(path, dump(MovesRecord(moves=tuple(moves))))
        self._session.commit(transaction, path)

    def delete(self, request_id: int) -> None:
        """Forget a request, if it is kept."""
        transaction = self._session.transaction()
        transaction.delete(_moves_path(request_id))
        transaction.delete(_path(request_id))
        try:
            self._session.commit(transaction, _path(request_id))
        except ConflictError:
            if self._session.read(_path(request_id)) is not None:
                raise

    def _version(self) -> int:
        """Of the plan's znode, read linearizably."""
        found = self._session.read(REASSIGNMENTS)
        if found is None:
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {REASSIGNMENTS} is not there any more")
        return found[1]


def unknown_request(request_id: object, field: str = "request_id") -> RequestError:
    """INVALID_REQUEST, as KIP-179 has it."""
    return RequestError(
        ErrorCode.INVALID_REQUEST,
        f"{field} has the value {request_id!r}: no such reassignment is kept (any more)",
    )


def _check_size(size: int, moves: Sequence[Move]) -> None:
    size += _GROWTH * sum(len(move.receiving) for move in moves)
    if size > MAX_BYTES:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"the request's {len(moves)} partitions would take {size} bytes in ZooKeeper, compressed, but at most "
            f"{MAX_BYTES} can be kept: divide it into several requests",
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
