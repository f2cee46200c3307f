"""A topic under management that Kafka has no longer, because another tool has deleted it."""

from __future__ import annotations

import time
from collections.abc import Callable

from spark_ordered_kafka.errors import ErrorCode, RequestError, UnavailableError
from spark_ordered_kafka.kafka.values import PROPAGATION

_POLL = 0.1


def missing(topic: str, consequence: str = "") -> RequestError:
    """The error, with what helps; ``consequence``: what failed for that reason."""
    return RequestError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {topic!r} is under management but not in Kafka any more: create it (ordered-kafka topics create), "
        f"which forgets the old layouts{consequence and '; '}{consequence}",
    )


def is_missing(is_shown: Callable[[float], bool]) -> bool:
    """Whether brokers do not show the topic, and not only because they have just started (D-458).

    ``is_shown`` asks a broker, within so many seconds. While none answers, the topic counts as there.
    """
    deadline = time.monotonic() + PROPAGATION
    while True:
        try:
            if is_shown(max(_POLL, deadline - time.monotonic())):
                return False
        except UnavailableError:
            return False
        if time.monotonic() >= deadline:
            return True
        time.sleep(_POLL)  # Kafka has no call that waits until a broker knows a topic
