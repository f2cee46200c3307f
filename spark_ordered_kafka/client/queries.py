"""What confluent-kafka's consumer asks brokers, and what is passed to it as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import TopicPartition

from spark_ordered_kafka.client.arguments import partition_of, partitions_of, seconds_of
from spark_ordered_kafka.client.counts import PartitionFigures
from spark_ordered_kafka.client.ending import EndingConsumer


class GroupMetadata(bytes):
    """A group's metadata as confluent-kafka has it, which knows the consumer that it is of."""

    consumer: Any

    @classmethod
    def of(cls, consumer: Any, metadata: bytes) -> GroupMetadata:
        """The metadata of an OrderedConsumer."""
        made = cls(metadata)
        made.consumer = consumer
        return made


class ConsumerQueries(EndingConsumer):
    """Calls of ``confluent_kafka.Consumer`` that do not touch the order; they raise KafkaException as it does."""

    @property
    def group(self) -> str:
        """``group.id``."""
        return self._options.group

    def figures(self) -> list[PartitionFigures]:
        """The assigned partitions, as of the last fetch; none once it is closed. May be called by any thread."""
        try:
            return [] if self._closed is not None else self._assignment.figures()
        except RuntimeError:
            # It was closed meanwhile.
            return []

    def committed(self, partitions: Sequence[TopicPartition], timeout: float = 10.0) -> list[TopicPartition]:
        """What the group has committed, as ``confluent_kafka.Consumer.committed``."""
        self._check_usable()
        return self._consumer.committed(partitions_of(partitions), seconds_of(timeout))

    def offsets_for_times(
        self, partitions: Sequence[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """For each partition the first offset whose timestamp is that of ``offset`` or later, in ms since 1970-01-01 UTC.

        -1 where there is none. ``timeout`` in seconds; None, or negative: without limit.
        """
        self._check_usable()
        return self._consumer.offsets_for_times(partitions_of(partitions), seconds_of(timeout))

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int] | None:
        """Where a partition's log begins and ends; ``cached``: as of the last fetch, without asking a broker."""
        self._check_usable()
        return self._consumer.get_watermark_offsets(
            partition_of(partition), timeout=seconds_of(timeout), cached=cached
        )

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> Any:
        """Metadata of the cluster, or of one topic, as ``confluent_kafka.Consumer.list_topics``."""
        self._check_usable()
        named = {} if topic is None else {"topic": topic}
        return self._consumer.list_topics(**named, timeout=seconds_of(timeout))

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """The id of the Kafka cluster."""
        self._check_usable()
        return self._consumer.cluster_id(timeout=seconds_of(timeout))

    def memberid(self) -> str | None:
        """The id that the group's coordinator has given to this member."""
        self._check_usable()
        return self._consumer.memberid()

    def consumer_group_metadata(self) -> Any:
        """The group's metadata, as ``confluent_kafka.Consumer.consumer_group_metadata``."""
        self._check_usable()
        return GroupMetadata.of(self, self._consumer.consumer_group_metadata())

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in to brokers with these from the next connection on (PLAIN and SCRAM).

        What the controllers are shown (``controller.username`` and others) stays as it is.
        """
        self._check_usable()
        self._login = (username, password)
        self._consumer.set_sasl_credentials(username, password)
        self._directory.ranges.set_sasl_credentials(username, password)
