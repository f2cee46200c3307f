"""What ``topic.policy.class`` refuses of a request: other numbers of replicas of topics under management."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_ordered_kafka.controller.policy import PolicyCheck, TopicRequest, frozen, present
from spark_ordered_kafka.controller.reassign.records import Move
from spark_ordered_kafka.controller.records import TopicRecord
from spark_ordered_kafka.controller.znodes import Znodes
from spark_ordered_kafka.errors import RequestError
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs


class Vetoes:
    """Asks the policy. ``timeout`` in seconds is for each call to Kafka."""

    def __init__(self, admin: KafkaAdmin, znodes: Znodes, policy: PolicyCheck, timeout: float) -> None:
        self._admin = admin
        self._znodes = znodes
        self._policy = policy
        self._configs = TopicConfigs(admin.requests, timeout)

    def of(self, moves: Sequence[Move], principal: str, validate_only: bool) -> dict[int, RequestError]:
        """Index of a move -> why the policy refuses what is asked for its topic."""
        vetoes: dict[str, RequestError] = {}
        for topic in sorted(with_other_factor(moves)):
            record, _ = self._znodes.read_topic(topic)
            if record is None:
                continue
            after = {move.partition: move.after for move in moves if move.topic == topic}
            try:
                self._policy.validate(partial(self._asked, topic, record, after, principal, validate_only))
            except RequestError as error:
                vetoes[topic] = error
        return of_topics(moves, vetoes)

    def _asked(
        self,
        topic: str,
        record: TopicRecord,
        after: Mapping[int, Sequence[int]],
        principal: str,
        validate_only: bool,
    ) -> TopicRequest:
        now = present(
            self._admin,
            self._configs,
            topic,
            record,
            "replication_factor",
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
