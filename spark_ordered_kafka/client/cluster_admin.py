"""What Kafka's own tools do to brokers and leaders: elections, and dynamic configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from spark_ordered_kafka.errors import OrderedKafkaError, UnavailableError
from spark_ordered_kafka.kafka.clients import new_client, translate, wait_for
from spark_ordered_kafka.kafka.properties import admin_properties
from spark_ordered_kafka.kafka.values import PartitionId

_TIMEOUT = 30.0
# librdkafka's socket.timeout.ms, which bounds an election.
_ELECTION_TIMEOUT = 60.0

Election = Literal["preferred", "unclean"]


@dataclass(frozen=True)
class Elections:
    """What became of elections: ``elected`` have another leader, ``unneeded`` had the right one, ``failed`` their errors."""

    elected: Sequence[PartitionId]
    unneeded: Sequence[PartitionId]
    failed: Mapping[PartitionId, OrderedKafkaError]


@dataclass(frozen=True)
class BrokerConfig:
    """A property of a broker. ``value`` None: it is sensitive, and Kafka does not return it. ``source``: where it is set, by
    Kafka's names, such as ``DYNAMIC_BROKER_CONFIG`` and ``STATIC_BROKER_CONFIG``."""

    name: str
    value: str | None
    source: str
    is_read_only: bool

    @property
    def is_dynamic(self) -> bool:
        """Whether it was set while brokers run, for this one or as a default of all."""
        return self.source.startswith("DYNAMIC_")


class ClusterAdmin:
    """Elects leaders, and reads and alters the configuration of brokers.

    Args:
        kafka: librdkafka's properties of the connection.
    """

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._admin = new_client(AdminClient, admin_properties(kafka))

    def elect(self, election: Election, tps: Sequence[PartitionId] | None) -> Elections:
        """Elect leaders (KIP-460); ``tps`` None: of all partitions.

        Raises:
            RequestError: the cluster may not be altered.
            UnavailableError: no answer in time; some may have been elected.
        """
        kind = ElectionType.PREFERRED if election == "preferred" else ElectionType.UNCLEAN
        asked = None if tps is None else [TopicPartition(*tp) for tp in tps]
        doing = f"electing {election} leaders"
        # Without a timeout of its own: confluent-kafka 2.16 fails with a SystemError for any.
        future = self._admin.elect_leaders(kind, asked)
        elected, unneeded, failed = list[PartitionId](), list[PartitionId](), {}
        for one, error in wait_for(future, _ELECTION_TIMEOUT, doing).items():
            tp = one.topic, one.partition
            # Errors themselves, though confluent-kafka's documentation says exceptions.
            cause = error.args[0] if isinstance(error, KafkaException) else error
            if cause is None:
                elected.append(tp)
            elif cause.code() == KafkaError.ELECTION_NOT_NEEDED:
                unneeded.append(tp)
            else:
                failed[tp] = translate(cause, f"{doing} of {one.topic}-{one.partition}")
        return Elections(sorted(elected), sorted(unneeded), failed)

    def broker_configs(self, broker: int) -> list[BrokerConfig]:
        """All properties of a broker, by name.

        Raises:
            RequestError: they may not be described.
            UnavailableError: no such broker is alive, or it does not answer in time.
        """
        self._check_alive(broker)
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        (future,) = self._admin.describe_configs([resource], request_timeout=_TIMEOUT).values()
        found = wait_for(future, _TIMEOUT, f"reading the configuration of broker {broker}")
        return [
            BrokerConfig(one.name, one.value, ConfigSource(one.source).name, one.is_read_only)
            for one in sorted(found.values(), key=lambda one: one.name)
        ]

    def alter_broker(
        self, broker: int, configs: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set what is named while the broker runs, and take back what is None: all of it or nothing.

        Raises:
            RequestError: Kafka refused: INVALID_REQUEST for a name that is not dynamic, INVALID_CONFIG,
                CLUSTER_AUTHORIZATION_FAILED.
            UnavailableError: no such broker is alive, or no answer in time.
        """
        self._check_alive(broker)
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=entries)
        (future,) = self._admin.incremental_alter_configs(
            [resource], validate_only=validate_only, request_timeout=_TIMEOUT
        ).values()
        wait_for(future, _TIMEOUT, f"altering the configuration of broker {broker}")

    def _check_alive(self, broker: int) -> None:
        # librdkafka waits for one that is not until the time is up, without a reason.
        cluster = wait_for(
            self._admin.describe_cluster(request_timeout=_TIMEOUT), _TIMEOUT, "listing the brokers"
        )
        alive = sorted(node.id for node in cluster.nodes)
        if broker not in alive:
            raise UnavailableError(
                f"broker {broker} is not alive; those that are: {', '.join(map(str, alive))}"
            )
