"""Kafka's view of topics under management, checked to be of the same topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_fixed

from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.missing_topic import missing
from spark_ordered_kafka.kafka.values import USUAL_PROPAGATION, TopicDescription

# Kafka has no call that waits until brokers know a topic, or until its partitions have leaders.
_POLL = 0.1

_FoundT = TypeVar("_FoundT")

Views = Sequence[TopicDescription | None]
"""A topic as several brokers show it; None: not at all."""


def described(
    admin: KafkaAdmin,
    topic: str,
    topic_id: str,
    partitions: int = 0,
    *,
    timeout: float = USUAL_PROPAGATION,
    deadline: float | None = None,
) -> TopicDescription:
    """Kafka's view of a topic under management; raises RequestError when it was deleted or recreated.

    Any broker is asked, and it may know neither a new topic nor new partitions. So all are asked before a topic counts as
    deleted or recreated, or as one of fewer partitions than it is known to have, and for ``timeout`` seconds: a cluster may
    have just started (D-384).

    Args:
        partitions: it is known to have so many; those that no broker shows are missing in the answer.
        deadline: in ``time.monotonic()`` seconds; ends the retries earlier, and the requests to Kafka.
    """

    def look() -> tuple[Views, TopicDescription | None]:
        views: Views = [admin.describe_topics([topic], deadline=deadline).get(topic)]
        found = newest(views, topic_id)
        if found is None or len(found.partitions) < partitions:
            views = [*views, *admin.describe_at_each(topic, deadline=deadline)]
            found = newest(views, topic_id)
        return views, found

    def is_late(answer: tuple[Views, TopicDescription | None]) -> bool:
        return answer[1] is None or len(answer[1].partitions) < partitions

    seconds = timeout if deadline is None else min(timeout, deadline - time.monotonic())
    views, found = _polled(look, is_late, seconds)
    if found is None:
        raise _gone(topic, topic_id, views)
    return found


def agreed(
    admin: KafkaAdmin,
    topic: str,
    timeout: float,
    late: str,
    holds: Callable[[TopicDescription | None], bool] = lambda _: True,
) -> TopicDescription | None:
    """The topic (None: there is none) as all brokers show it, once they agree on it and it ``holds``.

    A broker that is behind shows a deleted namesake, or fewer partitions (D-384). Raises UnavailableError with the message
    ``late`` after ``timeout`` seconds.
    """

    def is_late(views: Views) -> bool:
        return not (agree(views) and holds(views[0]))

    views = _polled(lambda: admin.describe_at_each(topic), is_late, timeout)
    if is_late(views):
        raise UnavailableError(late)
    return views[0]


def check_not_managed(admin: KafkaAdmin, znodes: Znodes, topic: str) -> None:
    """Raises RequestError TOPIC_ALREADY_EXISTS when the topic that Kafka has under that name is managed, or when a topic of
    that name is being deleted or released.

    Ignores the record of a topic that was deleted outside of this system (D-031).
    """
    record = znodes.topic(topic)
    if record is None:
        return
    if record.deleting_since is not None:
        how = (
            "released from management: wait until it has ended"
            if record.releasing
            else "deleted: wait until it is gone"
        )
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic!r} is being {how}")
    if newest(admin.describe_at_each(topic), record.topic_id) is not None:
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic!r} is under management already")


def newest(views: Views, topic_id: str) -> TopicDescription | None:
    """The view of this very topic with the most partitions, of which there are never fewer; None: there is none. PURE."""
    same = [view for view in views if view is not None and view.topic_id == topic_id]
    return max(same, key=lambda view: len(view.partitions), default=None)


def agree(views: Views) -> bool:
    """Whether brokers have answered, and all show the same topic with the same partitions, or none. PURE."""
    return len({None if view is None else identity(view) for view in views}) == 1


def identity(description: TopicDescription) -> tuple[str, int]:
    """What another topic of the name, or one with more partitions, does not share. PURE."""
    return description.topic_id, len(description.partitions)


def _polled(look: Callable[[], _FoundT], is_late: Callable[[_FoundT], bool], seconds: float) -> _FoundT:
    """What ``look`` returns once that is not late any more, or after so many seconds."""
    retrying = Retrying(
        retry=retry_if_result(is_late),
        wait=wait_fixed(_POLL),
        stop=stop_after_delay(seconds),
        retry_error_callback=_last,
    )
    found: _FoundT = retrying(look)
    return found


def _last(state: RetryCallState) -> object:
    return None if state.outcome is None else state.outcome.result()


def _gone(topic: str, topic_id: str, views: Views) -> RequestError:
    other = next((view for view in views if view is not None), None)
    if other is None:
        return missing(topic)
    return RequestError(
        ErrorCode.LOG_TRUNCATED,
        f"topic {topic!r} was deleted and created again outside of this system: Kafka has topic id "
        f"{other.topic_id}, the layouts are those of {topic_id}; adopt the new topic (ordered-kafka topics "
        "adopt), which forgets the old layouts",
    )
