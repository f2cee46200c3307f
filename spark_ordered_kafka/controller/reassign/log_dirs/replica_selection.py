"""Filters of requests about brokers, topics and replicas, and refusals of those that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from spark_ordered_kafka.controller.reassign.requests.snapshot_reader import describe
from spark_ordered_kafka.errors import ErrorCode, RequestError, invalid_request
from spark_ordered_kafka.kafka.admin import KafkaAdmin
from spark_ordered_kafka.kafka.values import TopicDescription
from spark_ordered_kafka.listed import listed
from spark_ordered_kafka.parsing import is_topic_name

_SHOWN = 20


@dataclass(frozen=True)
class Selected:
    """A selected replica; ``hosted``: whether the partition has one on the broker. ``leader`` is -1 without one."""

    topic: str
    partition: int
    broker: int
    leader: int
    hosted: bool

    @property
    def tp(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


class ReplicaSelection:
    """Resolves filters; an empty filter selects all.

    Raises RequestError UNKNOWN_MEMBER_ID for a broker that is neither up nor has replicas, UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_TOPIC_EXCEPTION for a name that no topic can have; UnavailableError when Kafka does not answer.
    """

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin

    def topics(
        self, topics: Collection[str], partitions: Collection[int] = ()
    ) -> dict[str, TopicDescription]:
        """The topics, sorted; with those of ``partitions`` that exist in each."""
        for topic in topics:
            if not is_topic_name(topic):
                raise RequestError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"topic has the value {topic[:250]!r}: no topic can have that name",
                )
        tps = [(topic, partition) for topic in topics for partition in partitions]
        found = describe(self._admin, topics, tps) if topics else self._admin.describe_topics()
        for topic in topics:
            if topic not in found:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic has the value {topic!r}: there is no such topic",
                )
        return dict(sorted(found.items()))

    def brokers(self, brokers: Collection[int]) -> list[int]:
        """The brokers in the order of the filter; all of them include those that are down and have replicas."""
        alive = [broker.id for broker in self._admin.brokers()]
        if brokers and set(brokers) <= set(alive):
            return list(brokers)
        hosting = {
            broker
            for topic in self._admin.describe_topics().values()
            for partition in topic.partitions
            for broker in partition.replicas
        }
        known = sorted({*alive, *hosting})
        for broker in brokers:
            if broker not in known:
                raise RequestError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"broker has the value {broker}: {known_are(known)}"
                )
        return list(brokers) or known

    def replicas(
        self, topics: Collection[str], partitions: Collection[int], brokers: Collection[int]
    ) -> Iterator[Selected]:
        """Replicas by topic and partition; ``partitions`` are those of each of ``topics``.

        If partitions and brokers are both named, each pair has a row, with a replica or without. Raises RequestError
        INVALID_REQUEST for partitions without topics.
        """
        if partitions and not topics:
            raise invalid_request(f"partition has the value {next(iter(partitions))}: name its topic, too")
        found = self.topics(topics, partitions)
        if brokers:
            self.brokers(brokers)
        for topic, description in found.items():
            count = len(description.partitions)
            for partition in partitions or range(count):
                if not 0 <= partition < count:
                    raise RequestError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"partition has the value {partition}: topic {topic!r} has 0 to {count - 1}",
                    )
                row = description.partitions[partition]
                for broker in brokers if partitions and brokers else row.replicas:
                    if not brokers or broker in brokers:
                        yield Selected(topic, partition, broker, row.leader, broker in row.replicas)


def known_are(values: Sequence[object]) -> str:
    """The end of a message about a value that is not among ``values``."""
    return f"known are {listed(values, _SHOWN)}"


def not_hosted(tp: tuple[str, int], broker: int) -> RequestError:
    """REPLICA_NOT_AVAILABLE: the partition has no replica on the broker."""
    topic, partition = tp
    return RequestError(
        ErrorCode.REPLICA_NOT_AVAILABLE, f"partition {topic}-{partition} has no replica on broker {broker}"
    )
