"""What requests to reassign partitions have still to do, which other changes of a topic would contradict.

Kafka tells what it is at, and not what waits for its turn: such a move would take back what was changed before it began.
"""

from __future__ import annotations

from collections.abc import Iterator

from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.errors import ErrorCode, RequestError


class PendingMoves:
    """Safe to share between threads. Every method raises RequestError REASSIGNMENT_IN_PROGRESS, or ZooKeeperError.

    Who holds the lock that the start of a partition change takes knows that no request comes meanwhile.
    """

    def __init__(self, store: ReassignmentStore) -> None:
        self._store = store
        self._topics: dict[int, frozenset[str]] = {}

    def refuse_any(self, topic: str) -> None:
        """Refuse while a partition of the topic is to be moved."""
        for request_id, move in self._of(topic):
            raise _refusal(move, request_id, "moves")

    def refuse_resizing(self, topic: str) -> None:
        """Refuse while a partition of the topic is to get more or fewer replicas: new ones would not have as many."""
        for request_id, move in self._of(topic):
            if len(move.after) != len(move.before):
                raise _refusal(move, request_id, "changes the number of replicas of")

    def _of(self, topic: str) -> Iterator[tuple[int, Move]]:
        active = [request_id for request_id, record in self._store.records().items() if not record.ended]
        # Which topics a request is about never changes, and those of very many topics are asked for one by one.
        known = {request_id: self._topics[request_id] for request_id in active if request_id in self._topics}
        for request_id in active:
            if topic not in known.get(request_id, (topic,)):
                continue
            read = self._store.read(request_id)
            moves = () if read is None else read[1].moves
            known[request_id] = frozenset(move.topic for move in moves)
            for move in moves:
                if move.topic == topic and move.state not in ENDED:
                    yield request_id, move
        self._topics = known


def _refusal(move: Move, request_id: int, what: str) -> RequestError:
    return RequestError(
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        f"reassignment {request_id} {what} partition {move.topic}-{move.partition}: wait for its end, or cancel it",
    )
