"""Deleting topics by their ids, so that a topic of the same name made meanwhile is left alone (KIP-516)."""

from __future__ import annotations

import base64
import time
from functools import partial
from typing import Any
from uuid import UUID

from kafka import errors as kafka_errors
from kafka.protocol.admin import DeleteTopicsRequest

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.leaders import ask_controller, existing_topics
from spark_ordered_kafka.kafka.requests import BrokerCalls, check_mutation

_TOPIC_IDS_VERSION = 6


class _StillThereError(kafka_errors.RetriableError):  # type: ignore[misc]  # kafka-python has no types
    """A broker does not know of the deletion yet."""


class TopicDeletions(BrokerCalls):
    """Deletes topics of one cluster."""

    def delete(self, topic: str, topic_id: str) -> None:
        """Delete the topic of this id (as Kafka prints it), if there still is one; ``topic`` is its name, for errors.

        Returns when no live broker shows it any more. Deleting it twice does no harm.

        Raises:
            RequestError: Kafka refused: TOPIC_DELETION_DISABLED, TOPIC_AUTHORIZATION_FAILED, ...
            UnavailableError: not done in time, or a broker still shows it.
        """
        deadline = time.monotonic() + self._timeout
        try:
            self._requests.retry(partial(self._delete, topic_id), deadline, f"delete topic {topic!r}")
        except RequestError as error:
            # Such brokers do not look whether there is one: what another tool deleted before is gone all the same.
            looking = partial(self._showing, topic, topic_id)
            if error.code != ErrorCode.TOPIC_DELETION_DISABLED or self._requests.retry(
                looking, deadline, f"look for topic {topic!r}"
            ):
                raise
        self._requests.retry(
            partial(self._check_gone, topic, topic_id),
            deadline,
            f"wait for the brokers to forget topic {topic!r}",
        )

    async def _delete(self, topic_id: str, deadline: float) -> None:
        asked = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=_uuid(topic_id))
        request = DeleteTopicsRequest(
            topics=[asked], timeout_ms=int(1000 * self._timeout), min_version=_TOPIC_IDS_VERSION
        )
        response = await ask_controller(self._requests, request, deadline, timeout=self._timeout)
        for result in response.responses:
            if result.error_code != kafka_errors.UnknownTopicIdError.errno:
                check_mutation(result, response.throttle_time_ms)

    async def _check_gone(self, topic: str, topic_id: str, deadline: float) -> None:
        for broker in await self._showing(topic, topic_id, deadline):
            raise _StillThereError(f"broker {broker} still shows it")

    async def _showing(self, topic: str, topic_id: str, deadline: float) -> list[int]:
        """The live brokers that show the topic of this id."""
        brokers = await self._requests.broker_ids(deadline)
        views: list[Any] = await self._requests.gather(
            self._requests.metadata([topic], broker, deadline) for broker in brokers
        )
        return [
            broker
            for broker, view in zip(brokers, views, strict=True)
            if any(row.topic_id == _uuid(topic_id) for row in existing_topics(view))
        ]


def _uuid(topic_id: str) -> UUID:
    """The inverse of org.apache.kafka.common.Uuid.toString."""
    return UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
