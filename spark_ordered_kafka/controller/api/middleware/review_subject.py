"""The state that a stored request was made for: after a change of it, the request is not carried out (D-171)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from spark_ordered_kafka.client.schemas.base import Int32
from spark_ordered_kafka.controller.api.middleware.mutations import Mutation
from spark_ordered_kafka.controller.service import ControllerService
from spark_ordered_kafka.errors import RequestError, invalid_request
from spark_ordered_kafka.parsing import is_topic_name

_ABOUT_LAYOUTS: Final = frozenset(
    {"/v1/partition-counts", "/v1/topics/{topic}/delete-records", "/v1/topics/{topic}/release"}
)
_ABOUT_REPLICAS: Final = frozenset({"/v1/reassignments", "/v1/replication-factors", "/v1/replica-log-dirs"})
_LENGTH: Final = 16
_ROLLBACK: Final = TypeAdapter[int](Int32)


def topic_hashes(service: ControllerService, mutation: Mutation) -> dict[str, str]:
    """A hash for each existing topic that the request names, or that the reassignment has moved which it takes back.

    It holds the topic's id. For requests about partition counts and removed partitions it holds the layout's epoch, since an
    expansion may have become a shrink, and the management, as a new adoption begins at epoch 0 again (D-345); for those about
    the placement of replicas, their brokers.

    Raises UnavailableError when Kafka or ZooKeeper does not answer.
    """
    named = [topic for topic in mutation.topics() if is_topic_name(topic)]
    topics = list(dict.fromkeys([*named, *_taken_back(service, mutation)]))
    found = {}
    for topic, described in service.admin.describe_topics(topics).items():
        record = service.topics.managed(topic)
        parts: list[object] = [described.topic_id if record is None else record.topic_id]
        if mutation.route.path in _ABOUT_LAYOUTS:
            parts.append(None if record is None else [record.management, record.layout_epoch])
        if mutation.route.path in _ABOUT_REPLICAS:
            parts.append([[one.partition, *sorted(one.replicas)] for one in described.partitions])
        found[topic] = hashlib.sha256(to_json(parts)).hexdigest()[:_LENGTH]
    return found


def _taken_back(service: ControllerService, mutation: Mutation) -> list[str]:
    """The topics of the reassignment of which the request is the rollback; none if no such one is kept: it is refused."""
    if mutation.route.path != "/v1/reassignments":
        return []
    try:
        request_id = _ROLLBACK.validate_python(mutation.parsed.get("rollback"), strict=True)
        _, moves = service.reassignment_queries.read(request_id, "rollback")
    except (ValidationError, RequestError):
        return []
    return [move.topic for move in moves.moves]


def check_unchanged(stored: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises RequestError INVALID_REQUEST unless the hashes ``now`` equal those of the time of the request, ``stored``."""
    for topic in sorted(stored.keys() | now.keys()):
        if stored.get(topic) == now.get(topic):
            continue
        if topic not in stored:
            reason = "did not exist when this was asked for"
        elif topic not in now:
            reason = "does not exist any more"
        else:
            reason = "was made or adopted anew, or its partitions or replicas were changed, after this was asked for"
        raise invalid_request(f"topic {topic!r} {reason}: discard the review, and ask again")
