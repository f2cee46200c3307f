"""Checks of a request to reassign partitions by ``topic.policy.class`` (KIP-179), for topics under management or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_ordered_kafka.controller.policy import TopicChecks, TopicRequest, frozen
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import RequestError


def refused_by_policy(
    checks: TopicChecks, znodes: Znodes, moves: Sequence[Move], *, principal: str, validate_only: bool
) -> dict[int, RequestError]:
    """Index of a move -> why the policy refuses the request for its topic."""
    if not checks.configured:
        return {}
    refused: dict[str, RequestError] = {}
    refactored = with_other_factor(moves)
    by_topic: dict[str, dict[int, Sequence[int]]] = defaultdict(dict)
    for move in moves:
        by_topic[move.topic][move.partition] = move.after
    for topic, after in sorted(by_topic.items()):
        try:
            checks.check(
                topic,
                znodes.read_topic(topic)[0],
                "replication_factor" if topic in refactored else "reassignment",
                principal=principal,
                validate_only=validate_only,
                altered=partial(_altered, after),
            )
        except RequestError as error:
            refused[topic] = error
    return of_topics(moves, refused)


def _altered(after: Mapping[int, Sequence[int]], now: TopicRequest) -> TopicRequest:
    factor = max(len(brokers) for brokers in after.values())
    return replace(now, replication_factor=factor, assignments=frozen(after))


def with_other_factor(moves: Sequence[Move]) -> set[str]:
    """The topics of which a partition gets more or fewer replicas."""
    return {move.topic for move in moves if len(move.after) != len(move.before)}


def of_topics(moves: Sequence[Move], reasons: Mapping[str, RequestError]) -> dict[int, RequestError]:
    """Reasons by topic as those of its moves, by index."""
    return {index: reasons[move.topic] for index, move in enumerate(moves) if move.topic in reasons}
