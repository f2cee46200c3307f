"""What is kept of a request to reassign partitions. PURE."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from spark_ordered_kafka.client.schemas.reassignments import ReassignmentState
from spark_ordered_kafka.controller.zk.records import Record

MoveState = Literal["waiting", "starting", "moving", "placing", "done", "failed", "cancelled"]
ANY = "any"
"""In Kafka's JSON, the log directory of a replica that may be in whichever its broker chooses."""
ENDED: frozenset[MoveState] = frozenset({"done", "failed", "cancelled"})


class Move(BaseModel):
    """One partition of a request, and how far it is.

    Attributes:
        before: replicas when the request was made, preferred leader first; ``before_log_dirs`` their log directories in the
            same order, ``any`` where a broker did not tell; None: not looked at, since the request names none.
        topic_id: Kafka's id of the topic that is meant: one of the same name with another id is another topic, and must not be moved.
        after: replicas as they are to be; ``after_log_dirs`` their log directories, None (or an entry that is None): any.
        state: ``waiting`` for its turn; ``starting``: Kafka is about to be asked, or was; ``moving``: Kafka is at it;
            ``placing``: the replicas are there and go to their log directories; then how it ended.
        error_code: of what failed or was cancelled; 0 otherwise.
        copied: receiving broker -> bytes that are there and bytes that there will be (-1: not known).
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    topic_id: str = ""
    before_log_dirs: tuple[str, ...] | None = None
    after_log_dirs: tuple[str | None, ...] | None = None
    state: MoveState = "waiting"
    error_code: int = 0
    error_message: str | None = None
    copied: dict[int, tuple[int, int]] = Field(default_factory=dict)

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that give theirs up."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def placements(self) -> dict[int, str]:
        """Broker -> log directory, of the replicas of ``after`` for which one is named."""
        dirs = self.after_log_dirs or ()
        return {broker: path for broker, path in zip(self.after, dirs, strict=False) if path is not None}

    @property
    def receiving(self) -> tuple[int, ...]:
        """Brokers that get bytes: a new replica, or one in another log directory."""
        if self.after_log_dirs is None:
            return self.adding  # quickly: of 10,000 replicas it is asked again and again
        where = dict(zip(self.before, self.before_log_dirs or (), strict=False))
        moved = {b for b, path in self.placements.items() if where.get(b) != path}
        return tuple(broker for broker in self.after if broker not in self.before or broker in moved)


class Sums(BaseModel):
    """What a request has come to, in bytes, and how many of its moves ended in which way."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    numerator: int
    denominator: int
    states: dict[MoveState, int]


class RequestRecord(Record):
    """``/admin/reassign_partitions_status/<id>``; times in seconds since the epoch, rates in bytes per second.

    ``key`` is the idempotency key of the request that made it, if it had one. ``state`` is ``running`` or ``cancelling`` until it has
    ended, and has its ``sums`` from then on: the list of requests needs no moves of it.
    """

    request_id: int
    created_at: float
    ended_at: float | None = None
    state: ReassignmentState = "running"
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
        """Whose promises of brokers' capacity are this request's (:class:`~spark_ordered_kafka.controller.topics.capacities.Capacities`)."""
        return f"reassignment {self.request_id}"

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.state not in ("running", "cancelling")


class MovesRecord(Record):
    """``/admin/reassign_partitions_status/<id>/moves``."""

    moves: tuple[Move, ...]
