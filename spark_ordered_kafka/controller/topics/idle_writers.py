"""Fencing of idle writers before a change asks anybody to wait.

Most transactional ids of a topic belong to nobody any more: Kafka keeps an id for ``transactional.id.expiration.ms``
after its last use, a week by default. To fence one takes half a millisecond or more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.fence import Fencer, WriterId
from spark_ordered_kafka.kafka.ids import id_prefix

LEFT_FOR_LATER = 200
"""Idle ids that are fenced while writers wait: a tenth of a second, and the writers among them start over once only."""

_PART = 1000
_ROUNDS = 3

_log = logging.getLogger(__name__)


def idle_to_fence(writers: Mapping[str, WriterId]) -> list[str]:
    """Ids to fence ahead: idle, not left behind by a fence, and not among those whose transactions began last.

    Those are likely to be live writers between two transactions.
    """
    idle = [name for name, writer in writers.items() if writer.is_idle and not writer.is_left]
    return sorted(idle, key=lambda name: (-writers[name].began_at, name))[LEFT_FOR_LATER:]


def fence_idle(fencer: Fencer, topic: str, seconds: float, goes_on: Callable[[], bool]) -> None:
    """Fence the topic's idle writers until few are left.

    A part that is fenced stays so: whoever tries again goes on where this ended.

    Args:
        seconds: for a listing, and for each 1,000 ids.
        goes_on: is asked before each 1,000 ids.

    Raises:
        RequestError: Kafka refused.
        UnavailableError: one of them took longer, or it does not go on.
    """
    # Others come while this goes on; what is left after that many rounds is fenced while writers wait.
    for _ in range(_ROUNDS):
        idle = idle_to_fence(fencer.list_writers(id_prefix(topic), time.monotonic() + seconds))
        if not idle:
            return
        _log.info("topic %s: fencing %d idle transactional ids before writers are held", topic, len(idle))
        for first in range(0, len(idle), _PART):
            if not goes_on():
                raise UnavailableError(f"topic {topic!r}: idle writers are not fenced any further")
            fencer.fence(idle[first : first + _PART], time.monotonic() + seconds, lambda _: None)


def count_ids(fencer: Fencer, topic: str, seconds: float) -> schemas.TransactionalIds | None:
    """How many ids the topic's writers have; None when not all brokers answer within ``seconds``, or may not say."""
    try:
        writers = fencer.list_writers(id_prefix(topic), time.monotonic() + seconds).values()
    except OrderedKafkaError as error:
        _log.info("topic %s: the transactional ids of its writers are not known: %s", topic, error)
        return None
    idle = [writer for writer in writers if writer.is_idle]
    return schemas.TransactionalIds(
        known=len(writers), idle=len(idle), fenced=sum(writer.is_left for writer in idle)
    )
