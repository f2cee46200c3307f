"""Fencing of idle writers before a change makes writers wait (D-016).

Most transactional ids of a topic are no longer in use: Kafka keeps an id for ``transactional.id.expiration.ms`` after
its last use, a week by default. Fencing one takes half a millisecond or more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.fence import Fencer, WriterId
from spark_ordered_kafka.kafka.ids import id_prefix

FENCED_WHILE_CLOSED = 200
"""Idle ids that are fenced while writers wait: takes a tenth of a second, and their writers restart only once."""

_BATCH = 1000
_ROUNDS = 3

_log = logging.getLogger(__name__)


def idle_to_fence(writers: Mapping[str, WriterId]) -> list[str]:
    """Ids to fence ahead: idle, not fenced before, and not among those whose transactions began last.

    The latter are probably live writers between two transactions.
    """
    idle = [name for name, writer in writers.items() if writer.is_idle and not writer.is_left]
    return sorted(idle, key=lambda name: (-writers[name].began_at, name))[FENCED_WHILE_CLOSED:]


def fence_idle(fencer: Fencer, topic: str, seconds: float, may_continue: Callable[[], bool]) -> None:
    """Fence the topic's idle writers until few are left.

    Fenced ids stay fenced: a later call continues with the rest.

    Args:
        seconds: for a listing, and for each 1,000 ids.
        may_continue: called before each 1,000 ids; False ends the call with UnavailableError.

    Raises:
        RequestError: Kafka refused.
        UnavailableError: one of them took longer, or ``may_continue`` returned False.
    """
    # New ids appear in the meantime; those left after so many rounds are fenced while writers wait.
    for _ in range(_ROUNDS):
        idle = idle_to_fence(fencer.list_writers(id_prefix(topic), time.monotonic() + seconds))
        if not idle:
            return
        _log.info("topic %s: fencing %d idle transactional ids before writers are held", topic, len(idle))
        for first in range(0, len(idle), _BATCH):
            if not may_continue():
                raise UnavailableError(f"topic {topic!r}: idle writers are not fenced any further")
            fencer.fence(idle[first : first + _BATCH], time.monotonic() + seconds, lambda _: None)


def count_ids(fencer: Fencer, topic: str, seconds: float) -> schemas.TransactionalIds | None:
    """Number of the writers' ids; None when not all brokers answer within ``seconds``, or refuse."""
    try:
        writers = fencer.list_writers(id_prefix(topic), time.monotonic() + seconds).values()
    except OrderedKafkaError as error:
        _log.info("topic %s: the transactional ids of its writers are not known: %s", topic, error)
        return None
    idle = [writer for writer in writers if writer.is_idle]
    return schemas.TransactionalIds(
        known=len(writers), idle=len(idle), fenced=sum(writer.is_left for writer in idle)
    )
