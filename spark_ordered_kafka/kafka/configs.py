"""Configuration of topics and brokers, as the brokers have it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from spark_ordered_kafka.errors import ErrorCode, OrderedKafkaError, RequestError
from spark_ordered_kafka.kafka.leaders import existing_topics, metadata_of_all
from spark_ordered_kafka.kafka.requests import BrokerCalls, BrokerRequests, broker_error, is_transient
from spark_ordered_kafka.kafka.rows import Answer, as_refusal, ask_each, ask_rows, chunks
from spark_ordered_kafka.kafka.values import PROPAGATION

Resource = tuple[ConfigResourceType, str]
T = TypeVar("T")

# org.apache.kafka.common.requests.DescribeConfigsResponse.ConfigSource
_TOPIC_CONFIG = 1
_DYNAMIC_BROKER_CONFIG = 2
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


@dataclass(frozen=True)
class InSyncRule:
    """What is set for a topic itself, and the ``min.insync.replicas`` that holds for it."""

    own: Mapping[str, str]
    min_insync_replicas: int


class TopicConfigs(BrokerCalls):
    """Reads and alters the configuration of topics."""

    def describe(self, topic: str, *, defaults: bool = True) -> dict[str, str]:
        """The topic's configuration, with what is left to the brokers' defaults or without, by Kafka's names
        (DescribeConfigs).

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, or the configuration may not be described.
            UnavailableError: no broker answered in time.
        """
        propagated = time.monotonic() + PROPAGATION

        def transient(error: BaseException) -> bool:
            return is_transient(error) and (
                not isinstance(error, kafka_errors.UnknownTopicOrPartitionError)
                or time.monotonic() < propagated
            )

        async def attempt(deadline: float) -> dict[str, str]:
            resource = (ConfigResourceType.TOPIC, topic)
            (result,) = await _described(self._requests, [resource], None, deadline)
            return _values(result, None if defaults else _TOPIC_CONFIG)

        return self._retry(attempt, f"read the configuration of topic {topic!r}", transient=transient)

    def describe_many(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """What is set for each topic itself, by Kafka's names. Topics that no live broker knows are left out.

        Raises:
            RequestError: a configuration may not be described.
            UnavailableError: no answer in time.
        """
        return self._of_each(topics, lambda result: _values(result, _TOPIC_CONFIG))

    def in_sync_rules(self, topics: Collection[str]) -> dict[str, InSyncRule]:
        """As :meth:`describe_many`, with the ``min.insync.replicas`` that holds for each, set or by default."""
        return self._of_each(
            topics,
            lambda result: InSyncRule(
                _values(result, _TOPIC_CONFIG), int(_values(result, None)["min.insync.replicas"])
            ),
        )

    def _of_each(self, topics: Collection[str], read: Callable[[Any], T]) -> dict[str, T]:
        found: dict[str, T] = {}
        for chunk in chunks(topics):
            what = f"read the configuration of {len(chunk)} topics"
            found |= self._retry(partial(self._describe_many, chunk, read), what)
        return found

    def alter(self, topic: str, configs: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set what is named, and put what is None back to its default (IncrementalAlterConfigs, KIP-339).

        Either all of it is done or nothing. Setting what is set already does no harm, so it is repeated until done.

        Raises:
            RequestError: Kafka refused: INVALID_CONFIG, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION, ...
            UnavailableError: not done in time.
        """

        async def attempt(deadline: float) -> None:
            changes = {(ConfigResourceType.TOPIC, topic): configs}
            answers = await _altered(self._requests, changes, None, deadline, validate_only=validate_only)
            code, message = answers[ConfigResourceType.TOPIC, topic]
            if code != 0:
                raise broker_error(code, message)

        self._retry(attempt, f"alter the configuration of topic {topic!r}")

    def alter_many(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, RequestError]:
        """As :meth:`alter`, for several topics; those that Kafka refused. Each is altered wholly or not at all.

        Raises:
            UnavailableError: not done in time; some may have been altered.
        """

        async def ask(topics: Sequence[str], deadline: float) -> dict[str, Answer]:
            asked = {(ConfigResourceType.TOPIC, topic): changes[topic] for topic in topics}
            answers = await _altered(self._requests, asked, None, deadline)
            return {topic: (code, f"{topic}: {message}") for (_, topic), (code, message) in answers.items()}

        return ask_rows(
            self._requests, list(changes), ask, self._timeout, "alter the configuration of topics"
        )

    async def _describe_many(
        self, topics: Sequence[str], read: Callable[[Any], T], deadline: float
    ) -> dict[str, T]:
        resources = [(ConfigResourceType.TOPIC, topic) for topic in topics]
        found: dict[str, T] = {}
        unknown = []
        for result in await _described(self._requests, resources, None, deadline):
            if result.error_code == kafka_errors.UnknownTopicOrPartitionError.errno:
                unknown.append(result.resource_name)
            else:
                found[result.resource_name] = read(result)
        if unknown:
            await self._check_nowhere(unknown, deadline)
        return found

    async def _check_nowhere(self, topics: Sequence[str], deadline: float) -> None:
        """Raises a retriable error if any broker knows one of the topics: the broker that was asked does not know it yet."""
        for view in await metadata_of_all(self._requests, topics, deadline):
            if existing_topics(view):
                raise kafka_errors.UnknownTopicOrPartitionError("a broker does not know all topics yet")


class BrokerConfigs(BrokerCalls):
    """Reads and alters the dynamic configuration of single brokers.

    Every broker is asked itself, all at the same time, for it answers for itself alone: one that hangs takes the whole
    timeout, whatever the others answer. One that was altered may take a moment until it shows that.
    """

    def describe_own(self, brokers: Collection[int]) -> dict[int, dict[str, str] | OrderedKafkaError]:
        """What is set dynamically for each broker alone, by Kafka's names; not what is sensitive.

        Of one that does not answer its error: RequestError BROKER_NOT_AVAILABLE if it is not alive, UnavailableError if it
        does not answer in time, RequestError CLUSTER_AUTHORIZATION_FAILED.
        """
        questions = {broker: partial(self._describe, broker) for broker in brokers}
        return ask_each(self._requests, questions, self._timeout, "read the configuration of brokers")

    def alter(self, changes: Mapping[int, Mapping[str, str | None]]) -> dict[int, RequestError]:
        """Set what is named, and take back what is None (IncrementalAlterConfigs); the brokers where that failed.

        Each is altered wholly or not at all. Doing it twice does no harm.

        Returns:
            What failed: INVALID_REQUEST for a wrong value, CLUSTER_AUTHORIZATION_FAILED, BROKER_NOT_AVAILABLE for a broker
            that is not alive, REQUEST_TIMED_OUT for one that did not answer, perhaps after it was altered.
        """
        questions = {broker: partial(self._alter, broker, configs) for broker, configs in changes.items()}
        answers = ask_each(self._requests, questions, self._timeout, "alter the configuration of brokers")
        return {
            broker: as_refusal(answer)
            for broker, answer in answers.items()
            if isinstance(answer, OrderedKafkaError)
        }

    async def _describe(self, broker: int, deadline: float) -> dict[str, str]:
        resource = (ConfigResourceType.BROKER, str(broker))
        (result,) = await _described(self._requests, [resource], broker, deadline)
        return _values(result, _DYNAMIC_BROKER_CONFIG)

    async def _alter(self, broker: int, configs: Mapping[str, str | None], deadline: float) -> None:
        resource = (ConfigResourceType.BROKER, str(broker))
        answers = await _altered(self._requests, {resource: configs}, broker, deadline)
        code, message = answers[resource]
        if code != 0:
            raise broker_error(code, f"broker {broker}: {message or 'refused'}")


async def _described(
    requests: BrokerRequests, resources: Iterable[Resource], node: int | None, deadline: float
) -> list[Any]:
    """The result of each resource."""
    asked = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            asked(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in resources
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    response = await requests.send(request, node, deadline)
    return list(response.results)


def _values(result: Any, source: int | None) -> dict[str, str]:
    """What one resource has from ``source`` (None: any). A sensitive value is answered as null and lacks."""
    if result.error_code != 0:
        raise broker_error(result.error_code, result.error_message or result.resource_name)
    return {
        config.name: config.value
        for config in result.configs
        if config.value is not None and source in (None, config.config_source)
    }


async def _altered(
    requests: BrokerRequests,
    changes: Mapping[Resource, Mapping[str, str | None]],
    node: int | None,
    deadline: float,
    *,
    validate_only: bool = False,
) -> dict[Resource, Answer]:
    """What Kafka says to the changes of each resource."""
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource

    def alteration(name: str, value: str | None) -> Any:
        operation = AlterConfigOp.DELETE if value is None else AlterConfigOp.SET
        return asked.AlterableConfig(name=name, config_operation=operation, value=value)

    request = IncrementalAlterConfigsRequest(
        resources=[
            asked(
                resource_type=kind,
                resource_name=name,
                configs=[alteration(*change) for change in configs.items()],
            )
            for (kind, name), configs in changes.items()
        ],
        validate_only=validate_only,
    )
    response = await requests.send(request, node, deadline, apart=True)
    return {
        (ConfigResourceType(row.resource_type), row.resource_name): (row.error_code, row.error_message)
        for row in response.responses
    }
