"""What one listener is sent of a sample: all of the first one, then what differs, and never what it may not see."""

from __future__ import annotations

import pytest

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.monitoring.events import ClusterEvents, Known, Sample
from spark_ordered_kafka.controller.shared_query import Answer


def sample(*topics: tuple[str, int], epoch: int = 1) -> Answer[Sample]:
    rows = [
        schemas.TopicSummary(
            topic=name,
            topic_id=name,
            initial_partition_count=1,
            undeleted_partition_count=count,
            layout_epoch=0,
            hash="murmur3",
            ordered_delivery=True,
            change=None,
        )
        for name, count in topics
    ]
    value = Sample(
        role=schemas.Readiness(role="leader", leader="http://a", epoch=epoch),
        controllers=schemas.ControllerList(controllers=[], leader="http://a", epoch=epoch),
        topics=schemas.TopicList(topics=rows),
        reassignments=schemas.ReassignmentsEvent(requests=[]),
        reviews=schemas.ReviewList(reviews=[]),
    )
    return Answer(value, 0.0)


def told(events: list[tuple[str, schemas.Answer]]) -> tuple[list[str], list[str], list[str]]:
    """Names of the events; the topics that were changed, and those that are gone."""
    names = [name for name, _ in events]
    for _, data in events:
        if isinstance(data, schemas.TopicsEvent):
            return names, [row.topic for row in data.topics], data.removed
    return names, [], []


def test_the_first_sample_is_told_whole_even_if_it_is_empty() -> None:
    everything = ["controller", "controllers", "reassignments", "reviews", "topics"]
    assert told(Known().news(sample(), [], sees_cluster=True)) == (everything, [], [])
    assert told(Known().news(sample(("a", 1)), [], sees_cluster=False)) == (["controller", "topics"], [], [])


def test_then_only_what_differs() -> None:
    known = Known()
    known.news(sample(("a", 1), ("b", 1)), ["a", "b"], sees_cluster=True)
    assert told(known.news(sample(("a", 1), ("b", 1)), ["a", "b"], sees_cluster=True)) == ([], [], [])
    later = known.news(sample(("a", 2), ("c", 1)), ["a", "c"], sees_cluster=True)
    assert told(later) == (["topics"], ["a", "c"], ["b"])
    assert told(known.news(sample(("a", 2), ("c", 1), epoch=2), ["a", "c"], sees_cluster=True))[0] == [
        "controller",
        "controllers",
    ]


def test_a_right_that_is_withdrawn_or_given() -> None:
    known = Known()
    both = sample(("a", 1), ("b", 1))
    known.news(both, ["a", "b"], sees_cluster=True)
    assert told(known.news(both, ["a"], sees_cluster=False)) == (["topics"], [], ["b"])
    again = told(known.news(both, ["a", "b"], sees_cluster=True))
    assert again == (["controllers", "reassignments", "reviews", "topics"], ["b"], [])


@pytest.mark.parametrize(("seconds", "age"), [(0.0, 0.9), (0.05, 0.9), (2.0, 20.0)])
def test_a_slow_sample_is_used_longer(seconds: float, age: float) -> None:
    value = sample().value
    times = iter([0.0, 0.0, seconds, seconds])
    events = ClusterEvents(
        lambda: value.role,
        lambda: value.controllers,
        lambda: value.topics,
        lambda: [],
        lambda: value.reviews,
        lambda: next(times),
    )
    assert events.query.outcome().result(10).value == value
    assert events.max_age == pytest.approx(age)
    events.query.close()
