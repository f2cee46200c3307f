"""Checks of a request to reassign partitions by ``topic.policy.class`` (KIP-179), for topics under management or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_ordered_kafka.controller.policy import Operation, PolicyCheck, TopicRequest, frozen, present
from spark_ordered_kafka.controller.state.reassignment_records import Move
from spark_ordered_kafka.controller.state.topics import Znodes
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs


class PolicyChecks:
    """Asks the policy. ``timeout`` in seconds is for each call to Kafka."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, policy: PolicyCheck, timeout: float) -> None:
        self._admin = admin
        self._znodes = znodes
        self._policy = policy
        self._configs = TopicConfigs(admin.requests, timeout)

    def of(self, moves: Sequence[Move], principal: str, validate_only: bool) -> dict[int, RequestError]:
        """Index of a move -> why the policy refuses the request for its topic."""
        policy_checks: dict[str, RequestError] = {}
        refactored = with_other_factor(moves)
        by_topic: dict[str, dict[int, Sequence[int]]] = defaultdict(dict)
        for move in moves:
            by_topic[move.topic][move.partition] = move.after
        for topic, after in sorted(by_topic.items()):
            operation: Operation = "replication_factor" if topic in refactored else "reassignment"
            asked = partial(self._asked, operation, topic, after, principal, validate_only)
            try:
                self._policy.validate(asked)
            except RequestError as error:
                policy_checks[topic] = error
        return of_topics(moves, policy_checks)

    def _asked(
        self,
        operation: Operation,
        topic: str,
        after: Mapping[int, Sequence[int]],
        principal: str,
        validate_only: bool,
    ) -> TopicRequest:
        now = present(
            self._admin,
            self._configs,
            topic,
            self._znodes.read_topic(topic)[0],
            operation,
            principal=principal,
            validate_only=validate_only,
        )
        factor = max(len(brokers) for brokers in after.values())
        return replace(now, replication_factor=factor, assignments=frozen(after))


def with_other_factor(moves: Sequence[Move]) -> set[str]:
    """The topics of which a partition gets more or fewer replicas."""
    return {move.topic for move in moves if len(move.after) != len(move.before)}


def of_topics(moves: Sequence[Move], reasons: Mapping[str, RequestError]) -> dict[int, RequestError]:
    """Reasons by topic as those of its moves, by index."""
    return {index: reasons[move.topic] for index, move in enumerate(moves) if move.topic in reasons}
