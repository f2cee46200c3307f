"""Kafka's view of topics under management, checked to be of the same topics."""

from __future__ import annotations

import time

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.leaders import USUAL_PROPAGATION
from spark_ordered_kafka.kafka.values import TopicDescription


def described(
    admin: KafkaAdmin, topic: str, topic_id: str, deadline: float | None = None
) -> TopicDescription:
    """Kafka's view of a topic under management; raises RequestError when it was deleted or recreated."""
    description = admin.describe_topics([topic], deadline=deadline).get(topic)
    if description is None:
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} is under management but not in Kafka any more: create it (ordered-kafka topics create), "
            "which forgets the old layouts",
        )
    if description.topic_id != topic_id:
        raise RequestError(
            ErrorCode.LOG_TRUNCATED,
            f"topic {topic!r} was deleted and created again outside of this system: Kafka has topic id "
            f"{description.topic_id}, the layouts are those of {topic_id}; adopt the new topic (ordered-kafka topics "
            "adopt), which forgets the old layouts",
        )
    return description


def described_when_known(
    admin: KafkaAdmin,
    topic: str,
    topic_id: str,
    timeout: float = USUAL_PROPAGATION,
    deadline: float | None = None,
) -> TopicDescription:
    """As :func:`described`, for a topic that not every broker may know yet: it is new, or a broker has just started. Retries
    for ``timeout`` seconds, and not beyond ``deadline``, in ``time.monotonic()`` seconds.
    """
    if deadline is not None:
        timeout = min(timeout, deadline - time.monotonic())
    retrying = Retrying(
        retry=retry_if_exception(_is_unknown),
        stop=stop_after_delay(timeout),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return retrying(described, admin, topic, topic_id, deadline)


def _is_unknown(error: BaseException) -> bool:
    return isinstance(error, RequestError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
