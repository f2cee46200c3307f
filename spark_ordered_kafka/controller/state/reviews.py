"""Requests that wait for a second principal, in ZooKeeper.

``/reviews/<id>`` holds one each. An id is the version that the parent's znode gets by the same transaction, so ids only
grow. A request is claimed before it is carried out, and a claim is never taken back: what was claimed by a controller
that then ended is in doubt, and is not done again.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import ConfigDict, Field
from pydantic_core import from_json

from spark_ordered_kafka.client.schemas.reviews import ReviewStatus, ReviewView
from spark_ordered_kafka.controller.zk.records import Record, dump, parse
from spark_ordered_kafka.controller.zk.session import CONTROLLER_EPOCH, ROOT, ConflictError, Session
from spark_ordered_kafka.errors import ErrorCode, RequestError

REVIEWS = f"{ROOT}/reviews"
EXPIRY = 24 * 3600.0
"""Seconds after which a request that nobody has decided about can no longer be approved."""
_KEPT = 7 * 24 * 3600.0
_MAX_PENDING = 100
_MAX_KEPT = 200
# A znode may have 1 MB (jute.maxbuffer).
_MAX_BYTES = 900_000
_CAS_ATTEMPTS = 5


class ReviewRecord(Record):
    """``/reviews/<id>``. ``status`` is ``approved`` from the claim on; ``controller_epoch`` is whose claim it is.

    ``path`` is as its route writes it, ``query`` as it was sent, ``key`` the request's idempotency key. ``body`` and
    ``answer`` are JSON. ``topics``: a hash for each topic that the request names, of what it was about when it was asked for.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    method: str
    path: str
    query: str
    body: bytes
    reason: str | None
    principal: str
    host: str
    requested_at: float
    key: str | None = None
    topics: dict[str, str] = Field(default_factory=dict)
    status: Literal["pending", "approved", "done", "failed", "discarded"] = "pending"
    decided_by: str | None = None
    decided_at: float | None = None
    controller_epoch: int | None = None
    answer_status: int | None = None
    answer: bytes | None = None

    @property
    def expires_at(self) -> float:
        """Seconds since the epoch."""
        return self.requested_at + EXPIRY

    def is_again(self, other: ReviewRecord) -> bool:
        """Whether both are one request, which its client sent twice, since it got no answer."""
        return self.key is not None and all(
            getattr(self, name) == getattr(other, name)
            for name in ("key", "principal", "method", "path", "query", "body")
        )


class Reviews:
    """The stored requests. Safe to share between threads. ``clock`` gives seconds since the epoch.

    Raises UnavailableError when ZooKeeper does not answer, and DeposedError when a write is not this controller's to
    make.
    """

    def __init__(self, session: Session, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    def add(self, record: ReviewRecord) -> int:
        """Store a request; its id. One that comes again with the same idempotency key is stored once.

        Raises RequestError INVALID_REQUEST when it, or their number, is too large.
        """
        data = dump(record)
        # The body as it is, too: all that are kept are read together, and compressed they may be tiny.
        size = max(len(data), len(record.body))
        if size > _MAX_BYTES:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"the request takes {size} bytes, but at most {_MAX_BYTES} can be kept for a review: divide it",
            )
        for _ in range(_CAS_ATTEMPTS):
            version = self._version()
            kept = self._records()
            earlier = _earlier(record, kept)
            if earlier is not None:
                return earlier
            now = self._clock()
            pending = sum(self._status(old, now, None) == "pending" for old in kept.values())
            if pending >= _MAX_PENDING:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"{pending} requests wait for a review: decide about them first",
                )
            transaction = self._session.transaction()
            transaction.set_data(REVIEWS, b"", version=version)
            for outdated in _outdated(kept, now):
                transaction.delete(_path(outdated))
            transaction.create(_path(version + 1), data)
            try:
                self._session.commit(transaction, REVIEWS)
            except ConflictError:
                continue
            return version + 1
        raise ConflictError(REVIEWS)

    def earlier(self, record: ReviewRecord) -> int | None:
        """The id of the same request, if it came before with the same idempotency key; whatever became of it."""
        if record.key is None:
            return None
        self._version()
        return _earlier(record, self._records())

    def get(self, review_id: int) -> tuple[ReviewRecord, ReviewStatus]:
        """A stored request, read linearizably. Raises RequestError RESOURCE_NOT_FOUND."""
        record, _ = self._read(review_id)
        return record, self._status(record, self._clock(), self._epoch())

    def all(self) -> dict[int, tuple[ReviewRecord, ReviewStatus]]:
        """All that are still kept, the newest first."""
        self._version()
        epoch, now = self._epoch(), self._clock()
        records = self._records()
        return {i: (records[i], self._status(records[i], now, epoch)) for i in sorted(records, reverse=True)}

    def claim(self, review_id: int, principal: str) -> ReviewRecord:
        """Take a pending request to carry it out, which nobody can do twice.

        Raises RequestError: RESOURCE_NOT_FOUND, CLUSTER_AUTHORIZATION_FAILED for whoever asked for it, INVALID_REQUEST
        when it is not pending.
        """
        record, version = self._read(review_id)
        epoch, _ = self._session.guard()
        self.check_approvable(review_id, record, principal)
        claimed = record.model_copy(
            update={
                "status": "approved",
                "decided_by": principal,
                "decided_at": self._clock(),
                "controller_epoch": epoch,
            }
        )
        self._replace(review_id, claimed, version)
        return claimed

    def check_approvable(self, review_id: int, record: ReviewRecord, principal: str) -> None:
        """Raises as :meth:`claim`."""
        status = self._status(record, self._clock(), None)
        if status != "pending":
            raise _not_pending(review_id, status)
        if _person(record.principal) == _person(principal):
            raise RequestError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"review {review_id} was asked for by {principal}: somebody else must approve it",
            )

    def finish(
        self, review_id: int, status: Literal["done", "failed"], answer_status: int, answer: bytes
    ) -> ReviewRecord:
        """Say how the carrying out of a claimed request ended. An answer too large to keep is left out."""
        record, version = self._read(review_id)
        finished = record.model_copy(
            update={
                "status": status,
                "answer_status": answer_status,
                "answer": answer,
            }
        )
        if len(dump(finished)) > _MAX_BYTES:
            finished = finished.model_copy(update={"answer": None})
        self._replace(review_id, finished, version)
        return finished

    def discard(self, review_id: int, principal: str) -> ReviewRecord:
        """Give up a request that is pending, or in doubt. Raises RequestError RESOURCE_NOT_FOUND or INVALID_REQUEST."""
        record, version = self._read(review_id)
        status = self._status(record, self._clock(), self._epoch())
        if status not in ("pending", "in_doubt"):
            raise _not_pending(review_id, status)
        update = {"status": "discarded", "decided_by": principal, "decided_at": self._clock()}
        discarded = record.model_copy(update=update)
        self._replace(review_id, discarded, version)
        return discarded

    def _version(self) -> int:
        """Of the parent's znode, read linearizably."""
        found = self._session.read(REVIEWS)
        if found is None:
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"znode {REVIEWS} is not there any more")
        return found[1]

    def _epoch(self) -> int:
        """Of the controller that leads now, or led last."""
        found = self._session.read(CONTROLLER_EPOCH)
        return 0 if found is None else int(found[0])

    def _records(self) -> dict[int, ReviewRecord]:
        return {
            int(name): parse(ReviewRecord, data, f"{REVIEWS}/{name}")
            for name, data in self._session.children(REVIEWS).items()
        }

    def _read(self, review_id: int) -> tuple[ReviewRecord, int]:
        found = self._session.read(_path(review_id))
        if found is None:
            raise RequestError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no review {review_id}")
        return parse(ReviewRecord, found[0], _path(review_id)), found[1]

    def _replace(self, review_id: int, record: ReviewRecord, version: int) -> None:
        transaction = self._session.transaction()
        transaction.set_data(_path(review_id), dump(record), version=version)
        try:
            self._session.commit(transaction, _path(review_id))
        except ConflictError as error:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"review {review_id} was decided about by somebody else meanwhile"
            ) from error

    def _status(self, record: ReviewRecord, now: float, epoch: int | None) -> ReviewStatus:
        """``epoch`` None: a claim counts as being carried out, whoever made it."""
        if record.status == "pending" and now >= record.expires_at:
            return "expired"
        if record.status == "approved" and epoch is not None and record.controller_epoch != epoch:
            return "in_doubt"
        return record.status


def review_view(review_id: int, record: ReviewRecord, status: ReviewStatus) -> ReviewView:
    """A stored request as the API shows it."""
    return ReviewView(
        review_id=review_id,
        status=status,
        method=record.method,
        path=record.path,
        query=record.query,
        reason=record.reason,
        requested_by=record.principal,
        requested_at=record.requested_at,
        expires_at=record.expires_at,
        decided_by=record.decided_by,
        decided_at=record.decided_at,
        answer_status=record.answer_status,
        body=from_json(record.body) if record.body else None,
        answer=from_json(record.answer) if record.answer else None,  # a bug answers nothing
    )


def _earlier(record: ReviewRecord, kept: Mapping[int, ReviewRecord]) -> int | None:
    return next((review_id for review_id, old in kept.items() if record.is_again(old)), None)


def _person(principal: str) -> str:
    """Whom a principal names: a directory behind Kafka may take ``Alice`` and ``alice`` for the same user."""
    return unicodedata.normalize("NFKC", principal).casefold().strip()


def _path(review_id: int) -> str:
    return f"{REVIEWS}/{review_id}"


def _not_pending(review_id: int, status: ReviewStatus) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, f"review {review_id} is not pending: it is {status}")


def _outdated(records: dict[int, ReviewRecord], now: float) -> list[int]:
    """Those that nobody will look up any more."""
    over = {
        review_id: record.expires_at if record.decided_at is None else record.decided_at
        for review_id, record in records.items()
        if record.status != "pending" or now >= record.expires_at
    }
    oldest = sorted(over, key=lambda review_id: over[review_id])
    return [
        review_id
        for place, review_id in enumerate(oldest)
        if now - over[review_id] > _KEPT or len(oldest) - place > _MAX_KEPT
    ]
