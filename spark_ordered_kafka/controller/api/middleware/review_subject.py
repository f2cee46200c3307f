"""What a stored request was asked about: it is not carried out once that has become something else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from pydantic_core import to_json

from spark_ordered_kafka.controller.api.middleware.mutations import Mutation
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.parsing import is_topic_name

_LAID_OUT: Final = frozenset({"/v1/partition-counts", "/v1/topics/{topic}/delete-records"})
_MOVED: Final = frozenset({"/v1/reassignments", "/v1/replication-factors", "/v1/replica-log-dirs"})
_LENGTH: Final = 16


def standing(service: ControllerService, mutation: Mutation) -> dict[str, str]:
    """A hash for each topic that the request names and that is there.

    It holds the topic's id. For requests about partition counts and removed partitions it holds the layout's epoch, since
    what was an expansion may be a shrink by then; for those that say where replicas shall be, where they are.

    Raises UnavailableError when Kafka or ZooKeeper does not answer.
    """
    topics = [topic for topic in mutation.topics() if is_topic_name(topic)]
    found = {}
    for topic, described in service.admin.describe_topics(topics).items():
        record = service.topics.managed(topic)
        parts: list[object] = [described.topic_id if record is None else record.topic_id]
        if mutation.route.path in _LAID_OUT:
            parts.append(None if record is None else record.layout_epoch)
        if mutation.route.path in _MOVED:
            parts.append([[one.partition, *sorted(one.replicas)] for one in described.partitions])
        found[topic] = hashlib.sha256(to_json(parts)).hexdigest()[:_LENGTH]
    return found


def check_standing(asked: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises RequestError INVALID_REQUEST unless all is as it was when the request was ``asked``."""
    for topic in sorted(asked.keys() | now.keys()):
        if asked.get(topic) == now.get(topic):
            continue
        if topic not in asked:
            became = "did not exist when this was asked for"
        elif topic not in now:
            became = "does not exist any more"
        else:
            became = "was made anew, or its partitions or replicas were changed, after this was asked for"
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"topic {topic!r} {became}: discard the review, and ask again"
        )
