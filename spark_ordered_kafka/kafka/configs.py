"""Configuration of topics, as the brokers have it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from spark_ordered_kafka.errors import ErrorCode, RequestError
from spark_ordered_kafka.kafka.leaders import PROPAGATION
from spark_ordered_kafka.kafka.requests import BrokerRequests, broker_error, is_transient

# org.apache.kafka.common.requests.DescribeConfigsResponse.ConfigSource
_TOPIC_CONFIG = 1
# A string of Kafka's protocol may have so many bytes; a broker that gets a longer one hangs up.
_MAX_STRING = 32_767
_SHOWN = 100


def check_lengths(configs: Mapping[str, str | None]) -> None:
    """Raises RequestError INVALID_CONFIG for a name or value that is too long for Kafka's protocol."""
    for name, value in configs.items():
        if len(name.encode()) > _MAX_STRING or len((value or "").encode()) > _MAX_STRING:
            raise RequestError(
                ErrorCode.INVALID_CONFIG,
                f"configs has {name[:_SHOWN]!r} with the value {(value or '')[:_SHOWN]!r}…: name and value may have "
                f"{_MAX_STRING} bytes each",
            )


class TopicConfigs:
    """Reads and alters the configuration of topics, for use by any number of threads.

    Args:
        requests: connections to the cluster.
        timeout: seconds for each call.
    """

    def __init__(self, requests: BrokerRequests, timeout: float) -> None:
        self._requests = requests
        self._timeout = timeout

    def describe(self, topic: str, *, defaults: bool = True) -> dict[str, str]:
        """The topic's configuration, with what is left to the brokers' defaults or without, by Kafka's names
        (DescribeConfigs).

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, or the configuration may not be described.
            UnavailableError: no broker answered in time.
        """
        now = time.monotonic()
        propagated = now + PROPAGATION

        def transient(error: BaseException) -> bool:
            return is_transient(error) and (
                not isinstance(error, kafka_errors.UnknownTopicOrPartitionError)
                or time.monotonic() < propagated
            )

        found: dict[str, str] = self._requests.retry(
            partial(self._describe, topic, defaults),
            now + self._timeout,
            f"read the configuration of topic {topic!r}",
            transient=transient,
        )
        return found

    def alter(self, topic: str, configs: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set what is named, and put what is None back to its default (IncrementalAlterConfigs, KIP-339).

        Either all of it is done or nothing. Setting what is set already does no harm, so it is repeated until done.

        Raises:
            RequestError: Kafka refused: INVALID_CONFIG, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION, ...
            UnavailableError: not done in time.
        """
        self._requests.retry(
            partial(self._alter, topic, configs, validate_only),
            time.monotonic() + self._timeout,
            f"alter the configuration of topic {topic!r}",
        )

    async def _alter(
        self, topic: str, configs: Mapping[str, str | None], validate_only: bool, deadline: float
    ) -> None:
        asked = IncrementalAlterConfigsRequest.AlterConfigsResource
        alterations = [
            asked.AlterableConfig(
                name=name,
                config_operation=AlterConfigOp.DELETE if value is None else AlterConfigOp.SET,
                value=value,
            )
            for name, value in configs.items()
        ]
        resource = asked(resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=alterations)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        response: Any = await self._requests.send(request, None, deadline)
        (result,) = response.responses
        if result.error_code != 0:
            raise broker_error(result.error_code, result.error_message)

    async def _describe(self, topic: str, defaults: bool, deadline: float) -> dict[str, str]:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ConfigResourceType.TOPIC, resource_name=topic, configuration_keys=None
        )
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=False, include_documentation=False
        )
        response: Any = await self._requests.send(request, None, deadline)
        (result,) = response.results
        if result.error_code != 0:
            raise broker_error(result.error_code, result.error_message or f"topic {topic!r}")
        # A sensitive value is answered as null.
        return {
            config.name: config.value
            for config in result.configs
            if config.value is not None and (defaults or config.config_source == _TOPIC_CONFIG)
        }
