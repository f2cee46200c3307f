"""What listeners are sent about a cluster: samples of its state, and what differs from what one of them has (D-279)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.shared_query import Answer, SharedQuery

_SHARE = 10
"""A sample is taken in at most one part in so many of the time."""
_MIN_AGE = 0.9


@dataclass(frozen=True)
class Sample:
    """The state of one moment; all of it comes from this process and from ZooKeeper."""

    role: schemas.Readiness
    controllers: schemas.ControllerList
    topics: schemas.TopicList
    reassignments: schemas.ReassignmentsEvent
    reviews: schemas.ReviewList


class ClusterEvents:
    """Samples for any number of listeners, taken only when one is waited for. Thread-safe.

    The arguments ask for the parts of a sample; ``clock`` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        role: Callable[[], schemas.Readiness],
        controllers: Callable[[], schemas.ControllerList],
        topics: Callable[[], schemas.TopicList],
        reassignments: Callable[[], Sequence[schemas.ReassignmentSummary]],
        reviews: Callable[[], schemas.ReviewList],
        clock: Callable[[], float],
    ) -> None:
        self._took = 0.0

        def ask() -> Sample:
            began = clock()
            try:
                requests = schemas.ReassignmentsEvent(requests=list(reassignments()))
                return Sample(role(), controllers(), topics(), requests, reviews())
            finally:
                self._took = clock() - began

        self.query: SharedQuery[Sample] = SharedQuery("events", ask, clock)

    @property
    def max_age(self) -> float:
        """Seconds for which a sample is used: the longer, the longer it takes to take one."""
        return max(_MIN_AGE, _SHARE * self._took)


@dataclass
class Known:
    """What one listener was sent. Not thread-safe."""

    sample: Answer[Sample] | None = None
    _parts: dict[str, schemas.Answer] = field(default_factory=dict)
    _topics: dict[str, schemas.TopicSummary] = field(default_factory=dict)

    def news(
        self, sample: Answer[Sample], topics: Collection[str], *, sees_cluster: bool
    ) -> list[tuple[str, schemas.Answer]]:
        """Names and data of the events that ``sample`` makes, for a listener that may see ``topics``.

        ``sees_cluster``: whether it may see controllers, reassignments and reviews, too. The first sample makes all events.
        """
        first, self.sample, value = self.sample is None, sample, sample.value
        parts: dict[str, schemas.Answer] = {"controller": value.role}
        if sees_cluster:
            parts |= {
                "controllers": value.controllers,
                "reassignments": value.reassignments,
                "reviews": value.reviews,
            }
        events = [(name, part) for name, part in parts.items() if self._parts.get(name) != part]
        self._parts = parts
        seen = {row.topic: row for row in value.topics.topics if row.topic in topics}
        changed = [row for name, row in seen.items() if self._topics.get(name) != row]
        removed = [name for name in self._topics if name not in seen]
        self._topics = seen
        if first or changed or removed:
            events.append(("topics", schemas.TopicsEvent(topics=changed, removed=removed)))
        return events
