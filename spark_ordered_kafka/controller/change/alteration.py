"""Altering a topic: ordered delivery, which is a change of layout, and Kafka's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import MappingProxyType

from spark_ordered_kafka.client import schemas
from spark_ordered_kafka.controller.change.service import Changes
from spark_ordered_kafka.controller.policy import TopicChecks, TopicRequest
from spark_ordered_kafka.controller.state.change import FinishedChange
from spark_ordered_kafka.controller.topics.kafka_state import described
from spark_ordered_kafka.controller.topics.queries import Topics
from spark_ordered_kafka.errors import invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.configs import TopicConfigs, check_lengths


class TopicAlteration:
    """Alters topics under management. ``timeout`` (seconds) bounds each call to Kafka."""

    def __init__(
        self, admin: KafkaAdmin, topics: Topics, changes: Changes, checks: TopicChecks, timeout: float
    ) -> None:
        self._admin = admin
        self._checks = checks
        self._topics = topics
        self._changes = changes
        self._configs = TopicConfigs(admin.requests, timeout)

    def alter(
        self, topic: str, request: schemas.AlterTopicRequest, *, principal: str
    ) -> tuple[schemas.TopicResult, Future[FinishedChange] | None]:
        """Check all of it, alter the configuration, then start the change of ordered delivery.

        Returns the result, and the future of the change; None when ordered delivery has that value already.
        Raises RequestError: INVALID_REQUEST when there is nothing to alter, INVALID_CONFIG, or a refusal of the change.
        """
        wanted, configs = request.ordered_delivery, request.configs
        if wanted is None and not configs:
            raise invalid_request("nothing is to be altered: give ordered_delivery or configs")
        check_lengths(configs)
        record, _ = self._topics.record(topic)
        described(self._admin, topic, record.topic_id)
        if configs:
            self._configs.alter(topic, configs, validate_only=True)
            self._checks.check(
                topic,
                record,
                "config",
                principal=principal,
                validate_only=request.validate_only,
                altered=lambda now: _with_configs(now, configs),
            )
        if wanted is not None and (request.validate_only or configs):
            # Refused before anything is altered.
            self._changes.switch_order(
                topic, wanted, force=request.force, principal=principal, validate_only=True
            )
        if request.validate_only:
            return schemas.TopicResult(topic=topic), None
        if configs:
            self._configs.alter(topic, configs)
        if wanted is None:
            return schemas.TopicResult(topic=topic), None
        job = self._changes.switch_order(
            topic, wanted, force=request.force, principal=principal, validate_only=False
        )
        if job is None:
            return schemas.TopicResult(topic=topic), None
        return schemas.TopicResult(topic=topic, change_id=job.change.id), job.done


def _with_configs(now: TopicRequest, altered: Mapping[str, str | None]) -> TopicRequest:
    configs = {name: value for name, value in {**now.configs, **altered}.items() if value is not None}
    return replace(now, configs=MappingProxyType(configs))
