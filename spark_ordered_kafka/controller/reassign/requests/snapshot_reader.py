"""What Kafka says about partitions that are to be moved, all of them asked at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from spark_ordered_kafka.client.schemas import PartitionReassignment
from spark_ordered_kafka.controller.reassign.requests.validation import (
    BrokerDirs,
    Going,
    Known,
    names_log_dirs,
    refactored,
)
from spark_ordered_kafka.controller.state.change import refuse_second
from spark_ordered_kafka.controller.state.reassignment_records import ENDED, Move, RequestRecord
from spark_ordered_kafka.controller.state.reassignments import ReassignmentStore
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import PROPAGATION, USUAL_PROPAGATION
from spark_ordered_kafka.kafka.log_dir_requests import LogDirs
from spark_ordered_kafka.kafka.reassignments import Reassignments
from spark_ordered_kafka.kafka.rows import by_topic
from spark_ordered_kafka.kafka.values import LogDir, PartitionId, TopicDescription
from spark_ordered_kafka.parsing import is_topic_name

MAX_NAMED = 1000
"""Of more topics, a list of all is shorter than the question for these."""

_POLL = 0.1

Rows = Sequence[PartitionReassignment]


def describe(admin: KafkaAdmin, topics: Iterable[str]) -> dict[str, TopicDescription]:
    """Those of ``topics`` that exist, of whichever names a request holds; raises UnavailableError without an answer."""
    missing = {topic for topic in topics if is_topic_name(topic)}
    found: dict[str, TopicDescription] = {}
    deadline = time.monotonic() + USUAL_PROPAGATION
    while True:
        told = admin.describe_topics(sorted(missing) if len(missing) <= MAX_NAMED else None)
        found |= {topic: told[topic] for topic in missing if topic in told}
        missing -= told.keys()
        if not missing or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL)  # one that was just made is not known to every broker


class SnapshotReader:
    """Kafka as requests are validated against it. Every method raises UnavailableError when it, or ZooKeeper, does not
    answer. ``timeout`` in seconds is for each call; ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        admin: KafkaAdmin,
        store: ReassignmentStore,
        znodes: Znodes,
        clock: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        self.reassignments = Reassignments(admin.requests, timeout=timeout)
        self.log_dirs = LogDirs(admin.requests, timeout=timeout)
        self._admin = admin
        self._store = store
        self._znodes = znodes
        self._clock = clock

    def known(self, rows: Rows) -> Known:
        """All that :func:`~spark_ordered_kafka.controller.reassign.requests.validation.validate` needs to know."""
        # Before and after the topics: replicas of one that ends between the two may be those of before.
        going = self._going()
        topics = describe(self._admin, (row.topic for row in rows))
        log_dirs: Mapping[int, BrokerDirs | OrderedKafkaError] = {}
        if names_log_dirs(rows):
            log_dirs = self.dirs([(r.topic, r.partition) for r in rows], [r.replicas for r in rows], topics)
        return Known(
            topics=topics,
            alive={broker.id for broker in self._admin.brokers()},
            going=going | self._going(),
            log_dirs=log_dirs,
            changing=self.changing(refactored(rows, topics)),
        )

    def changing(self, topics: set[str]) -> dict[str, RequestError]:
        """Those of ``topics`` with a partition change in progress, which counts on their replicas."""
        found: dict[str, RequestError] = {}
        for topic in sorted(topics):
            record, _ = self._znodes.read_topic(topic)
            try:
                refuse_second(topic, None if record is None else record.change)
            except RequestError as error:
                found[topic] = error
        return found

    def settled(self, record: RequestRecord, moves: Sequence[Move]) -> dict[str, TopicDescription]:
        """The topics of a request that has ended; brokers may have to hear of its end first."""
        names = {move.topic for move in moves}
        until = PROPAGATION if record.ended_at is None else record.ended_at + PROPAGATION - self._clock()
        deadline = time.monotonic() + min(PROPAGATION, until)
        while True:
            topics = describe(self._admin, names)
            late = any(
                move.state == "done" and move.after != move.before and _replicas(move, topics) == move.before
                for move in moves
            )
            if not late or time.monotonic() >= deadline:
                return topics
            time.sleep(_POLL)  # Kafka has no call that waits for it

    def dirs(
        self,
        places: Sequence[PartitionId],
        targets: Sequence[Sequence[int]],
        topics: Mapping[str, TopicDescription],
    ) -> dict[int, BrokerDirs | OrderedKafkaError]:
        """Log directories of the live brokers that ``places`` are on, or go to."""
        there = {p for p in places if p[0] in topics and 0 <= p[1] < len(topics[p[0]].partitions)}
        brokers = {broker for topic, p in there for broker in topics[topic].partitions[p].replicas}
        brokers.update(broker for target in targets for broker in target)
        alive = {broker.id for broker in self._admin.brokers()}
        answers = self.log_dirs.describe(brokers & alive, by_topic(there))
        return {
            broker: answer if isinstance(answer, OrderedKafkaError) else _dirs(answer)
            for broker, answer in answers.items()
        }

    def _going(self) -> dict[PartitionId, Going]:
        """All that is being reassigned, or waits for it."""
        going = {
            place: Going(one.adding, one.removing) for place, one in self.reassignments.all_ongoing().items()
        }
        for record, moves in self._store.active():
            for move in moves.moves:
                if move.state not in ENDED:
                    going[move.place] = Going(move.adding, move.removing, record.request_id)
        return going


def _dirs(found: Iterable[LogDir]) -> BrokerDirs:
    paths: dict[str, int] = {}
    held: dict[PartitionId, str] = {}
    for one in found:
        paths[one.path] = one.error_code
        held |= {(row.topic, row.partition): one.path for row in one.replicas if not row.is_future}
    return BrokerDirs(paths, held)


def _replicas(move: Move, topics: Mapping[str, TopicDescription]) -> tuple[int, ...]:
    topic = topics.get(move.topic)
    if topic is None or topic.topic_id != move.topic_id or move.partition >= len(topic.partitions):
        return ()
    return topic.partitions[move.partition].replicas
