"""Requests that wait for a second principal, in ZooKeeper.

``/reviews/<id>`` holds one each. Its id is the version of the parent's znode after the same transaction, so ids only
grow. A request is claimed before it is executed, and a claim is never released: a request that was claimed by a
controller that has ended since is in doubt, and is not executed again.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from kazoo.client import TransactionRequest
from pydantic import ConfigDict, Field
from pydantic_core import from_json

from spark_ordered_kafka.client.schemas.base import Open
from spark_ordered_kafka.client.schemas.reviews import ReviewList, ReviewStatus, ReviewView
from spark_ordered_kafka.controller.results import view
from spark_ordered_kafka.controller.zk.records import Record, dump, number, owned, parse
from spark_ordered_kafka.controller.zk.session import CONTROLLER_EPOCH, ROOT, Session
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.updates import updated

REVIEWS = f"{ROOT}/reviews"
EXPIRY = 24 * 3600.0
"""Seconds after which a pending request can no longer be approved."""
_KEPT = 7 * 24 * 3600.0
_MAX_PENDING = 100
_MAX_KEPT = 200
# A znode may have 1 MB (jute.maxbuffer).
_MAX_BYTES = 900_000


_Stored = Literal["pending", "approved", "done", "failed", "discarded"]


class ReviewRecord(Record):
    """``/reviews/<id>``. ``status`` is ``approved`` from the claim on; ``controller_epoch`` is that of the claim.

    ``path`` is in its route's canonical form, ``query`` as it was sent, ``key`` the idempotency key. ``body`` and
    ``answer`` are JSON. ``topics`` has a hash of the state of each topic that the request names, as of its submission.
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
    status: Open[_Stored] = "pending"
    decided_by: str | None = None
    decided_at: float | None = None
    controller_epoch: int | None = None
    answer_status: int | None = None
    answer: bytes | None = None

    @property
    def expires_at(self) -> float:
        """Seconds since the epoch."""
        return self.requested_at + EXPIRY

    @property
    def is_newer(self) -> bool:
        """Also if its status is unknown."""
        return super().is_newer or self.status not in get_args(_Stored)

    def is_again(self, other: ReviewRecord) -> bool:
        """Whether both are the same request, sent again by a client that got no answer."""
        return self.key is not None and all(
            getattr(self, name) == getattr(other, name)
            for name in ("key", "principal", "method", "path", "query", "body")
        )


class Reviews:
    """The stored requests. Safe to share between threads. ``clock`` gives seconds since the epoch.

    Raises UnavailableError when ZooKeeper does not answer, and DeposedError when this controller does not lead
    any more.
    """

    def __init__(self, session: Session, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    def add(self, record: ReviewRecord) -> int:
        """Store a request and return its id. A request that is sent again with its idempotency key is stored once.

        Raises RequestError INVALID_REQUEST when it, or their number, is too large.
        """
        data = dump(record)
        # Count the uncompressed body as well: all stored requests are read together.
        size = max(len(data), len(record.body))
        if size > _MAX_BYTES:
            raise invalid_request(
                f"the request takes {size} bytes, but at most {_MAX_BYTES} can be kept for a review: divide it"
            )

        def fill(transaction: TransactionRequest) -> int:
            version = self._session.version(REVIEWS)
            kept = self._records()
            earlier = _earlier(record, kept)
            if earlier is not None:
                return earlier
            now = self._clock()
            pending = sum(self._status(old, now, None) == "pending" for old in kept.values())
            if pending >= _MAX_PENDING:
                raise invalid_request(f"{pending} requests wait for a review: decide about them first")
            transaction.set_data(REVIEWS, b"", version=version)
            for outdated in _outdated(kept, now):
                transaction.delete(_path(outdated))
            transaction.create(_path(version + 1), data)
            return version + 1

        return self._session.compare_and_set(REVIEWS, fill)

    def earlier(self, record: ReviewRecord) -> int | None:
        """The id of the same request, in any status, if it was stored before under its idempotency key."""
        if record.key is None:
            return None
        self._session.version(REVIEWS)
        return _earlier(record, self._records())

    def get(self, review_id: int) -> tuple[ReviewRecord, Open[ReviewStatus]]:
        """A stored request, read linearizably. Raises RequestError RESOURCE_NOT_FOUND."""
        record, _ = self._read(review_id)
        return record, self._status(record, self._clock(), self._epoch())

    def all(self) -> dict[int, tuple[ReviewRecord, Open[ReviewStatus]]]:
        """All stored requests, the newest first."""
        self._session.version(REVIEWS)
        epoch, now = self._epoch(), self._clock()
        records = self._records()
        return {i: (records[i], self._status(records[i], now, epoch)) for i in sorted(records, reverse=True)}

    def listed(self) -> ReviewList:
        """:meth:`all`, as the API shows them."""
        kept = self.all().items()
        return ReviewList(
            reviews=[review_view(review_id, record, status) for review_id, (record, status) in kept]
        )

    def claim(self, review_id: int, principal: str) -> ReviewRecord:
        """Claim a pending request for execution, which is possible only once.

        Raises RequestError: RESOURCE_NOT_FOUND, CLUSTER_AUTHORIZATION_FAILED for the principal that submitted it,
        INVALID_REQUEST if it is not pending.
        """

        def claimed(record: ReviewRecord) -> ReviewRecord:
            epoch, _ = self._session.guard()
            self.check_approvable(review_id, record, principal)
            return updated(
                record,
                status="approved",
                decided_by=principal,
                decided_at=self._clock(),
                controller_epoch=epoch,
            )

        return self._update(review_id, claimed)

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
        """Store the outcome of a claimed request, without an answer that is too large."""

        def finished(record: ReviewRecord) -> ReviewRecord:
            new = updated(record, status=status, answer_status=answer_status, answer=answer)
            return new if len(dump(new)) <= _MAX_BYTES else updated(new, answer=None)

        return self._update(review_id, finished)

    def discard(self, review_id: int, principal: str) -> ReviewRecord:
        """Discard a request that is pending or in doubt. Raises RequestError RESOURCE_NOT_FOUND or INVALID_REQUEST."""

        def discarded(record: ReviewRecord) -> ReviewRecord:
            status = self._status(record, self._clock(), self._epoch())
            if status not in ("pending", "in_doubt"):
                raise _not_pending(review_id, status)
            return updated(record, status="discarded", decided_by=principal, decided_at=self._clock())

        return self._update(review_id, discarded)

    def _epoch(self) -> int:
        """Epoch of the controller that leads now, or led last."""
        found = self._session.read(CONTROLLER_EPOCH)
        return 0 if found is None else number(found[0], CONTROLLER_EPOCH)

    def _records(self) -> dict[int, ReviewRecord]:
        return {
            number(name, f"{REVIEWS}/{name}"): parse(ReviewRecord, data, f"{REVIEWS}/{name}")
            for name, data in self._session.children(REVIEWS).items()
        }

    def _read(self, review_id: int) -> tuple[ReviewRecord, int]:
        found = self._session.read(_path(review_id))
        if found is None:
            raise RequestError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no review {review_id}")
        return parse(ReviewRecord, found[0], _path(review_id)), found[1]

    def _update(self, review_id: int, transform: Callable[[ReviewRecord], ReviewRecord]) -> ReviewRecord:
        """Replace the request by ``transform`` of it, which may run again and refuses by raising.

        Raises NewerRecordError for a request that only a newer controller understands.
        """

        def fill(transaction: TransactionRequest) -> ReviewRecord:
            record, version = self._read(review_id)
            new = transform(owned(record, _path(review_id)))
            transaction.set_data(_path(review_id), dump(new), version=version)
            return new

        return self._session.compare_and_set(_path(review_id), fill)

    def _status(self, record: ReviewRecord, now: float, epoch: int | None) -> Open[ReviewStatus]:
        """``epoch`` None: any claim counts as being executed."""
        if record.status == "pending" and now >= record.expires_at:
            return "expired"
        if record.status == "approved" and epoch is not None and record.controller_epoch != epoch:
            return "in_doubt"
        return record.status


def review_view(review_id: int, record: ReviewRecord, status: Open[ReviewStatus]) -> ReviewView:
    """A stored request as the API shows it."""
    return view(
        ReviewView,
        record,
        review_id=review_id,
        status=status,
        requested_by=record.principal,
        body=from_json(record.body) if record.body else None,
        answer=from_json(record.answer) if record.answer else None,  # a bug answers nothing
    )


def _earlier(record: ReviewRecord, kept: Mapping[int, ReviewRecord]) -> int | None:
    return next((review_id for review_id, old in kept.items() if record.is_again(old)), None)


def _person(principal: str) -> str:
    """Key of a principal's user: a directory behind Kafka may treat ``Alice`` and ``alice`` as one user."""
    return unicodedata.normalize("NFKC", principal).casefold().strip()


def _path(review_id: int) -> str:
    return f"{REVIEWS}/{review_id}"


def _not_pending(review_id: int, status: Open[ReviewStatus]) -> RequestError:
    return invalid_request(f"review {review_id} is not pending: it is {status}")


def _outdated(records: dict[int, ReviewRecord], now: float) -> list[int]:
    """Ids of requests that are old enough to be deleted."""
    over = {
        review_id: record.expires_at if record.decided_at is None else record.decided_at
        for review_id, record in records.items()
        if not record.is_newer and (record.status != "pending" or now >= record.expires_at)
    }
    oldest = sorted(over, key=lambda review_id: over[review_id])
    return [
        review_id
        for index, review_id in enumerate(oldest)
        if now - over[review_id] > _KEPT or len(oldest) - index > _MAX_KEPT
    ]
