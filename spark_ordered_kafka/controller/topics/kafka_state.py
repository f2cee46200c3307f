"""Kafka's view of topics under management, checked to be of the same topics."""

from __future__ import annotations

import time
from collections.abc import Sequence

from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import USUAL_PROPAGATION
from spark_ordered_kafka.kafka.values import TopicDescription

_POLL = 0.1

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
    until = time.monotonic() + timeout
    if deadline is not None:
        until = min(until, deadline)
    while True:
        views: Views = [admin.describe_topics([topic], deadline=deadline).get(topic)]
        found = newest(views, topic_id)
        if found is None or len(found.partitions) < partitions:
            views = [*views, *admin.describe_at_each(topic, deadline=deadline)]
            found = newest(views, topic_id)
        if found is not None and len(found.partitions) >= partitions:
            return found
        if time.monotonic() >= until:
            break
        time.sleep(_POLL)  # Kafka has no call that waits until brokers know a topic
    if found is None:
        raise _gone(topic, topic_id, views)
    return found


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


def _gone(topic: str, topic_id: str, views: Views) -> RequestError:
    other = next((view for view in views if view is not None), None)
    if other is None:
        return RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} is under management but not in Kafka any more: create it (ordered-kafka topics create), "
            "which forgets the old layouts",
        )
    return RequestError(
        ErrorCode.LOG_TRUNCATED,
        f"topic {topic!r} was deleted and created again outside of this system: Kafka has topic id "
        f"{other.topic_id}, the layouts are those of {topic_id}; adopt the new topic (ordered-kafka topics "
        "adopt), which forgets the old layouts",
    )
