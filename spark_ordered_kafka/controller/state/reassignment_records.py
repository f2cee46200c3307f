"""Records of requests to reassign partitions. PURE."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from pydantic import BaseModel, Field

from spark_ordered_kafka.client.schemas.base import Open
from spark_ordered_kafka.client.schemas.reassignments import ReassignmentState
from spark_ordered_kafka.controller.zk.records import OPEN, Record
from spark_ordered_kafka.kafka.values import Reassignment

MoveState = Literal["waiting", "starting", "moving", "placing", "done", "failed", "cancelled"]
ANY = "any"
"""In Kafka's JSON, the log directory of a replica whose broker may choose one."""
ENDED: frozenset[MoveState] = frozenset({"done", "failed", "cancelled"})
_MOVE_STATES = frozenset(get_args(MoveState))
_REQUEST_STATES = frozenset(get_args(ReassignmentState))


class Move(BaseModel):
    """One partition of a request, and its progress.

    Attributes:
        before: replicas when the request was made, preferred leader first; ``before_log_dirs`` their log directories in the
            same order, ``any`` if the broker did not report it; None: not read, since the request names none.
        topic_id: Kafka's id of the topic: another topic of the same name must not be moved.
        after: requested replicas; ``after_log_dirs`` their log directories, None (or an entry that is None): any.
        state: ``waiting`` for a slot; ``starting``: Kafka is about to be asked, or was asked; ``moving``: Kafka reassigns it;
            ``placing``: its replicas move to their log directories; then the outcome.
        error_code: of a move that failed or was cancelled; 0 otherwise.
        copied: receiving broker -> bytes copied, and bytes in all (-1: not known).
    """

    model_config = OPEN

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    topic_id: str = ""
    before_log_dirs: tuple[str, ...] | None = None
    after_log_dirs: tuple[str | None, ...] | None = None
    state: Open[MoveState] = "waiting"
    error_code: int = 0
    error_message: str | None = None
    copied: dict[int, tuple[int, int]] = Field(default_factory=dict)

    @property
    def tp(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose a replica."""
        return tuple(broker for broker in self.before if broker not in self.after)

    def precedes_end(self, replicas: Collection[int]) -> bool:
        """Whether a broker that shows these replicas may not know the end of this move, which has come (D-385)."""
        if self.before == self.after:
            return False
        during = {*self.before, *self.after}
        return tuple(replicas) == self.before or (bool(self.removing) and during == {*replicas})

    @property
    def reassignment(self) -> Reassignment:
        """The reassignment as Kafka shows it while it is in progress."""
        return Reassignment((*self.after, *self.removing), self.adding, self.removing)

    @property
    def placements(self) -> dict[int, str]:
        """Broker -> log directory, of the replicas of ``after`` for which one is named."""
        dirs = self.after_log_dirs or ()
        return {broker: path for broker, path in zip(self.after, dirs, strict=False) if path is not None}

    @property
    def receiving(self) -> tuple[int, ...]:
        """Brokers that get bytes: a new replica, or one in another log directory."""
        if self.after_log_dirs is None:
            return self.adding  # the fast path: this is called often for each of 10,000 replicas
        where = dict(zip(self.before, self.before_log_dirs or (), strict=False))
        moved = {b for b, path in self.placements.items() if where.get(b) != path}
        return tuple(broker for broker in self.after if broker not in self.before or broker in moved)


class Sums(BaseModel):
    """Totals of a request that has ended: bytes copied, bytes in all, and the number of moves by state."""

    model_config = OPEN

    numerator: int
    denominator: int
    states: dict[str, int]


class RequestRecord(Record):
    """``/admin/reassign_partitions_status/<id>``; times in seconds since the epoch, rates in bytes per second.

    ``key`` is the idempotency key of its HTTP request, None without one. ``state`` is ``running`` or ``cancelling`` until it
    has ended; then it has its ``sums``, so that the list of requests need not read its moves.
    """

    request_id: int
    created_at: float
    ended_at: float | None = None
    state: Open[ReassignmentState] = "running"
    principal: str
    key: str | None = None
    throttle: int | None = None
    replica_alter_log_dirs_throttle: int | None = None
    elect_leaders: bool = True
    rollback_of: int | None = None
    warnings: tuple[str, ...] = ()
    sums: Sums | None = None

    @property
    def owner(self) -> str:
        """The owner of its reservations (:class:`~spark_ordered_kafka.controller.topics.capacities.Capacities`)."""
        return f"reassignment {self.request_id}"

    @property
    def ended(self) -> bool:
        """Whether it has ended. A state that only a newer controller knows has ended if it has an end time."""
        return self.state in ENDED if self.state in _REQUEST_STATES else self.ended_at is not None

    @property
    def is_newer(self) -> bool:
        """Also with a state that only a newer controller knows."""
        return super().is_newer or self.state not in _REQUEST_STATES


class MovesRecord(Record):
    """``/admin/reassign_partitions_status/<id>/moves``."""

    moves: tuple[Move, ...]

    @property
    def is_newer(self) -> bool:
        """Also with a move in a state that only a newer controller knows."""
        return super().is_newer or any(move.state not in _MOVE_STATES for move in self.moves)
