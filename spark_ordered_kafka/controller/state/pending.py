"""What requests to reassign partitions have still to do, which other changes of a topic would contradict.

Kafka lists moves in progress, but not those that wait for a slot: such a move would undo an earlier change.
"""

from __future__ import annotations

from collections.abc import Iterator

from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.errors import ErrorCode, RequestError


class PendingMoves:
    """Thread-safe. Every method may raise ZooKeeperError. No request is added while the lock for partition changes is held."""

    def __init__(self, store: ReassignmentStore) -> None:
        self._store = store
        self._topics: dict[int, frozenset[str]] = {}

    def refuse_resizing(self, topic: str) -> None:
        """Raise RequestError REASSIGNMENT_IN_PROGRESS while a partition of the topic is to get more or fewer replicas.

        New partitions would not have as many.
        """
        for request_id, move in self.of(topic):
            if len(move.after) != len(move.before):
                raise RequestError(
                    ErrorCode.REASSIGNMENT_IN_PROGRESS,
                    f"reassignment {request_id} changes the number of replicas of partition {topic}-{move.partition}: "
                    "wait for its end, or cancel it",
                )

    def of(self, topic: str) -> Iterator[tuple[int, Move]]:
        """The moves of a topic that wait or have begun, and the ids of their requests."""
        active = [request_id for request_id, record in self._store.records().items() if not record.ended]
        # The topics of a request never change, and callers ask for many topics one by one.
        known = {request_id: self._topics[request_id] for request_id in active if request_id in self._topics}
        for request_id in active:
            if topic not in known.get(request_id, (topic,)):
                continue
            read = self._store.find(request_id)
            moves = () if read is None else read[1].moves
            known[request_id] = frozenset(move.topic for move in moves)
            for move in moves:
                if move.topic == topic and move.state not in ENDED:
                    yield request_id, move
        self._topics = known
